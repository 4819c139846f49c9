"""Max-min fairness over tenants by dominant share.

Each tenant's jobs are lined up, running ones first; a job's key is the dominant share that its
tenant would already have when its turn comes. Taking jobs by that key is progressive filling: it
always serves the tenant that has least, and a tenant's surplus is what yields first.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.order.ranking import Ranking


@dataclass(frozen=True, slots=True)
class DominantShare:
    """Order by the share that a job's tenant has before it.

    With `floors` a job counts with its smallest width: more than that it only has while nobody
    else needs it.
    """

    floors: bool = False

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        jobs = snapshot.jobs
        gpus = (jobs.min_gpus if self.floors else jobs.asked_gpus)[slots]
        tenant = jobs.tenant[slots]
        waiting = jobs.gpu_rate[slots] <= 0
        line = np.lexsort((jobs.seq[slots], waiting, -jobs.priority[slots], tenant))
        before = np.maximum.reduce(
            [
                _share_before(gpus[line], tenant[line], snapshot.nodes.gpus),
                _share_before(jobs.cpus[slots][line], tenant[line], snapshot.nodes.cpus),
                _share_before(
                    jobs.memory_gib[slots][line], tenant[line], snapshot.nodes.memory_gib
                ),
            ]
        )
        key = np.empty(len(slots))
        key[line] = before + self._held_elsewhere(snapshot, tenant[line], slots)
        return Ranking((key, waiting.astype(np.int64)))

    def _held_elsewhere(self, snapshot: Snapshot, tenant: Ints, slots: Ints) -> Floats:
        """Shares of each tenant's jobs that are not being ranked: they hold seats as well."""
        total = float(snapshot.nodes.gpus.sum()) or 1.0
        held = snapshot.jobs.width * snapshot.jobs.active
        mask = np.ones(len(held), bool)
        mask[slots] = False
        by_tenant = np.bincount(
            snapshot.jobs.tenant[mask], held[mask], minlength=int(tenant.max(initial=0)) + 1
        )
        return by_tenant[tenant] / total


def _share_before(amount: Ints | Floats, tenant: Ints, capacity: Ints | Floats) -> Floats:
    """For jobs lined up by tenant: the share of those before it in its own line."""
    total = float(capacity.sum())
    if not len(amount) or not np.isfinite(total) or total <= 0:
        return np.zeros(len(amount))
    running = np.cumsum(amount) - amount
    first = np.flatnonzero(np.r_[True, tenant[1:] != tenant[:-1]])
    lengths = np.diff(np.r_[first, len(amount)])
    before = (running - np.repeat(running[first], lengths)).astype(np.float64)
    return before / total
