"""Weave's widths: AFS's rule, for jobs of which little is known and tenants who share.

AFS needs only the order of lengths, so a guess serves it well. Of a job whose length nobody knows
it is expected that it needs as much again as it has had: for lengths with a heavy tail there is no
better guess. So new jobs go first and fall behind as they go on, a job that is being learnt takes
its place among them, and nobody of unknown length has to stand behind all whose length is known.

A job counts as longer the more of the scarcer resource a GPU of it takes: with many cores per GPU,
that of the cores. And it counts as shorter where its tenant holds less than a max-min division
would give, as longer where it holds more, up to twofold either way.
"""

from dataclasses import dataclass, replace

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.size.afs import Afs, ranks
from weft.policy.size.bids import Bids
from weft.policy.size.climb import Climb

MOST_FAVOUR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weave(Afs):
    """`Afs` by expected lengths; with `fairness` 0 tenants do not matter."""

    fairness: float = 1.0

    def weighed(self, snapshot: Snapshot, slots: Ints, bids: Bids) -> Bids:
        weight = shares_of_a_gpu(snapshot, slots) / favour(snapshot, slots) ** self.fairness
        return replace(bids, work=bids.work * weight, attained=bids.attained * weight)

    def _lengths(self, climb: Climb) -> tuple[Floats, Ints, bool]:
        return climb.expected_work(), ranks(climb.seq), True


def favour(snapshot: Snapshot, slots: Ints) -> Floats:
    """More than 1 for tenants that hold less than their fair part, less for those with more."""
    jobs = snapshot.jobs
    active = np.flatnonzero(jobs.active)
    tenants = jobs.tenant[active]
    held = np.bincount(tenants, jobs.width[active]) + 1.0
    wanted = np.bincount(tenants, jobs.max_gpus[active]).astype(np.float64)
    due = fair_parts(wanted, int(snapshot.nodes.gpus.sum()))
    found: Floats = np.clip((due + 1.0) / held, 1.0 / MOST_FAVOUR, MOST_FAVOUR)
    return found[jobs.tenant[slots]]


def fair_parts(wanted: Floats, gpus: int) -> Floats:
    """Max-min: everybody an equal part, nobody more than wanted, the rest to the others."""
    order = np.argsort(wanted, kind="stable")
    parts, left = np.zeros(len(wanted)), float(gpus)
    for place, tenant in enumerate(order.tolist()):
        parts[tenant] = min(float(wanted[tenant]), left / (len(order) - place))
        left -= parts[tenant]
    return parts


def shares_of_a_gpu(snapshot: Snapshot, slots: Ints) -> Floats:
    """The dominant share that a GPU of each job takes, in GPUs: 1 unless cores are scarcer."""
    jobs, nodes = snapshot.jobs, snapshot.nodes
    gpus, cpus = float(nodes.gpus.sum()), float(nodes.cpus.sum())
    if not gpus or not np.isfinite(cpus) or cpus <= 0:
        return np.ones(len(slots))
    per_gpu = jobs.cpus[slots] / np.maximum(jobs.asked_gpus[slots], 1)
    return np.maximum(per_gpu * gpus / cpus, 1.0)
