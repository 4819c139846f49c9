"""What the coordinator wants done: by the agent on this machine, or by a model of one in a test."""

from dataclasses import dataclass

from weft.agent.messages import Message
from weft.agent.outcome import Outcome


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start this worker, as that rank of a crew of that width."""

    worker: int
    rank: int
    width: int


@dataclass(frozen=True, slots=True)
class Send:
    """Say this to that worker."""

    worker: int
    message: Message


@dataclass(frozen=True, slots=True)
class Signal:
    """Send a signal to that worker and all that it started."""

    worker: int
    signal: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """The job is over on this machine."""

    outcome: Outcome
    exit_code: int
    why: str


Action = Spawn | Send | Signal | Conclude
