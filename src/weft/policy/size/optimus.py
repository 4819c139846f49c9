"""Optimus (Peng and others, EuroSys 2018): the next GPU goes where it saves most seconds.

A rung from speed p to p', q GPUs away, saves a job with the work w left (w/p − w/p') / q seconds
per GPU. On a concave ladder that only falls, so a heap by it is the greedy hand-out.

It favours long jobs: they have most to save. A job whose length nobody knows is taken to need as
much service again as it has had, which is the best guess for lengths with a heavy tail and takes
nothing from other jobs; one that has had none counts as having had a moment, so new jobs of one
curve share evenly.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.size.climb import Climb, Climbing
from weft.policy.size.ladder import NEVER, Ladders

MOMENT_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimus(Climbing):
    """Marginal gain: the largest saving of remaining seconds per GPU."""

    def climbed(self, climb: Climb, left: int) -> Ints:
        return _greedily(climb, _work(climb), _savings(climb.ladders), left)


def _work(climb: Climb) -> Floats:
    """Of which attained service is GPU-seconds, so it is that many seconds on the first rung."""
    ladders, first = climb.ladders, climb.first
    served_seconds = np.maximum(climb.attained, MOMENT_SECONDS) / ladders.width[first]
    return np.where(np.isnan(climb.work), served_seconds * ladders.speed[first], climb.work)


def _savings(ladders: Ladders) -> Floats:
    """Seconds per unit of work and GPU that the next rung saves."""
    saved = np.zeros(len(ladders.cost))
    below = np.flatnonzero(ladders.cost < NEVER)
    with np.errstate(divide="ignore"):
        slowness = 1.0 / ladders.speed
    saved[below] = (slowness[below] - slowness[below + 1]) / ladders.cost[below]
    return saved


def _greedily(climb: Climb, work: Floats, savings: Floats, left: int) -> Ints:
    rungs = climb.first.copy()
    cost, saved, job_work = climb.ladders.cost.data, savings.data, work.data
    saving = np.nan_to_num(-work * savings[rungs], nan=0.0, neginf=-np.inf)
    rows = range(len(rungs))
    heap = list(zip(saving.tolist(), climb.seq.tolist(), rows, strict=True))
    heapify(heap)
    while heap and left:
        _, seq, row = heap[0]
        rung = rungs[row]
        left_then = left - cost[rung]
        if left_then < 0:
            heappop(heap)
            continue
        left = left_then
        rungs[row] = rung + 1
        heapreplace(heap, (-job_work[row] * saved[rung + 1], seq, row))
    return rungs
