"""What the coordinator wants done: by the agent on this machine, or by a model of one in a test."""

from dataclasses import dataclass
from typing import Any

from weft.agent.messages import Message
from weft.agent.outcome import Outcome
from weft.agent.plan import REPLICATED, Plan


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start this worker, as that rank of a crew of that width."""

    worker: int
    rank: int
    width: int
    plan: Plan = REPLICATED


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
class TakeStacks:
    """Have that worker write down where it stands; it goes on as before."""

    worker: int


@dataclass(frozen=True, slots=True)
class Conclude:
    """The job is over on this machine; `worker` is the one whose end was the job's, if one was."""

    outcome: Outcome
    exit_code: int
    why: str
    worker: int | None = None


@dataclass(frozen=True, slots=True)
class Note:
    """Something that nobody may fail to learn of: an event of the agent."""

    event: str
    facts: dict[str, Any]


Action = Spawn | Send | Signal | TakeStacks | Conclude | Note
