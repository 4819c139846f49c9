"""What a change of a job's width would save of the cluster's time: AITurbo's gains.

What a job still costs at width k is the time it has left there times the service that it takes
each second, cost(k) = w / p(k) × k c. A move from one width to another gains what it takes off that
cost. On a concave curve growing always costs something and shrinking always saves something, both
in proportion to the work that is left: who gains most by growing, or least by shrinking, is short
and scales well.

Service unites GPUs and cores. A GPU counts 1, and a core as much as there are GPUs for each core of
the cluster: a job that takes its GPUs' part of the cores takes c = 2 for each GPU, one that takes
none takes 1. (AITurbo's successor has 10 for a GPU and 5 for the cores of a worker, whatever the
job and the cluster.) Where a cluster does not tell its cores, GPUs alone count. Cores go with GPUs
here, there are no servers beside the workers: so c weighs jobs against each other, and no job's own
best width hangs on it.

An order decides who gets its least width, so the growth that it weighs is the step from nothing to
that: it takes all that the job still costs there. The shrink is the step down from the width that a
job asks for, not from the one it has: an order that looked at that would follow itself.
"""

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.perf.predictability import predictable


def foreseen(snapshot: Snapshot, slots: Ints) -> Bools:
    """Predictable jobs that have not yet done all the work that was predicted."""
    left = snapshot.remaining_work(slots)
    ahead = (left > 0) & np.isfinite(left) & ~snapshot.exceeds_total(slots)
    found: Bools = predictable(snapshot.jobs.steady[slots]) & ahead
    return found


def growth_gains(snapshot: Snapshot, slots: Ints) -> Floats:
    """Service gained by beginning at the least width: never more than 0; NaN: nobody knows."""
    return -costs(snapshot, slots, np.maximum(snapshot.jobs.min_gpus[slots], 1))


def shrink_gains(snapshot: Snapshot, slots: Ints, grain_gpus: int = 1) -> Floats:
    """Service gained by one grain less than asked for: 0 at the least; NaN: nobody knows."""
    jobs = snapshot.jobs
    asked, least = jobs.asked_gpus[slots], jobs.min_gpus[slots]
    narrower = np.maximum(asked - grain_gpus, np.maximum(least, 1))
    return costs(snapshot, slots, asked) - costs(snapshot, slots, narrower)


def costs(snapshot: Snapshot, slots: Ints, widths: Ints) -> Floats:
    """Service that each job still takes at that width, in GPU-seconds; at width 0 it is nothing."""
    speeds = snapshot.speeds(slots, widths)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = snapshot.remaining_work(slots) / speeds
        found = seconds * widths * service_per_gpu(snapshot, slots)
    return np.where(widths > 0, found, 0.0)


def attained_service(snapshot: Snapshot, slots: Ints) -> Floats:
    """GPU-seconds that each has had, cores included; of a job without GPUs those of its share."""
    of_gpus = snapshot.attained(slots) * service_per_gpu(snapshot, slots)
    has_gpus = snapshot.jobs.asked_gpus[slots] > 0
    return np.where(has_gpus, of_gpus, snapshot.attained_shares(slots))


def service_per_gpu(snapshot: Snapshot, slots: Ints) -> Floats:
    """What a GPU of each job is with its cores, in GPUs."""
    jobs, nodes = snapshot.jobs, snapshot.nodes
    gpus, cores = float(nodes.gpus.sum()), float(nodes.cpus.sum())
    if not gpus or not np.isfinite(cores) or cores <= 0:
        return np.ones(len(slots))
    cores_per_gpu = jobs.cpus[slots] / np.maximum(jobs.asked_gpus[slots], 1)
    found: Floats = 1.0 + cores_per_gpu * gpus / cores
    return found
