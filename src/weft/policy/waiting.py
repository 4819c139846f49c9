"""The longest that a job waits, whatever its rank.

Every order starves somebody: the widest, the longest, the last in line. A job that has waited too
long therefore goes before all others of its priority, and those who have been served longest make
room for it. Too long is a day, or ten times as long as the job would take on its fair share of the
cluster, whichever is more. The share is max-min over all jobs that are there: all that a job asks
for while there is enough for everybody, and less the more crowded it is. So the bound grows with
the crowd, and rank decides most things most of the time.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot

DAY_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class Waiting:
    """Bounds on a wait without a break; `longest_seconds` of infinity turns them off."""

    longest_seconds: float = DAY_SECONDS
    fair_times: float = 10.0

    def bounds(self, snapshot: Snapshot, slots: Ints) -> Floats:
        """The longest that each of these may wait, in seconds."""
        fair: Floats = np.maximum(self.fair_times * _fair_seconds(snapshot, slots), 0.0)
        return np.maximum(fair, self.longest_seconds)

    def overdue(self, snapshot: Snapshot, waiting: Ints) -> tuple[Ints, float | None]:
        """Those of these who have waited too long, the longest first, and when the next one has."""
        since = snapshot.jobs.queued_since[waiting]
        soonest = float(since.min(initial=np.inf)) + self.longest_seconds
        if soonest > snapshot.now:
            return waiting[:0], soonest if np.isfinite(soonest) else None
        until = since + self.bounds(snapshot, waiting)
        late = np.flatnonzero(until <= snapshot.now)
        late = late[np.lexsort((snapshot.jobs.seq[waiting[late]], since[late]))]
        later = until[until > snapshot.now]
        return waiting[late], float(later.min()) if len(later) else None


def _fair_seconds(snapshot: Snapshot, slots: Ints) -> Floats:
    """How long each would take on its fair share of the cluster; 0 where nobody can say."""
    jobs, nodes = snapshot.jobs, snapshot.nodes
    gpus = float(nodes.gpus[nodes.present].sum())
    asked = np.maximum(jobs.asked_gpus[slots], 1)
    part = np.minimum(fair_level(jobs.asked_gpus[jobs.active], gpus), asked)
    service = snapshot.remaining_seconds(slots) * asked
    unknown = np.isnan(service)
    if unknown.any():
        usual = float(np.median(snapshot.finished.gpu_seconds)) if len(snapshot.finished) else 0.0
        service = np.where(unknown, np.maximum(snapshot.attained(slots), usual), service)
    return service / np.maximum(part, 1e-9)


def fair_level(asked: Ints, gpus: float) -> float:
    """The most that anybody gets if all get alike and none more than it asks for."""
    rising = np.sort(asked).astype(np.float64)
    before, sharing = np.cumsum(rising) - rising, len(rising) - np.arange(len(rising))
    levels = (gpus - before) / sharing
    short = np.flatnonzero(rising > levels)
    return float(levels[short[0]]) if len(short) else np.inf


BOUNDED = Waiting()
UNBOUNDED = Waiting(longest_seconds=np.inf)
