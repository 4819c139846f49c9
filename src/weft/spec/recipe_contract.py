"""What the parts of a recipe must be and must return, checked of those that are not Weft's own.

The round trusts its recipe: a width that no job asked for, or a NaN among the keys, would show up
far from its cause, as a broken promise of the scheduler or as a strange schedule. Where a user
wrote the part, each answer is looked at when it is given, and the error names the function, the
job and what was expected.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from weft.model.errors import SpecError
from weft.model.kind import Kind
from weft.model.snapshot import Bools, Ints, Snapshot
from weft.policy.host.shares import HostShares
from weft.policy.order.ranking import Order, Ranking
from weft.policy.place.fabric import Fabric
from weft.policy.place.packing import Offer, Place
from weft.policy.place.patience import Patience
from weft.policy.place.room import Room
from weft.policy.plans.planning import Planning
from weft.policy.recipe import (
    Defragmenting,
    Passing,
    Recipe,
    Reserving,
    Resizing,
    Rounds,
    Yielding,
)
from weft.policy.share.sharing import Sharing
from weft.policy.size.requested import Size
from weft.policy.supply import Supply
from weft.policy.waiting import Waiting

RANKING = "for example: return Ranking((snapshot.jobs.submitted[slots],))"
WIDTHS = "for example: return snapshot.jobs.asked_gpus[slots]"
OFFER = "for example: return best_fit(room, fabric, kind, width, avoid=avoid)"

PARTS: Mapping[str, tuple[str, str]] = {
    "order": ("(snapshot, slots)", RANKING),
    "size": ("(snapshot, slots, supply)", WIDTHS),
    "place": ("(room, fabric, kind, width, *, avoid=None)", OFFER),
}
KINDS: Mapping[str, tuple[type, ...]] = {
    "patience": (Patience,),
    "rounds": (Rounds,),
    "passing": (Passing,),
    "yielding": (Yielding, type(None)),
    "resizing": (Resizing, type(None)),
    "host": (HostShares, type(None)),
    "sharing": (Sharing, type(None)),
    "planning": (Planning, type(None)),
    "reserving": (Reserving, type(None)),
    "defragmenting": (Defragmenting, type(None)),
    "waiting": (Waiting,),
}


class Calling(Protocol):
    """Calls a part that a user wrote; as a text it says where that stands."""

    def __call__(self, part: Callable[..., object], *given: object, **named: object) -> object: ...


def held_to_it(
    recipe: Recipe, calling: Callable[[Callable[..., object]], Calling | None]
) -> Recipe:
    """The same recipe, its parts checked; `calling` is None for parts that need none."""
    _check_parts(recipe)
    checked: dict[str, Any] = {}
    if (order := calling(recipe.order)) is not None:
        checked["order"] = CheckedOrder(recipe.order, order)
    if (size := calling(recipe.size)) is not None:
        checked["size"] = CheckedSize(recipe.size, size, elastic=recipe.resizing is not None)
    if (place := calling(recipe.place)) is not None:
        checked["place"] = CheckedPlace(recipe.place, place)
    return replace(recipe, **checked) if checked else recipe


@dataclass(frozen=True, slots=True)
class CheckedOrder:
    """An order whose rankings are looked at."""

    part: Order
    calling: Calling

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        found = self.calling(self.part, snapshot, slots)
        if not isinstance(found, Ranking):
            raise _wrong(self.calling, f"returned {_kind(found)}", "a Ranking", RANKING)
        if not isinstance(found.keys, tuple | list) or not found.keys:
            said = f"the keys of its Ranking are {_kind(found.keys)}"
            raise _wrong(self.calling, said, "a tuple of arrays", RANKING)
        for number, key in enumerate(found.keys, start=1):
            _check_column(self.calling, key, f"key {number}", snapshot, slots)
        for name in ("levels", "promoted"):
            column = getattr(found, name)
            if column is not None:
                _check_column(self.calling, column, name, snapshot, slots)
        if found.wake is not None and not _is_number(found.wake):
            said = f"the wake of its Ranking is {found.wake!r}"
            raise _wrong(self.calling, said, "a time in seconds, or None", "see Ranking.wake")
        return replace(found, keys=tuple(found.keys))


@dataclass(frozen=True, slots=True)
class CheckedSize:
    """A size whose widths are looked at; only an `elastic` recipe may give a job none."""

    part: Size
    calling: Calling
    elastic: bool

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        found = self.calling(self.part, snapshot, slots, supply)
        widths = _check_column(self.calling, found, "", snapshot, slots, hint=WIDTHS)
        if widths.dtype.kind not in "iu":
            said = f"returned an array of {widths.dtype}"
            raise _wrong(self.calling, said, "whole numbers of GPUs", "widths.astype(int)")
        least, most = snapshot.jobs.min_gpus[slots], snapshot.jobs.max_gpus[slots]
        outside = (widths < least) | (widths > most)
        if self.elastic:
            outside &= widths != 0
        if outside.any():
            at = int(outside.argmax())
            job = snapshot.spec(int(slots[at])).id
            may = f"{least[at]} to {most[at]}" if least[at] != most[at] else f"exactly {most[at]}"
            raise _wrong(
                self.calling,
                f"gives job '{job}' {_gpus(int(widths[at]))}",
                f"{may}, as the job asked" + (", or 0 for none now" if self.elastic else ""),
                "np.clip(widths, snapshot.jobs.min_gpus[slots], snapshot.jobs.max_gpus[slots])",
            )
        return widths.astype(np.int64, copy=False)


@dataclass(frozen=True, slots=True)
class CheckedPlace:
    """A place whose offers are looked at."""

    part: Place
    calling: Calling

    def __call__(
        self, room: Room, fabric: Fabric, kind: Kind, width: int, *, avoid: Bools | None = None
    ) -> Offer | None:
        found = self.calling(self.part, room, fabric, kind, width, avoid=avoid)
        if found is None:
            return None
        if not isinstance(found, Offer):
            said = f"returned {_kind(found)}"
            raise _wrong(self.calling, said, "an Offer, or None where there is no place", OFFER)
        self._check(found, room, fabric, kind, width)
        return found

    def _check(self, offer: Offer, room: Room, fabric: Fabric, kind: Kind, width: int) -> None:
        self._check_shares(offer, len(room.gpus))
        total = sum(gpus for _, gpus in offer.shares)
        if total != width:
            said = f"its offer has {_gpus(total)}"
            raise _wrong(self.calling, said, f"the {width} that were asked for", OFFER)
        tiers = fabric.site(kind).tiers if width else ()
        offered = [room.offered(kind, tier) for tier in tiers]
        for node, gpus in offer.shares:
            most = max((int(one[node]) for one in offered), default=0) if width else gpus
            if gpus > most:
                said = f"its offer takes {_gpus(gpus)} of node {node}"
                raise _wrong(self.calling, said, f"at most the {most} it can give this job", OFFER)
        if not _is_number(offer.slowdown) or not _is_number(offer.speed):
            said = f"its offer has slowdown {offer.slowdown!r} and speed {offer.speed!r}"
            raise _wrong(self.calling, said, "numbers", OFFER)

    def _check_shares(self, offer: Offer, nodes: int) -> None:
        pairs = isinstance(offer.shares, tuple) and all(
            isinstance(share, tuple) and [type(part) for part in share] == [int, int]
            for share in offer.shares
        )
        if not pairs or not offer.shares:
            said = f"the shares of its offer are {offer.shares!r}"
            raise _wrong(self.calling, said, "a tuple of pairs (node, GPUs) of int", OFFER)
        rows = [node for node, _ in offer.shares]
        if len(set(rows)) < len(rows) or not all(0 <= row < nodes for row in rows):
            said = f"its offer is on nodes {rows}"
            raise _wrong(self.calling, said, f"different ones of 0 to {nodes - 1}", OFFER)


def _check_parts(recipe: Recipe) -> None:
    """Everything that can be seen before the first round."""
    if not isinstance(recipe.name, str) or not recipe.name:
        raise SpecError(
            f"the name of a recipe is {recipe.name!r}", hint="Recipe(name='mine', …): a text"
        )
    for name, (takes, example) in PARTS.items():
        _check_function(name, getattr(recipe, name), takes, example)
    for name, kinds in KINDS.items():
        value = getattr(recipe, name)
        if not isinstance(value, kinds):
            words = " or ".join("None" if kind is type(None) else kind.__name__ for kind in kinds)
            raise SpecError(
                f"recipe '{recipe.name}': {name} is {_kind(value)} ({value!r})",
                hint=f"expected {words}, of weft.policy.recipe",
            )
    _check_times(recipe)


def _check_function(name: str, part: object, takes: str, example: str) -> None:
    if isinstance(part, type):
        raise SpecError(
            f"{name} is the class {part.__name__} itself", hint=f"make one: {part.__name__}()"
        )
    if not callable(part):
        raise SpecError(
            f"{name} is {_kind(part)}, not a function", hint=f"def {name}{takes}; {example}"
        )
    count = 4 if name == "place" else takes.count(",") + 1
    try:
        inspect.signature(part).bind(*range(count), **({"avoid": None} if name == "place" else {}))
    except TypeError as error:
        written = f"{getattr(part, '__name__', name)}{inspect.signature(part)}"
        raise SpecError(
            f"{name} is {written}, which cannot be called: {error}",
            hint=f"it is called as {name}{takes}",
        ) from None
    except ValueError:
        pass  # what C is has no signature


def _check_times(recipe: Recipe) -> None:
    rounds = recipe.rounds
    if not _is_number(rounds.spacing_seconds) or rounds.spacing_seconds < 0:
        raise SpecError(
            f"recipe '{recipe.name}': rounds.spacing_seconds is {rounds.spacing_seconds!r}",
            hint="expected 0 or more seconds",
        )
    period = rounds.period_seconds
    if period is not None and (not _is_number(period) or period <= 0):
        raise SpecError(
            f"recipe '{recipe.name}': rounds.period_seconds is {period!r}",
            hint="expected more than 0 seconds, or None for rounds at events",
        )


def _check_column(
    calling: Calling,
    column: object,
    name: str,
    snapshot: Snapshot,
    slots: Ints,
    *,
    hint: str = RANKING,
) -> npt.NDArray[Any]:
    """One number for each job that was asked about."""
    said = f"{name} of its Ranking is" if name else "returned"
    if not isinstance(column, np.ndarray) or column.dtype.kind not in "biuf":
        raise _wrong(calling, f"{said} {_kind(column)}", "an array of numbers", hint)
    if column.shape != (len(slots),):
        found = f"{len(column)} numbers" if column.ndim == 1 else f"of shape {column.shape}"
        expected = f"{len(slots)}, one for each of the slots that it was given"
        raise _wrong(calling, f"{said} {found}", expected, hint)
    if column.dtype.kind == "f" and np.isnan(column).any():
        job = snapshot.spec(int(slots[int(np.isnan(column).argmax())])).id
        raise _wrong(
            calling,
            f"{said} NaN for job '{job}'",
            "a number",
            "what nobody knows is NaN in the snapshot: np.nan_to_num(key, nan=np.inf) puts it last",
        )
    return column


def _wrong(calling: Calling, said: str, expected: str, hint: str) -> SpecError:
    return SpecError(f"{calling}: {said}; expected {expected}", hint=hint)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and bool(np.isfinite(float(value)))


def _kind(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _gpus(count: int) -> str:
    return "1 GPU" if count == 1 else f"{count} GPUs"
