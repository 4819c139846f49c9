"""Optimus (Peng and others, EuroSys 2018): the next GPU goes where it saves most seconds.

A rung from speed p to p', q GPUs away, saves a job with the work w left (w/p − w/p') / q seconds
per GPU. On a concave ladder that only falls, so a heap by it is the greedy hand-out.

It favours long jobs: they have most to save. A job whose length nobody knows is taken to need as
much service again as it has had, which is the best guess for lengths with a heavy tail and takes
nothing from other jobs; one that has had none counts as having had a moment, so new jobs of one
curve share evenly.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.size.climb import Climb, Climbing
from weft.policy.size.greedy import MOST_GAIN, greedily
from weft.policy.size.width_ladder import NEVER, Ladders
from weft.policy.supply import Purse


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus(Climbing):
    """Marginal gain: the largest saving of remaining seconds per GPU."""

    def climbed(self, climb: Climb, purse: Purse) -> Ints:
        savings = _savings(climb.ladders)
        return greedily(
            climb, climb.expected_work(), savings, climb.seq, purse=purse, least=-np.inf
        )


def _savings(ladders: Ladders) -> Floats:
    """Seconds per unit of work and GPU that the next rung saves."""
    saved = np.zeros(len(ladders.cost))
    below = np.flatnonzero(ladders.cost < NEVER)
    with np.errstate(divide="ignore", invalid="ignore"):
        slowness = 1.0 / ladders.speed
        saved[below] = (slowness[below] - slowness[below + 1]) / ladders.cost[below]
    return np.nan_to_num(saved, nan=0.0, posinf=MOST_GAIN)
