"""Highest Gittins index first (Tiresias' 2D-Gittins), from how much service jobs have needed.

The distribution is given, or learnt from the jobs that this cluster has finished; with fewer than
`enough` of them the order falls back on least attained service, to which the index reduces for
distributions with a falling hazard.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.order.gittins_index import GittinsTable
from weft.policy.order.ranking import Ranking


@dataclass(frozen=True, slots=True)
class GittinsOrder:
    """Order by index of the attained service; running jobs are held back by `hold_seconds`."""

    table: GittinsTable | None = None
    enough: int = 100
    refresh: int = 500
    hold_seconds: float = 600.0

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        attained = snapshot.attained(slots)
        attained = np.maximum(attained - self.hold_seconds * snapshot.jobs.gpu_rate[slots], 0.0)
        table = self.table or self._learnt(snapshot.finished_gpu_seconds)
        if table is None:
            return Ranking((attained,))
        return Ranking((-table.index(attained), attained))

    def _learnt(self, finished: Floats) -> GittinsTable | None:
        """The table from a round number of finished jobs, so that it changes seldom."""
        usable = len(finished) // self.refresh * self.refresh or len(finished)
        if usable < self.enough:
            return None
        return _table_of(finished[:usable].tobytes())


_cache: dict[bytes, GittinsTable] = {}


def _table_of(samples: bytes) -> GittinsTable:
    """Tables are values of their samples; the last one is kept."""
    found = _cache.get(samples)
    if found is None:
        _cache.clear()
        found = _cache[samples] = GittinsTable.from_samples(np.frombuffer(samples))
    return found
