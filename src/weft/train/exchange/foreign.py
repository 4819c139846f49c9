"""A checkpoint that something else than Weft has written, as the importer sees it.

Each tensor has a name of its own and a path: `("model", "layers.0.weight")`, or `("optimizer",
"state", "0", "exp_avg")`. What is no tensor stands beside under its path. From the paths follow the
names that Weft gives them; what fits nowhere is left out and named.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import torch
from torch import Tensor

from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import Damaged, UnsavableState
from weft.agent.checkpoint.facts import fold
from weft.agent.checkpoint.layout import TensorRecord, check_record, whole
from weft.model.errors import SpecError
from weft.train.state.parameter_groups import fold_scalar

MODEL: Final = ("model", "module", "state_dict")
OPTIMIZER: Final = ("optimizer", "optim")
SCHEDULER: Final = ("scheduler", "lr_scheduler")
STATE, GROUPS, PARAMS = "state", "param_groups", "params"

Path = tuple[str, ...]
Progress = Callable[[int, int | None], None]


class Foreign(Protocol):
    """A reader of one format."""

    kind: str

    @property
    def tensors(self) -> Mapping[str, tuple[str, tuple[int, ...]]]:
        """Type and shape of each, by its own name."""

    @property
    def paths(self) -> Mapping[str, Path]:
        """Where each tensor stands."""

    def plain(self) -> Mapping[Path, Any]:
        """What is no tensor, by where it stands."""

    def read_into(self, targets: Mapping[str, Tensor], tell: Progress) -> None:
        """Fill these tensors with those of the same name."""


@dataclass(frozen=True, slots=True)
class Understood:
    """What Weft makes of it: names, a part of the facts, and what has no place."""

    names: Mapping[str, str]
    facts: Json
    left_out: tuple[str, ...] = field(default=())
    has_optimizer: bool = False


def records_of(foreign: Foreign, names: Mapping[str, str]) -> dict[str, TensorRecord]:
    """By Weft's names, as one worker would hold them."""
    found = {}
    for name, theirs in sorted(names.items()):
        if theirs not in foreign.tensors:
            raise Damaged(f"{theirs} is missing", hint="export it again")
        dtype, shape = foreign.tensors[theirs]
        found[name] = whole(name, dtype, shape)
        check_record(found[name])
    return found


def understood(foreign: Foreign) -> Understood:
    """The names and facts of a checkpoint that knows nothing of Weft."""
    depth = _depth(foreign.paths)
    names: dict[str, str] = {}
    left_out: list[str] = []
    for theirs, path in foreign.paths.items():
        name = _name(_unflattened(path[depth:] if depth is not None else ("model", *path)))
        if name is None or name in names:
            left_out.append(theirs)
        else:
            names[name] = theirs
    if not any(name.startswith("model/") for name in names):
        raise _no_model(foreign)
    numbers = _numbers(foreign, left_out)
    left_out = [theirs for theirs in left_out if theirs not in numbers]
    plain = {**foreign.plain(), **{foreign.paths[name]: one for name, one in numbers.items()}}
    told = _Told({_unflattened(path[depth or 0 :]): value for path, value in plain.items()})
    left_out += told.strange()
    has_optimizer = any(name.startswith("optimizer/") for name in names)
    return Understood(names, told.facts(foreign.kind), tuple(sorted(left_out)), has_optimizer)


def _numbers(foreign: Foreign, names: Iterable[str]) -> dict[str, Tensor]:
    """Options of an optimizer that are tensors of one element, such as a learning rate."""
    found = {
        name: torch.zeros((), dtype=getattr(torch, foreign.tensors[name][0]))
        for name in names
        if GROUPS in foreign.paths[name] and not foreign.tensors[name][1]
    }
    foreign.read_into(found, lambda *_: None)
    return found


def _depth(paths: Mapping[str, Path]) -> int | None:
    """How deep the word for the model stands; None where all tensors are the model's."""
    for depth in (0, 1):
        if any(len(path) > depth + 1 and path[depth] in MODEL for path in paths.values()):
            return depth
    return None if all(len(path) == 1 for path in paths.values()) else 0


def _unflattened(path: Path) -> Path:
    """An optimizer's state under one key each, `state.<parameter>.<key>`, as torch also has it."""
    if len(path) == 2 and path[0] in OPTIMIZER and path[1].startswith(f"{STATE}."):  # noqa: PLR2004
        one, dot, key = path[1].removeprefix(f"{STATE}.").rpartition(".")
        return (path[0], STATE, one, key) if dot else path
    return path


def _name(path: Path) -> str | None:
    if len(path) > 1 and path[0] in MODEL:
        return f"model/{'.'.join(path[1:])}"
    if len(path) > 3 and path[0] in OPTIMIZER and path[1] == STATE:  # noqa: PLR2004 - a parameter, a key
        return f"optimizer/{'.'.join(path[2:-1])}/{path[-1]}"
    return None


class _Told:
    """What is no tensor, sorted by what it belongs to."""

    def __init__(self, plain: Mapping[Path, Any]) -> None:
        self._groups: dict[int, dict[str, Any]] = {}
        self._state: dict[str, dict[str, Any]] = {}
        self._scheduler: dict[str, Any] = {}
        self._strange: dict[str, Any] = {}
        for path, value in plain.items():
            self._sort(path, value)

    def strange(self) -> list[str]:
        """What has no place, with its value where that is short."""
        return [f"{name} = {value!r:.40}" for name, value in self._strange.items()]

    def facts(self, kind: str) -> Json:
        groups = [self._groups[number] for number in sorted(self._groups)]
        members = [one for group in groups for one in group.get(PARAMS) or ()]
        by_position = all(type(one) is int for one in members or [""])
        return {
            "kind": kind,
            "by_position": by_position,
            "groups": [
                {
                    "params": [str(one) for one in group.get(PARAMS) or ()],
                    "options": self._folded(group, "optimizer"),
                }
                for group in groups
            ],
            "state": {one: self._folded(state, one) for one, state in self._state.items()},
            "scheduler": self._folded(self._scheduler, "scheduler") or None,
        }

    def _sort(self, path: Path, value: Any) -> None:  # noqa: ANN401
        match path:
            case (root, word, number, key) if _is_group(root, word, number):
                self._groups.setdefault(int(number), {})[key] = value
            case (root, word, one, key) if root in OPTIMIZER and word == STATE:
                self._state.setdefault(one, {})[key] = value
            case (root, key) if root in SCHEDULER:
                self._scheduler[key] = value
            case _:
                self._strange[".".join(path)] = value

    def _folded(self, values: Mapping[str, Any], where: str) -> dict[str, Json]:
        found = {}
        for key, value in values.items():
            if key == PARAMS:
                continue
            try:
                found[key] = fold(value, f"{where}/{key}", fold_scalar)
            except UnsavableState:
                self._strange[f"{where}.{key}"] = value
        return found


def _is_group(root: str, word: str, number: str) -> bool:
    return root in OPTIMIZER and word == GROUPS and number.isdecimal()


def _no_model(foreign: Foreign) -> SpecError:
    roots = sorted({path[0] for path in foreign.paths.values()})
    return SpecError(
        f"no model is found in it; at its top stand {', '.join(roots[:8]) or 'no tensors'}",
        hint='save it as {"model": model.state_dict(), "optimizer": optimizer.state_dict()}',
    )
