"""Least attained dominant share first: GPUs, cores and memory in one unit of service.

A job that holds an eighth of the cluster's cores has had as much as one that holds an eighth of its
GPUs (DRF's rule, over time). So jobs without GPUs are served and give way like all others, and one
that takes many cores beside its GPU pays for them. What a job is fed beyond what it is owed is not
counted: it is called back as soon as anybody needs it.
"""

from dataclasses import dataclass

from weft.model.snapshot import Ints, Snapshot
from weft.policy.order.ranking import Ranking
from weft.policy.order.turn import next_turn


@dataclass(frozen=True, slots=True)
class LeastShare:
    """Order by dominant share × seconds so far, with hysteresis for those that run."""

    hold_seconds: float = 600.0

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        rate = snapshot.jobs.share_rate[slots]
        key = snapshot.attained_shares(slots) - self.hold_seconds * rate
        return Ranking((key,), wake=next_turn(snapshot.now, key, rate))
