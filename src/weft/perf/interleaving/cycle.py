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
LOADING = SLOTS
"""The column of the stage that spans the first two slots."""

MOST_MEMBERS = SLOTS
"""A resource each: a fifth member would wait for one that is always taken."""


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
    ways = offsets_of(stages.shape[1])
    cycles = np.stack([cycle_seconds(stages, way) for way in ways])
    best = cycles.argmin(axis=0)
    return cycles[best, np.arange(len(stages))], best


def cycle_seconds(stages: Floats, offsets: Sequence[int]) -> Floats:
    """The period of each group with these offsets."""
    shifted = [np.roll(stages[:, p, :SLOTS], by, axis=1) for p, by in enumerate(offsets)]
    single = np.maximum.reduce(shifted)
    spans = np.zeros_like(single)
    for member, begins in enumerate(offsets):
        spans[:, begins] = np.maximum(spans[:, begins], stages[:, member, LOADING])
    return _period(single, spans)


def _period(single: Floats, spans: Floats) -> Floats:
    """The heaviest way around the ring: `spans[:, s]` reaches over the slots s and s + 1."""
    ways = [single.sum(axis=1)]
    for begins in range(SLOTS):
        others = [(begins + 2) % SLOTS, (begins + 3) % SLOTS]
        ways.append(spans[:, begins] + single[:, others].sum(axis=1))
    ways.extend(spans[:, begins] + spans[:, begins + 2] for begins in range(2))
    longest: Floats = np.maximum.reduce(ways)
    return longest
