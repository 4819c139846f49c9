"""Elastic max-min: everybody's least first, then the tenant that has least gets the next piece.

Jobs come in rank order. Each gets its smallest width as long as there is room for it, and one that
runs and cannot be resized live what it has; what is left goes piece by piece to the tenant with the
fewest GPUs, and there to its narrowest job. This is progressive filling (DRF's rule for one
resource): no tenant could get more without another that has no more getting less.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State


@dataclass(frozen=True, slots=True)
class MaxMin:
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing."""

    grain_gpus: int = 1

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints:
        jobs = snapshot.jobs
        least, most, tenants = jobs.min_gpus[slots], jobs.max_gpus[slots], jobs.tenant[slots]
        runs = jobs.state[slots] == State.RUNNING
        stuck = runs & ~jobs.live[slots]
        owed = np.where(stuck, jobs.width[slots], np.where(runs, least, 0))
        widths, left = _floors(least, owed, available_gpus(snapshot, slots))
        held = _held_by_tenant(snapshot, slots)
        np.add.at(held, tenants, widths)
        return self._filled(widths, np.where(stuck, widths, most), tenants, held, left)

    def _filled(self, widths: Ints, most: Ints, tenants: Ints, held: Ints, left: int) -> Ints:
        grain = self.grain_gpus
        heap = [
            (int(held[tenants[row]]), int(widths[row]), row)
            for row in np.flatnonzero((widths > 0) & (widths < most)).tolist()
        ]
        heapify(heap)
        while heap and left >= grain:
            share, width, row = heappop(heap)
            tenant = int(tenants[row])
            if share != held[tenant]:  # another job of the tenant was served meanwhile
                heappush(heap, (int(held[tenant]), width, row))
                continue
            if width + grain > most[row]:
                continue
            widths[row] += grain
            held[tenant] += grain
            left -= grain
            heappush(heap, (int(held[tenant]), int(widths[row]), row))
        return widths


def available_gpus(snapshot: Snapshot, slots: Ints) -> int:
    """GPUs that the given jobs can have: all that are usable, less what others hold or are owed."""
    nodes, seats = snapshot.nodes, snapshot.seats
    usable = int(nodes.gpus[nodes.present & ~nodes.cordoned].sum())
    given = np.zeros(len(snapshot.jobs.active) + 1, bool)
    given[slots] = True
    others = (seats.slot >= 0) & ~given[seats.slot]
    firm = int(seats.gpus[others & ~seats.releasing & ~seats.pledged].sum())
    leaving = int(seats.gpus[others & seats.releasing].sum())
    coming = int(seats.gpus[others & seats.pledged].sum())
    return max(usable - firm - max(leaving, coming), 0)


def _floors(least: Ints, owed: Ints, left: int) -> tuple[Ints, int]:
    """The least for those who run; then for the others in rank order, as long as it lasts."""
    widths = owed.copy()
    left -= int(owed.sum())
    for row in np.flatnonzero(owed == 0).tolist():
        if least[row] <= left:
            widths[row] = least[row]
            left -= int(least[row])
    return widths, max(left, 0)


def _held_by_tenant(snapshot: Snapshot, slots: Ints) -> Ints:
    """What each tenant holds by jobs that are not being sized."""
    jobs = snapshot.jobs
    rest = jobs.active.copy()
    rest[slots] = False
    tenants = int(jobs.tenant.max(initial=0)) + 1
    return np.bincount(jobs.tenant[rest], jobs.width[rest], minlength=tenants).astype(np.int64)
