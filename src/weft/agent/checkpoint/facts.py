"""State that is no tensor, as JSON and back: exactly, and without ever naming code.

Numbers, text, lists and objects are themselves. What JSON lacks is an object with the key `$`: a
tuple, a table whose keys are no text, a counter, an infinity. Whatever the caller takes for a leaf
of its own (a tensor) is written as a reference. The list of forms is closed: a value of any other
type is an error that names where it stands, and a form that is not known is refused on reading.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final, cast

from weft.agent.checkpoint.document import MOST_DIGITS, Json
from weft.agent.checkpoint.errors import StateMismatch, UnsavableState

FORM: Final = "$"
MOST_LEVELS: Final = 18  # each may take three of the 64 levels that a document may have

Fold = Callable[[str, object], Json]
Unfold = Callable[[Json], object]


def fold(value: object, path: str, leaf: Fold | None = None) -> Json:
    """`value` as JSON; `leaf` is asked about what has no form, and may answer with a reference."""
    if path.count("/") > MOST_LEVELS:
        raise _unsavable(path, "is nested too deep")
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float):
        return _number(value, path)
    if isinstance(value, list | tuple | Mapping):
        return _collection(value, path, leaf)
    if leaf is None:
        raise _unsavable(path, f"is a {type(value).__name__}")
    return {FORM: "leaf", "of": leaf(path, value)}


def unfold(value: Json, leaf: Unfold | None = None) -> object:
    """What was folded."""
    if isinstance(value, list):
        return [unfold(one, leaf) for one in value]
    if not isinstance(value, dict):
        return value
    if FORM not in value:
        return {key: unfold(one, leaf) for key, one in value.items()}
    form, inner = value[FORM], value.get("of")
    if form == "leaf" and leaf is not None:
        return leaf(inner)
    if form == "float" and inner in ("inf", "-inf", "nan"):
        return float(inner)
    if form in ("tuple", "counter", "table") and isinstance(inner, list):
        return _unfolded(form, inner, leaf)
    raise StateMismatch(
        f"facts hold a form that is not known: {str(form)[:32]!r}",
        hint="they were written by a newer version of Weft; use that one",
    )


def together(parts: Sequence[Json]) -> Json:
    """The facts of workers that saved one moment: stages of a pipeline name their own parameters.

    All else that differs (where a stream stands, which only its reader knows) is as the first says.
    """
    first = parts[0]
    if all(part == first for part in parts):
        return first
    try:
        optimizers = [part["optimizer"] for part in parts]
        names = _joined([[group["params"] for group in one["groups"]] for one in optimizers])
        groups = [
            {**group, "params": of_group}
            for group, of_group in zip(optimizers[0]["groups"], names, strict=True)
        ]
        began = _began(optimizers)
        state = {name: of for one in optimizers for name, of in one["state"].items()}
        frozen = sorted({name for part in parts for name in part.get("frozen", ())})
    except (TypeError, KeyError, ValueError, AttributeError):
        return first  # whoever loads it says what is wrong with it
    optimizer = {**optimizers[0], **began, "groups": groups, "state": state}
    told = {**first, "optimizer": optimizer}
    return {**told, "frozen": frozen} if "frozen" in first else told


def _joined(parts: Sequence[Sequence[Json]]) -> list[Json]:
    """The names of each group, over the workers that hold a part of the model."""
    return [
        list(dict.fromkeys(name for group in same for name in group))
        for same in zip(*parts, strict=True)
    ]


def _began(optimizers: Sequence[Json]) -> dict[str, Json]:
    """Where their groups began, if any has changed since: see `weft.train.state`."""
    if not any("prepared" in one for one in optimizers):
        return {}
    prepared = [
        one.get("prepared") or [group["params"] for group in one["groups"]] for one in optimizers
    ]
    moved = {name for one in optimizers for name in one.get("moved", ())}
    return {"prepared": _joined(prepared), "moved": sorted(moved)}


def _unfolded(form: str, inner: list[Json], leaf: Unfold | None) -> object:
    items = [unfold(one, leaf) for one in inner]
    if form == "tuple":
        return tuple(items)
    try:
        table: dict[object, object] = dict(cast(list[tuple[object, object]], items))
    except (TypeError, ValueError) as error:
        raise StateMismatch(f"facts hold a table that is none: {error}") from error
    return Counter(table) if form == "counter" else table


def _number(value: int | float, path: str) -> Json:
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {FORM: "float", "of": str(float(value))}
    if len(str(abs(value))) >= MOST_DIGITS:
        raise _unsavable(path, "has too many digits")
    return int(value)


def _collection(
    value: list[object] | tuple[object, ...] | Mapping[object, object],
    path: str,
    leaf: Fold | None,
) -> Json:
    if isinstance(value, list | tuple):
        items = [fold(one, f"{path}/{index}", leaf) for index, one in enumerate(value)]
        return items if isinstance(value, list) else {FORM: "tuple", "of": items}
    if isinstance(value, Counter):
        return {FORM: "counter", "of": _table(value, path, leaf)}
    if FORM in value or not all(isinstance(key, str) for key in value):
        return {FORM: "table", "of": _table(value, path, leaf)}
    return {str(key): fold(one, f"{path}/{key}", leaf) for key, one in value.items()}


def _table(values: Mapping[object, object], path: str, leaf: Fold | None) -> Json:
    return [
        [fold(key, f"{path}/{key}"), fold(one, f"{path}/{key}", leaf)]
        for key, one in values.items()
    ]


def _unsavable(path: str, what: str) -> UnsavableState:
    return UnsavableState(
        f"{path} cannot be saved: it {what}",
        hint="state_dict() must hold tensors, numbers, text, lists, tuples and dicts only",
    )
