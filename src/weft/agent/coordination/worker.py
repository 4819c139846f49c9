"""The states of one training process, and which may follow which.

    SPAWNED ─▶ WARMING ─▶ READY ─▶ JOINING ─▶ ACTIVE ─▶ LEAVING ─▶ EXITED
                            ▲          │         │
                            └──────────┘         └─▶ LOST ─▶ EXITED

A worker that stands READY has imported, built and, unless it belongs to the first epoch, run a step
that counts for nothing. A joiner whose epoch fails before it has received the state goes back to
READY. LOST is said of a worker that no longer answers; it is killed, so EXITED follows.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from weft.agent.coordination.pace import Pace
from weft.agent.plan import REPLICATED, Plan
from weft.model.errors import IllegalTransition


class WorkerState(StrEnum):
    """Where a worker is in its life."""

    SPAWNED = "spawned"
    WARMING = "warming"
    READY = "ready"
    JOINING = "joining"
    ACTIVE = "active"
    LEAVING = "leaving"
    LOST = "lost"
    EXITED = "exited"

    @property
    def starting(self) -> bool:
        """On its way to being of use."""
        return self in (WorkerState.SPAWNED, WorkerState.WARMING)


_S = WorkerState
EDGES: Final[dict[WorkerState, frozenset[WorkerState]]] = {
    _S.SPAWNED: frozenset({_S.WARMING, _S.LEAVING, _S.LOST, _S.EXITED}),
    _S.WARMING: frozenset({_S.READY, _S.LOST, _S.EXITED}),
    _S.READY: frozenset({_S.JOINING, _S.ACTIVE, _S.LEAVING, _S.LOST, _S.EXITED}),
    _S.JOINING: frozenset({_S.ACTIVE, _S.READY, _S.LEAVING, _S.LOST, _S.EXITED}),
    _S.ACTIVE: frozenset({_S.LEAVING, _S.LOST, _S.EXITED}),
    _S.LEAVING: frozenset({_S.LOST, _S.EXITED}),
    _S.LOST: frozenset({_S.EXITED}),
    _S.EXITED: frozenset(),
}


@dataclass(slots=True)
class Worker:
    """What the coordinator knows of one process."""

    number: int
    rank: int = 0
    state: WorkerState = WorkerState.SPAWNED
    heard_seconds: float = 0.0
    step: int = -1
    proven: bool = False  # whether it has committed a step
    between: bool = False  # whether its script is behind a loop
    moved: int = 0  # bytes of state that it has sent or received
    failed_joins: int = 0
    exit_code: int | None = None
    plan: Plan = REPLICATED
    pace: Pace = field(default_factory=Pace)

    def become(self, state: WorkerState) -> None:
        """Go there, or find that there is no such way."""
        if state is self.state:
            return
        if state not in EDGES[self.state]:
            raise IllegalTransition(f"worker {self.number} cannot go from {self.state} to {state}")
        self.state = state
