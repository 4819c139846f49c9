"""Highest Gittins index first (Tiresias' 2D-Gittins), from how much service jobs have needed.

The distribution is given, or learnt from the jobs that this cluster has finished; with fewer than
`enough` of them the order falls back on least attained service, to which the index reduces for
distributions with a falling hazard.
"""

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from weft.model.samples import Samples
from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.order.gittins_index import GittinsTable
from weft.policy.order.ranking import Ranking
from weft.policy.order.turn import ROUNDING_SECONDS, next_turn


@dataclass(frozen=True, slots=True)
class GittinsOrder:
    """Order by index of the attained service; running jobs are held back by `hold_seconds`."""

    table: GittinsTable | None = None
    enough: int = 100
    hold_seconds: float = 600.0

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        rate = snapshot.jobs.gpu_rate[slots]
        held_back = snapshot.attained(slots) - self.hold_seconds * rate
        attained = np.maximum(held_back, 0.0)
        table = self.table or self._learnt(snapshot.finished)
        if table is None:
            return Ranking((attained,), wake=next_turn(snapshot.now, held_back, rate))
        index = table.index(attained)
        seconds = _seconds_to_fall(table, index, held_back, rate)
        wake = None if seconds is None else snapshot.now + seconds + ROUNDING_SECONDS
        return Ranking((-index, attained), wake=wake)

    def _learnt(self, finished: Samples) -> GittinsTable | None:
        return None if len(finished) < self.enough else _table_of(finished)


_tables: WeakKeyDictionary[Samples, GittinsTable] = WeakKeyDictionary()


def _table_of(finished: Samples) -> GittinsTable:
    """A table is a value of its samples, and kept as long as they are."""
    found = _tables.get(finished)
    if found is None:
        found = _tables[finished] = GittinsTable.from_samples(finished.gpu_seconds)
    return found


def _seconds_to_fall(
    table: GittinsTable, index: Floats, attained: Floats, rate: Floats
) -> float | None:
    """Until the first of those who run is worth less than somebody who waits; None: never.

    Between two samples an index rises, so a running job falls behind only where it outlives one.
    """
    waits: Bools = rate <= 0
    if not waits.any() or waits.all():
        return None
    lower = table.values[table.after < index[waits].max()]
    runs = attained[~waits]
    at = np.searchsorted(lower, runs, side="right")
    falls = at < len(lower)
    if not falls.any():
        return None
    return float(((lower[at[falls]] - runs[falls]) / rate[~waits][falls]).min())
