"""Elastic max-min: everybody's least first, then the tenant that has least gets the next piece.

Jobs come in rank order. Each gets its smallest width as long as there is room for it, and one that
runs and cannot be resized live what it has; what is left goes piece by piece to the tenant with the
fewest GPUs, and there to its narrowest job. This is progressive filling (DRF's rule for one
resource): no tenant could get more without another that has no more getting less.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State
from weft.policy.size.floors import floors_and_more
from weft.policy.supply import Purse, Supply

Narrow = tuple[int, int]
"""A job in a heap: its width and its row."""


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing."""

    grain_gpus: int = 1

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        jobs = snapshot.jobs
        least, most, tenants = jobs.min_gpus[slots], jobs.max_gpus[slots], jobs.tenant[slots]
        runs = jobs.state[slots] == State.RUNNING
        stuck = runs & ~jobs.live[slots]
        owed = np.where(stuck, jobs.width[slots], np.where(runs, least, 0))
        others = _held_by_tenant(snapshot, slots)

        def fill(widths: Ints, purse: Purse) -> Ints:
            held = others.copy()
            np.add.at(held, tenants, widths)
            filling = _Filling(np.where(stuck, widths, most), tenants, supply.pool, held)
            return filling.filled(widths, purse, self.grain_gpus)

        return floors_and_more(supply, least, owed, fill=fill)


@dataclass(frozen=True, slots=True)
class _Filling:
    """Tenants as a heap, each with a heap of its jobs: whoever is served alone has to move."""

    most: Ints
    tenants: Ints
    pool: Ints
    held: Ints

    def filled(self, widths: Ints, purse: Purse, grain: int) -> Ints:
        growing = self._growing(widths, grain)
        heap = [(int(self.held[tenant]), jobs[0], tenant) for tenant, jobs in growing.items()]
        heapify(heap)
        while heap:
            share, (width, row), tenant = heap[0]
            jobs, pool = growing[tenant], int(self.pool[row])
            if purse.left[pool] < grain:
                heappop(jobs)
            else:
                purse.pay(pool, grain)
                widths[row] = width = width + grain
                share += grain
                if width + grain <= self.most[row]:
                    heapreplace(jobs, (width, row))
                else:
                    heappop(jobs)
            if jobs:
                heapreplace(heap, (share, jobs[0], tenant))
            else:
                heappop(heap)
        return widths

    def _growing(self, widths: Ints, grain: int) -> dict[int, list[Narrow]]:
        growing: dict[int, list[Narrow]] = {}
        for row in np.flatnonzero((widths > 0) & (widths + grain <= self.most)).tolist():
            growing.setdefault(int(self.tenants[row]), []).append((int(widths[row]), row))
        for jobs in growing.values():
            heapify(jobs)
        return growing


def _held_by_tenant(snapshot: Snapshot, slots: Ints) -> Ints:
    """What each tenant holds by jobs that are not being sized."""
    jobs = snapshot.jobs
    rest = jobs.active.copy()
    rest[slots] = False
    tenants = int(jobs.tenant.max(initial=0)) + 1
    return np.bincount(jobs.tenant[rest], jobs.width[rest], minlength=tenants).astype(np.int64)
