"""Fairness: what the worst-off tenant held of what was due to it, from the world's own account.

At every moment the GPUs are divided max-min over the tenants that have jobs, none being due more
than its jobs could use. GPU time held over GPU time due, from its first job to its last, is a
tenant's share. The worst tenant's share is told, of tenants to whom at least a hundredth of all was
due. With a single tenant there is nothing to tell. Nothing here is taken from a recipe or from the
brain: a recipe that minds tenants must not be its own judge.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from weft.model.job import Job
from weft.sim.record import Record

Floats = npt.NDArray[np.float64]

LEAST_DUE = 0.01


def worst_share(record: Record, jobs: Sequence[Job]) -> float | None:
    """The smallest share of the tenants that count; needs the record's sittings."""
    tenants = sorted({job.tenant for job in jobs})
    if len(tenants) == 1:
        return None
    row = {tenant: number for number, tenant in enumerate(tenants)}
    held = np.zeros(len(tenants))
    for sitting in record.sittings:
        held[row[sitting.tenant]] += sitting.gpus * (sitting.end - sitting.begin)
    due = _due(record, jobs, [row[job.tenant] for job in jobs], len(tenants))
    counts = due > LEAST_DUE * due.sum()
    return float((held[counts] / due[counts]).min()) if counts.any() else None


def _due(record: Record, jobs: Sequence[Job], rows: Sequence[int], tenants: int) -> Floats:
    """GPU time by tenant, added up over the spans between one arrival or end and the next."""
    lines = [record.jobs[job.id] for job in jobs]
    begins = [line.submitted for line in lines]
    ends = [record.end if line.ended is None else line.ended for line in lines]
    moments, place = np.unique(np.array([*begins, *ends]), return_inverse=True)
    change = np.zeros((len(moments), tenants))
    most = np.array([job.width.max_gpus for job in jobs], float)
    np.add.at(change, (place[: len(jobs)], np.array(rows)), most)
    np.add.at(change, (place[len(jobs) :], np.array(rows)), -most)
    wanted = np.cumsum(change, axis=0)[:-1]
    due: Floats = (max_min(wanted, record.total_gpus) * np.diff(moments)[:, None]).sum(axis=0)
    return due


def max_min(wanted: Floats, gpus: float) -> Floats:
    """Row by row: all that a tenant wants up to a level, and nobody more than the level."""
    rising = np.sort(wanted, axis=1)
    tenants = rising.shape[1]
    taken_before = np.cumsum(rising, axis=1) - rising
    levels = (gpus - taken_before) / (tenants - np.arange(tenants))
    short = rising > levels
    first = short.argmax(axis=1)
    level = np.where(short.any(axis=1), levels[np.arange(len(levels)), first], np.inf)
    return np.minimum(wanted, level[:, None])
