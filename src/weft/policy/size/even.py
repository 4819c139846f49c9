"""Even shares: each job alike, the narrowest gets the next piece.

Max-min over jobs, without tenants: how elastic training is mostly done where nothing is known of
curves or lengths. All jobs rise to one level like water; whoever is at its widest stays behind, and
what is left of the last level goes to the jobs that were submitted first.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.policy.size.available import available_gpus
from weft.policy.size.bids import Bids
from weft.policy.size.floors import floors


@dataclass(frozen=True, slots=True)
class Even:
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing."""

    grain_gpus: int = 1

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints:
        bids = Bids.of(snapshot, slots)
        owed = np.where(bids.stuck, bids.held, 0)
        widths, left = floors(bids.least, owed, available_gpus(snapshot, slots))
        rising = np.flatnonzero((widths > 0) & (widths < bids.most) & ~bids.stuck)
        pieces = left // self.grain_gpus
        if pieces and len(rising):
            rising = rising[np.argsort(bids.seq[rising])]
            widths[rising] = self._filled(widths[rising], bids.most[rising], pieces)
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
