"""The vocabulary of one step in the local world: what is looked at, and what may come out.

Everything here is a frozen value, so a step can be tested without a process and printed when it
surprises.
"""

from dataclasses import dataclass
from typing import Final

from weft.brain.event import Event
from weft.local.reconcile.observation import ObservedAgent
from weft.local.record.entry import End, Entry, Progress
from weft.model.decision import Assignment
from weft.model.placement import Placement, Seat
from weft.model.request import JobRequest
from weft.model.state import State
from weft.reconcile.belief import Belief


@dataclass(frozen=True, slots=True)
class Rules:
    """Times of the local world. An agent kills its workers at four fifths of their grace."""

    kill_after_seconds: float = 10.0
    silent_seconds: float = 120.0


@dataclass(frozen=True, slots=True)
class Note:
    """What is remembered of a job between two looks. Losing it costs time and nothing else.

    `ordered` and `declined` are the epoch and the number of a resize that its agent was told of.
    """

    refusal: tuple[int, str] | None = None
    drained: int = 0
    ordered: tuple[int, int] = (0, 0)
    declined: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class Record:
    """Write the decision down, with the devices that its seats get."""

    epoch: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Launch:
    """Start the agent of the incarnation on record."""


@dataclass(frozen=True, slots=True)
class RecordRunning:
    """Its workers run."""


@dataclass(frozen=True, slots=True)
class RecordTarget:
    """Write down what the job is to be resized to, with the devices of what is added.

    `plan` is as the agent is told it.
    """

    serial: int
    target: Placement
    plan: str = ""


@dataclass(frozen=True, slots=True)
class OrderResize:
    """Tell the agent the width, the devices and the plan of the target on record."""


@dataclass(frozen=True, slots=True)
class OrderCompany:
    """Tell the agent with whom its job takes turns; with nobody, where the party has no name."""

    party: str


@dataclass(frozen=True, slots=True)
class RecordSeats:
    """These seats are what the job has from now on, after the resize of that number."""

    serial: int
    seats: tuple[Seat, ...]
    plan: str = ""


@dataclass(frozen=True, slots=True)
class RecordStopping:
    """Write down that this incarnation is to leave, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class OrderDrain:
    """Have it save and leave."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Void:
    """See to it that an incarnation on record that has not begun never begins."""


@dataclass(frozen=True, slots=True)
class Kill:
    """It has been asked long enough."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Take away what an agent that has ended left behind."""


@dataclass(frozen=True, slots=True)
class RecordEnd:
    """Write down how the incarnation ended; from then on its devices are free."""

    end: End
    progress: Progress


@dataclass(frozen=True, slots=True)
class RecordWaiting:
    """It holds nothing, and waits again."""


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the final state."""

    state: State
    message: str = ""


Action = (
    Record
    | Launch
    | RecordRunning
    | RecordTarget
    | OrderResize
    | OrderCompany
    | RecordSeats
    | RecordStopping
    | OrderDrain
    | Void
    | Kill
    | Sweep
    | RecordEnd
    | RecordWaiting
    | Settle
)

NOTHING: Final = Note()


@dataclass(frozen=True, slots=True)
class Step:
    """Events for the brain, or one action, or neither; `look_at`: look again then."""

    events: tuple[Event, ...] = ()
    action: Action | None = None
    look_at: float | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one job; `job` is None where its file cannot be used, and `fault` says why.

    `meeting` is the folder where it is to meet those who take turns with it, empty for nobody. A
    trial has passed when `trial_seconds_left` are none; for other jobs it is None.
    """

    entry: Entry
    job: JobRequest | None
    fault: str
    agent: ObservedAgent
    belief: Belief
    note: Note
    now: float
    rules: Rules
    grace_seconds: float = 30.0
    meeting: str = ""
    trial_seconds_left: float | None = None

    @property
    def has_passed(self) -> bool:
        """Whether it is a trial that has lasted long enough."""
        return self.trial_seconds_left is not None and self.trial_seconds_left <= 0.0

    def events(self, *events: Event) -> Step:
        return Step(events=events)

    def act(self, action: Action, *, look_at: float | None = None) -> Step:
        return Step(action=action, look_at=look_at)

    def waiting(self, look_at: float | None = None) -> Step:
        return Step(look_at=look_at)
