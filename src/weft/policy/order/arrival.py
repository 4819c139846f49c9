"""First come, first served."""

from weft.model.snapshot import Ints, Snapshot
from weft.policy.order.ranking import Ranking


def by_arrival(snapshot: Snapshot, slots: Ints) -> Ranking:
    return Ranking((snapshot.jobs.submitted[slots],))
