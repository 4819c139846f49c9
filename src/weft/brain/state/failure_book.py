"""What the brain remembers of failures: of each job that had one, and of nodes and services.

Little enough to be written down at each failure: by job a few words of its retries and the line
that decided, and for everybody one value (`Health`).
"""

from dataclasses import dataclass, field, replace

from weft.brain.state.seat_hold import SeatHold
from weft.brain.state.trial_book import TrialBook
from weft.failure.diagnosis import Diagnosis
from weft.failure.health import WELL, Health
from weft.failure.retry import FRESH, RetryState
from weft.model.ids import JobId, NodeId
from weft.model.kind import Kind
from weft.policy.place.fabric import Fabric


@dataclass(slots=True)
class FailureBook:
    """By row of the job; `avoiding` says until when it keeps off the nodes that failed it.

    `refusals` are the backend's own words for why the last start came to nothing.
    `holds` are seats that are kept for those who come back, by nobody but this brain: after a
    crash they are anybody's.
    """

    health: Health = WELL
    retries: dict[int, RetryState] = field(default_factory=dict)
    last: dict[int, Diagnosis] = field(default_factory=dict)
    refusals: dict[int, str] = field(default_factory=dict)
    avoiding: dict[int, float] = field(default_factory=dict)
    holds: dict[int, SeatHold] = field(default_factory=dict)
    trials: TrialBook = field(default_factory=TrialBook)

    def retry(self, slot: int) -> RetryState:
        return self.retries.get(slot, FRESH)

    def kind(self, slot: int, kind: Kind, job: JobId, fabric: Fabric) -> Kind:
        """What the job is to a placement since it failed."""
        if slot in self.avoiding:
            kind = away_from(self.retry(slot).avoid, kind, fabric)
        return replace(kind, keeps=job) if slot in self.holds else kind

    def forget(self, slot: int) -> None:
        """The row is nobody's any more."""
        books = (self.retries, self.last, self.refusals, self.avoiding, self.holds)
        for by_slot in books:
            by_slot.pop(slot, None)

    def copied(self) -> "FailureBook":
        return FailureBook(
            self.health,
            dict(self.retries),
            dict(self.last),
            dict(self.refusals),
            dict(self.avoiding),
            dict(self.holds),
            self.trials.copied(),
        )


def away_from(nodes: tuple[NodeId, ...], kind: Kind, fabric: Fabric) -> Kind:
    """The kind of a job that keeps off these nodes, or off the latest of them, if it can."""
    least = max(min(kind.width.asked_gpus, fabric.site(kind).largest_gpus), 1)
    for first in range(len(nodes)):
        away = replace(kind, avoid=frozenset(nodes[first:]))
        if fabric.site(away).largest_gpus >= least:
            return away
    return kind
