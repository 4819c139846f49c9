"""Shortest first, by the time that is left or by the service that is left.

SRTF orders by remaining seconds, SRSF by remaining seconds × GPUs, which is what a job still takes
from the others. Jobs whose length nobody knows come last.
"""

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.policy.order.ranking import Ranking
from weft.policy.order.turn import next_turn
from weft.policy.service import held_service


def by_remaining_time(snapshot: Snapshot, slots: Ints) -> Ranking:
    return Ranking((np.nan_to_num(snapshot.remaining_seconds(slots), nan=np.inf),))


def by_remaining_service(snapshot: Snapshot, slots: Ints) -> Ranking:
    seconds = np.nan_to_num(snapshot.remaining_seconds(slots), nan=np.inf)
    return Ranking((seconds * np.maximum(snapshot.jobs.asked_gpus[slots], 1),))


def by_time_at_least(snapshot: Snapshot, slots: Ints) -> Ranking:
    """By the seconds that would be left at the smallest width: the first phase of AFS.

    Jobs of unknown length are last, among themselves the one with the least attained service first.
    """
    least = snapshot.jobs.min_gpus[slots]
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = snapshot.remaining_work(slots) / snapshot.speeds(slots, np.maximum(least, 1))
        seconds = np.where(least > 0, narrow, snapshot.remaining_seconds(slots))
    unknown = np.isnan(seconds)
    if not unknown.any():
        return Ranking((seconds,))
    held, rate = held_service(snapshot, slots)
    keys = np.where(unknown, np.inf, seconds), np.where(unknown, held, 0.0)
    return Ranking(keys, wake=next_turn(snapshot.now, held[unknown], rate[unknown]))
