"""Shortest first, by the time that is left or by the service that is left.

SRTF orders by remaining seconds, SRSF by remaining seconds × GPUs, which is what a job still takes
from the others. Jobs whose length nobody knows come last.
"""

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.policy.order.ranking import Ranking


def by_remaining_time(snapshot: Snapshot, slots: Ints) -> Ranking:
    return Ranking((np.nan_to_num(snapshot.remaining_seconds(slots), nan=np.inf),))


def by_remaining_service(snapshot: Snapshot, slots: Ints) -> Ranking:
    seconds = np.nan_to_num(snapshot.remaining_seconds(slots), nan=np.inf)
    return Ranking((seconds * np.maximum(snapshot.jobs.asked_gpus[slots], 1),))
