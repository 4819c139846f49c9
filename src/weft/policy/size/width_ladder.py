"""Ladders: the widths that a job may climb, and what each rung is worth.

A job climbs from one point of the upper concave hull of its menu to the next. Between two such
points the curve sags: a greedy step of one GPU would meet a gain that is small, none or negative,
and stop for good below a width that pays (tables that were interpolated in time sag everywhere).
On the hull the gain per GPU only falls, so a job that stands still is one that should.

A rung may cost several GPUs, because of the hull, of the grain of seats or of network packing. Its
gain is told per GPU: the rate that, compounded over so many GPUs, makes the whole speed-up.

Jobs of one menu, one range and one pool climb the same ladder. Ladders stand one after the other in
flat columns, so a job's place is one number: its rung.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.menu import Menus
from weft.model.snapshot import Bools, Floats, Ints, NodeColumns
from weft.policy.packing import Packing

WORTHWHILE = 1e-9
"""A rung that speeds a job up by no more than this share is not climbed."""

EQUAL = 1e-12
"""Figures that differ by no more than this share are one figure, rounded differently."""

NEVER = np.iinfo(np.int64).max
"""The cost of the rung above the last."""


@dataclass(frozen=True, slots=True)
class Stride:
    """The widths between which jobs move: in grains from their least, or packed.

    `packed_gpus` are the GPUs of a node, by which a `packing` allows widths. 0 means not packed.
    """

    grain_gpus: int = 1
    packed_gpus: int = 0
    packing: Packing = Packing.NETWORK

    @classmethod
    def on(cls, nodes: NodeColumns, *, grain_gpus: int, packing: Packing) -> "Stride":
        """Packed widths are those of the largest node."""
        return cls(grain_gpus, int(nodes.gpus.max(initial=1)) if packing.packs else 0, packing)

    def least(self, least: Ints, most: Ints) -> Ints:
        """The first allowed width of each range; its least where none is allowed."""
        if not self.packed_gpus:
            return least
        packed = self._packed(int(most.max(initial=0)))
        found = packed[np.searchsorted(packed, least)]
        return np.where((found <= most) & (least > 0), found, least)

    def between(self, least: Ints, most: Ints) -> tuple[Ints, Ints]:
        """How many widths each range has, and all of them in a row; `least` is always the first."""
        if not self.packed_gpus:
            counts = (most - least) // self.grain_gpus + 1
            return counts, np.repeat(least, counts) + self.grain_gpus * places_within(counts)
        packed = self._packed(int(most.max(initial=0)))
        first = np.searchsorted(packed, least)
        counts = np.maximum(np.searchsorted(packed, most, side="right") - first, 1)
        widths = packed[np.repeat(first, counts) + places_within(counts)]
        widths[np.cumsum(counts) - counts] = least
        return counts, widths

    def listed(self, least: Ints, most: Ints, rows: Ints) -> tuple[Ints, Ints]:
        """The same, but only of widths to which a row of the menu is rounded down, and the most."""
        ends = np.column_stack([rows.clip(least[:, None], most[:, None]), most])
        owner = np.repeat(np.arange(len(least)), ends.shape[1])
        width = self.rounded(ends.ravel(), least[owner], most[owner])
        kept = np.unique(np.column_stack([owner, width]), axis=0)
        return np.bincount(kept[:, 0], minlength=len(least)), kept[:, 1]

    def rounded(self, width: Ints, least: Ints, most: Ints) -> Ints:
        """Down to an allowed width, and never below the least."""
        if not self.packed_gpus:
            return width - (width - least) % self.grain_gpus
        packed = self._packed(int(most.max(initial=0)))
        below = packed[np.maximum(np.searchsorted(packed, width, side="right") - 1, 0)]
        return np.maximum(np.minimum(below, width), least)

    def _packed(self, most: int) -> Ints:
        """Rising, and behind the last a width that no range holds."""
        widths = self.packing.widths(self.packed_gpus, most)
        return np.array([*(w for w in widths if w % self.grain_gpus == 0), NEVER], np.int64)


@dataclass(frozen=True, slots=True)
class Ladders:
    """Rungs of all ladders, and for each what the next one costs in GPUs and brings per GPU.

    With the speed p here and p' on the next rung, q GPUs away: `gain` is r = (p'/p)^(1/q) − 1, the
    speed-up, and `loss` is s = 1 − (p/p')^(1/q), what would be missing without it.
    """

    width: Ints
    speed: Floats
    cost: Ints
    gain: Floats
    loss: Floats

    @classmethod
    def of(
        cls, menus: Menus, ranges: "Ranges", stride: Stride, *, hull: bool = True
    ) -> tuple["Ladders", Ints, Ints]:
        """The ladders of these ranges, the first rung of each, and the pool of each rung."""
        if menus.dense:
            counts, width = stride.between(ranges.least, ranges.most)
        else:
            counts, width = stride.listed(ranges.least, ranges.most, menus.gpus[ranges.menu])
        owner = np.repeat(np.arange(len(counts)), counts)
        speed = ranges.speeds(menus, owner, width)
        if hull:
            kept = _on_hull(owner, width, speed, pinned=width == ranges.held[owner])
            kept = kept[_rising(owner[kept], speed[kept])]
            owner, width, speed = owner[kept], width[kept], speed[kept]
        first = np.searchsorted(owner, np.arange(len(counts)))
        return cls._priced(owner, width, speed), first, ranges.pool[owner]

    @classmethod
    def _priced(cls, owner: Ints, width: Ints, speed: Floats) -> "Ladders":
        cost = np.full(len(width), NEVER)
        gain, loss = np.full(len(width), -1.0), np.full(len(width), -1.0)
        below = np.flatnonzero(owner[1:] == owner[:-1])
        cost[below] = width[below + 1] - width[below]
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = (speed[below + 1] / speed[below]) ** (1.0 / cost[below])
            factor[np.isnan(factor)] = 1.0  # from no speed to no speed
            gain[below] = factor - 1.0
            loss[below] = 1.0 - 1.0 / (1.0 + gain[below])
        return cls(width, speed, cost, gain, loss)


@dataclass(frozen=True, slots=True)
class Ranges:
    """From which width to which on which menu, one row per ladder, and who pays for a climb.

    `held` is the width that is being held, where that matters: a menu that is not sure of itself
    is read at its low end below that width, where GPUs would be taken away, and at its high end
    above, and that width is always a rung. -1 means that it does not matter.
    """

    menu: Ints
    least: Ints
    most: Ints
    held: Ints
    pool: Ints

    def speeds(self, menus: Menus, owner: Ints, width: Ints) -> Floats:
        """Of rungs of these widths on the ladders `owner`."""
        menu = self.menu[owner]
        likely = menus.speeds(menu, width)
        if (self.held < 0).all():
            return likely
        held = self.held[owner]
        low, high = menus.intervals(menu, width)
        apart = np.where(width < held, low, np.where(width > held, high, likely))
        return np.where(held < 0, likely, apart)

    def distinct(self) -> tuple["Ranges", Ints]:
        """Each range once, and which of them every row is."""
        keys = (self.pool, self.held, self.most, self.least, self.menu)
        order = np.lexsort(keys)
        new = np.zeros(len(order), bool)
        new[:1] = True
        for key in keys:
            new[1:] |= np.diff(key[order]) != 0
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(new) - 1
        one = order[new]
        found = (self.menu, self.least, self.most, self.held, self.pool)
        return Ranges(*(column[one] for column in found)), number


def places_within(counts: Ints) -> Ints:
    """0, 1, 2, … within each of so many groups of so many."""
    first = np.cumsum(counts) - counts
    return np.arange(int(counts.sum())) - np.repeat(first, counts)


def _on_hull(owner: Ints, width: Ints, speed: Floats, pinned: Bools) -> Ints:
    """The rungs on the upper concave hull of their ladder.

    A rung below the line between its neighbours is below the hull, whichever neighbours it has; so
    all of them may go at once, again and again, until a ladder has none. Rungs on the line stay,
    and so do pinned ones: they part a ladder into two hulls.
    """
    on = np.ones(len(owner), bool)
    at = np.arange(len(owner))
    while len(at):
        sags = at[_sagging(owner[at], width[at], speed[at])]
        sags = sags[~pinned[sags]]
        on[sags] = False
        changed = np.zeros(int(owner[-1]) + 1, bool)
        changed[owner[sags]] = True
        at = at[on[at] & changed[owner[at]]]
    return np.flatnonzero(on)


def _sagging(owner: Ints, width: Ints, speed: Floats) -> Bools:
    found = np.zeros(len(owner), bool)
    left, here, right = slice(None, -2), slice(1, -1), slice(2, None)
    rise = (speed[here] - speed[left]) * (width[right] - width[here])
    next_rise = (speed[right] - speed[here]) * (width[here] - width[left])
    between = owner[left] == owner[right]
    slack = EQUAL * np.abs(speed[right]) * (width[right] - width[left])
    found[here] = between & (rise < next_rise - slack)
    return found


def _rising(owner: Ints, speed: Floats) -> Ints:
    """The first rung of each ladder, and those that are worth a climb from the one below."""
    at = np.arange(len(owner))
    while True:
        begins = np.diff(owner[at], prepend=-1) != 0
        pays = np.diff(speed[at], prepend=0.0) > WORTHWHILE * speed[np.roll(at, 1)]
        if (begins | pays).all():
            return at
        at = at[begins | pays]
