"""What one round found, by slot: who gets seats, who yields, and why the others wait."""

from dataclasses import dataclass, field

import numpy as np

from weft.brain.round.reservation import Reservation
from weft.brain.state.brain_state import BrainState
from weft.model.decision import Preemption
from weft.model.host import PerGpu
from weft.model.ids import JobId, NodeId
from weft.model.plan import ExecutionPlan
from weft.model.snapshot import Ints
from weft.perf.interleaving.group import GroupForecast
from weft.policy.order.ranking import Ranking
from weft.policy.place.room import Share


def _nobody() -> Ints:
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Granted:
    """Seats for one job; a plan and cores beside each GPU where those were chosen too."""

    slot: int
    width: int
    shares: tuple[Share, ...]
    plan: ExecutionPlan | None = None
    cores: float | None = None


@dataclass(frozen=True, slots=True)
class Joined:
    """A job that is to take turns with others on seats that `lead` holds, and what is foretold."""

    slot: int
    lead: int
    forecast: GroupForecast
    cap: float


@dataclass(frozen=True, slots=True)
class Stretched:
    """Another width for a running job: the numbers of seats that go and their nodes, or more.

    With another `plan`, where that was chosen too, or alone.
    """

    slot: int
    gone: frozenset[int] = frozenset()
    left_nodes: tuple[int, ...] = ()
    added: tuple[Share, ...] = ()
    plan: ExecutionPlan | None = None


@dataclass(slots=True)
class Outcome:
    """`reasons` are rows of reasons, aligned with `waiting`; `preempted` maps a victim to the
    job that gets its seats and whether they were lent. `feeds` is what each GPU of a job is to have
    beyond what is owed; on `unsettled` nodes somebody is to have more or less, but not yet. It is
    `overdue` if somebody has waited too long."""

    grants: list[Granted] = field(default_factory=list)
    moves: list[Granted] = field(default_factory=list)
    joins: list[Joined] = field(default_factory=list)
    stretched: list[Stretched] = field(default_factory=list)
    feeds: dict[int, PerGpu] = field(default_factory=dict)
    unsettled: set[int] = field(default_factory=set)
    preempted: dict[int, tuple[int, bool]] = field(default_factory=dict)
    waiting: Ints = field(default_factory=_nobody)
    reasons: Ints = field(default_factory=_nobody)
    candidates: Ints = field(default_factory=_nobody)
    ranked: Ints = field(default_factory=_nobody)
    ranking: Ranking | None = None
    reservation: Reservation | None = None
    wake: float | None = None
    overdue: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether nobody was ranked and nobody moves."""
        return not len(self.candidates) and not (self.moves or self.feeds or self.joins)

    @property
    def changing(self) -> set[int]:
        """Running jobs for whom something is to change: they stop, move, grow or shrink."""
        return {
            *self.preempted,
            *(moved.slot for moved in self.moves),
            *(changed.slot for changed in self.stretched),
        }

    def wait_no_more(self, slots: list[int]) -> None:
        """These were given seats after all: they have no reason to wait."""
        if slots:
            stays = ~np.isin(self.waiting, slots)
            self.waiting, self.reasons = self.waiting[stays], self.reasons[stays]

    def wake_by(self, at: float) -> None:
        """Ask for a round at that time at the latest."""
        if self.wake is None or at < self.wake:
            self.wake = at


def preemptions(state: BrainState, outcome: Outcome) -> tuple[Preemption, ...]:
    """Who yields to whom, by name."""
    return tuple(
        Preemption(state.spec(victim).id, state.spec(beneficiary).id, reclaim)
        for victim, (beneficiary, reclaim) in outcome.preempted.items()
    )


def kept_nodes(state: BrainState, outcome: Outcome) -> tuple[JobId, tuple[NodeId, ...]] | None:
    """The job for which nodes are kept, and which."""
    if outcome.reservation is None:
        return None
    rows = outcome.reservation.nodes.nonzero()[0].tolist()
    return state.spec(outcome.reservation.slot).id, tuple(state.node_ids[row] for row in rows)
