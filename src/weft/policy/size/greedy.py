"""A greedy hand-out: rung by rung to whom the next one is worth most."""

from heapq import heapify, heappop, heapreplace

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.size.climb import Climb
from weft.policy.supply import Purse

MOST_GAIN = 1e200
"""In place of an infinite gain: from no speed to some."""

MOST_WORK = 1e100
"""In place of work without end: what a rung is not worth, it is not worth for such a job either."""


def greedily(
    climb: Climb,
    factor: Floats,
    value: Floats,
    place: Ints,
    *,
    purse: Purse,
    least: float = 0.0,
) -> Ints:
    """Rungs climbed by factor × value, the largest first, while it is more than `least` and they
    fit.

    `factor` is a job's, `value` a rung's; equals are served by `place`.
    """
    rungs, pool, left = climb.first.copy(), climb.pool.data, purse.left
    factor = np.minimum(factor, MOST_WORK)
    cost, worth, times = climb.ladders.cost.data, value.data, factor.data
    keys = (-factor * value[rungs]).tolist()
    heap = list(zip(keys, place.tolist(), range(len(rungs)), strict=True))
    heapify(heap)
    while heap and heap[0][0] < -least and any(left):
        _, equal, row = heap[0]
        rung = rungs[row]
        if cost[rung] > left[pool[rung]]:
            heappop(heap)
            continue
        purse.pay(pool[rung], cost[rung])
        rungs[row] = rung + 1
        heapreplace(heap, (-times[row] * worth[rung + 1], equal, row))
    return rungs
