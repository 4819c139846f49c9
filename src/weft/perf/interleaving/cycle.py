"""How long one cycle of a group takes: members shifted against each other, slot by slot.

A cycle has a slot per resource. A member at offset o has its stage of resource r in slot r + o, so
no two members at different offsets need one resource in the same slot, and a slot lasts as long as
its slowest stage. A loading stage spans two slots. The borders of the slots then obey a max-plus
recurrence around a ring of four, whose steady period is the heaviest way once around it: by single
slots, by spans of two, or by a mixture, seven ways in all. So the period is exact, without running
the recurrence.
"""

from collections.abc import Sequence
from functools import cache
from itertools import permutations

import numpy as np
import numpy.typing as npt

from weft.model.stages import RESOURCES

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SLOTS = len(RESOURCES)
NEXT, OPPOSITE = np.roll(np.arange(SLOTS), -1), np.roll(np.arange(SLOTS), -2)
LOADING = SLOTS
"""The column of the stage that spans the first two slots."""

MOST_MEMBERS = SLOTS
"""A resource each: a fifth member would wait for one that is always taken."""

MOST_AT_ONCE = 4_096
"""Groups, so that what is looked at stays in the processor's cache."""


@cache
def offsets_of(members: int) -> tuple[tuple[int, ...], ...]:
    """All ways to shift so many members against each other; the first one is never shifted."""
    return tuple((0, *rest) for rest in permutations(range(1, SLOTS), members - 1))


def best_cycles(stages: Floats) -> tuple[Floats, Ints]:
    """The shortest cycle of each group and the row of `offsets_of` that has it.

    `stages[group, member, column]` are seconds: the slots, then loading.
    """
    if not len(stages):
        return np.zeros(0), np.zeros(0, np.int64)
    parts = [_best(stages[at : at + MOST_AT_ONCE]) for at in range(0, len(stages), MOST_AT_ONCE)]
    return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])


def _best(stages: Floats) -> tuple[Floats, Ints]:
    cycles = _periods(stages, offsets_of(stages.shape[1]))
    best = cycles.argmin(axis=1)
    return cycles[np.arange(len(stages)), best], best


def cycle_seconds(stages: Floats, offsets: Sequence[int]) -> Floats:
    """The period of each group with these offsets."""
    return _periods(stages, (tuple(offsets),))[:, 0]


def _periods(stages: Floats, ways: tuple[tuple[int, ...], ...]) -> Floats:
    """The period of each group in each of these ways; all of them at once."""
    member, column, begins = _shifts(ways)
    single = stages[:, member, column].max(axis=2)
    nobody = np.zeros((len(stages), 1))
    spans = np.concatenate([stages[:, :, LOADING], nobody], axis=1)[:, begins]
    return _period(single, spans)


@cache
def _shifts(ways: tuple[tuple[int, ...], ...]) -> tuple[Ints, Ints, Ints]:
    """By way: which column of each member falls into each slot, and who begins to load in it.

    A slot in which nobody begins has the row behind the last member.
    """
    offsets = np.array(ways, np.int64)
    members = offsets.shape[1]
    column = (np.arange(SLOTS) - offsets[:, :, None]) % SLOTS
    begins = np.full((len(ways), SLOTS), members, np.int64)
    np.put_along_axis(begins, offsets, np.broadcast_to(np.arange(members), offsets.shape), axis=1)
    return np.arange(members)[None, :, None], column, begins


def _period(single: Floats, spans: Floats) -> Floats:
    """The heaviest way around the ring: `spans[..., s]` reaches over the slots s and s + 1."""
    beside = single + single[..., NEXT]
    around = single.sum(axis=-1)
    one_span = (spans + beside[..., OPPOSITE]).max(axis=-1)
    two_spans = (spans[..., :2] + spans[..., 2:]).max(axis=-1)
    longest: Floats = np.maximum(np.maximum(around, one_span), two_spans)
    return longest
