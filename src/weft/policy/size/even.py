"""Even shares: each job alike, the narrowest gets the next piece.

Max-min over jobs, without tenants: how elastic training is mostly done where nothing is known of
curves or lengths. All jobs rise to one level like water; whoever is at its widest stays behind, and
what is left of the last level goes to the jobs that were submitted first.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.policy.size.bids import Bids
from weft.policy.size.floors import floors_and_more
from weft.policy.supply import Purse, Supply


@dataclass(frozen=True, slots=True)
class Even:
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing."""

    grain_gpus: int = 1

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        bids = Bids.of(snapshot, slots, supply)

        def rise(widths: Ints, purse: Purse) -> Ints:
            return self._risen(bids, widths, purse)

        owed = np.where(bids.stuck, bids.held, 0)
        return floors_and_more(supply, bids.least, owed, fill=rise)

    def _risen(self, bids: Bids, widths: Ints, purse: Purse) -> Ints:
        rising = np.flatnonzero((widths > 0) & (widths < bids.most) & ~bids.stuck)
        if not len(rising):
            return widths
        rising = rising[np.argsort(bids.seq[rising])]
        if not purse.single:
            return self._risen_by_one(bids, widths, rising, purse)
        pieces = purse.left[0] // self.grain_gpus
        if pieces:
            before = int(widths[rising].sum())
            widths[rising] = self._filled(widths[rising], bids.most[rising], pieces)
            purse.pay(0, int(widths[rising].sum()) - before)
        return widths

    def _risen_by_one(self, bids: Bids, widths: Ints, rising: Ints, purse: Purse) -> Ints:
        """Piece by piece, where not everybody is supplied from the same GPUs."""
        grain, pool, most = self.grain_gpus, bids.pool, bids.most
        heap = [(int(widths[row]), place, row) for place, row in enumerate(rising.tolist())]
        heapify(heap)
        while heap:
            width, place, row = heap[0]
            if grain > purse.left[pool[row]] or width + grain > most[row]:
                heappop(heap)
                continue
            purse.pay(int(pool[row]), grain)
            widths[row] = width + grain
            heapreplace(heap, (width + grain, place, row))
        return widths

    def _filled(self, widths: Ints, most: Ints, pieces: int) -> Ints:
        """Raise everybody to the highest level that can be paid for, then the first ones by one."""
        low, high = int(widths.min()), int(most.max()) + 1
        while high - low > 1:
            level = (low + high) // 2
            if self._pieces_to(level, widths, most).sum() <= pieces:
                low = level
            else:
                high = level
        given = self._pieces_to(low, widths, most)
        one_more = np.flatnonzero(self._pieces_to(low + 1, widths, most) > given)
        given[one_more[: pieces - int(given.sum())]] += 1
        return widths + given * self.grain_gpus

    def _pieces_to(self, level: int, widths: Ints, most: Ints) -> Ints:
        """That take each job to the level or above, as far as its range goes."""
        grain = self.grain_gpus
        wanted: Ints = np.maximum(-((widths - level) // grain), 0)
        possible: Ints = (most - widths) // grain
        return np.minimum(wanted, possible)
