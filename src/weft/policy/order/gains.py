"""What a change of a job's width would save of the cluster's time: AITurbo's gains.

What a job still costs at width k is the time it has left there times the service that it takes,
cost(k) = w / p(k) × k, in GPU-seconds. A move from one width to another gains what it takes off
that cost. On a concave curve growing always costs something and shrinking always saves something,
both in proportion to the work that is left: who gains most by growing, or least by shrinking, is
short and scales well.

An order decides who gets its least width, so the growth that it weighs is the step from nothing to
that: it takes all that the job still costs there. The shrink is the step down from the width that a
job asks for, not from the one it has: an order that looked at that would follow itself.
"""

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot


def growth_gains(snapshot: Snapshot, slots: Ints) -> Floats:
    """GPU-seconds gained by beginning at the least width: never more than 0; NaN: nobody knows."""
    return -costs(snapshot, slots, np.maximum(snapshot.jobs.min_gpus[slots], 1))


def shrink_gains(snapshot: Snapshot, slots: Ints) -> Floats:
    """GPU-seconds gained by one GPU less than asked for: 0 at the least; NaN: nobody knows."""
    jobs = snapshot.jobs
    asked, least = jobs.asked_gpus[slots], jobs.min_gpus[slots]
    narrower = np.maximum(asked - 1, np.maximum(least, 1))
    return costs(snapshot, slots, asked) - costs(snapshot, slots, narrower)


def costs(snapshot: Snapshot, slots: Ints, widths: Ints) -> Floats:
    """GPU-seconds that each job still costs at that width; at width 0 it costs nothing."""
    most = snapshot.curves.likely.shape[1] - 1
    speeds = snapshot.speeds(slots, np.minimum(widths, most))
    with np.errstate(divide="ignore", invalid="ignore"):
        found = snapshot.remaining_work(slots) / speeds * widths
    return np.where(widths > 0, found, 0.0)
