"""Between a worker and its agent: how a process becomes a member of epochs, and leaves them.

    worker → agent   Hello  Ready  Built  NotBuilt  Committed  Pulse  Broken  Saved  Leaving  Staged
                     Here
    agent → worker   Welcome  Prepare  Abandon  Arm  Halt  Regroup  Standby  Yield

Every connection begins with a `Hello`, whoever speaks.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from weft.agent.messages.message import Figures, Json, Members, Message, Names


@dataclass(frozen=True, slots=True)
class Hello(Message):
    """The first words on a connection; `token` is the job's own secret."""

    role: str
    worker: int
    pid: int
    token: str


@dataclass(frozen=True, slots=True)
class Welcome(Message):
    """The answer: whether to warm up by a step that counts for nothing, among how many workers.

    `loop` is the one in which the others are: those before it are over.
    """

    warm: bool
    width: int
    hang_seconds: float
    loop: int = 0


@dataclass(frozen=True, slots=True)
class Ready(Message):
    """Imported, built and, where asked, warmed."""

    warm_seconds: float
    elastic: bool
    offers: Names = ()  # as what its program can be run: see `weft.train.plans.hooks`


@dataclass(frozen=True, slots=True)
class Here(Message):
    """Said to a head that is not the one which this worker knew: how it stands.

    `epoch` and `members` are those of the epoch it is in, none if it is in none; `latest` is the
    newest that it was told of. It is `settled` if nothing is under way there.
    """

    epoch: int
    latest: int
    members: Members
    committed: int
    ready: bool
    settled: bool


@dataclass(frozen=True, slots=True)
class Prepare(Message):
    """Build the group of a coming epoch beside the present one."""

    epoch: int
    members: Members
    joiners: Members


@dataclass(frozen=True, slots=True)
class Built(Message):
    """The group of that epoch stands on this worker."""

    epoch: int


@dataclass(frozen=True, slots=True)
class NotBuilt(Message):
    """It could not be built."""

    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Abandon(Message):
    """That epoch will not come; a newer target takes its place."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Arm(Message):
    """All have built it: the next agreed step begins it. There is no way back but a failure."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Halt(Message):
    """Somebody is missing: stop using the group of this epoch and say how far you are."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Broken(Message):
    """How far: the last committed step, and the step whose summed gradient is in hand (or -1).

    A gradient in hand was voted for by this worker, so it may be applied if anyone has applied it.
    """

    epoch: int
    committed: int
    pending: int
    why: str
    yielded: bool = False  # nothing is broken: it was asked to stop


@dataclass(frozen=True, slots=True)
class Yield(Message):
    """Stop after the same step as all others, with what you hold saved, and wait for an order.

    Workers of another plan take over; if they cannot, you go on.
    """

    epoch: int


@dataclass(frozen=True, slots=True)
class Regroup(Message):
    """Go on in this epoch with these members.

    Donors hold the state after step `committed`, once a gradient in hand is applied where needed;
    the others receive it first. `source` is a checkpoint that the first donor loads before.
    """

    epoch: int
    members: Members
    donors: Members
    committed: int
    source: str


@dataclass(frozen=True, slots=True)
class Standby(Message):
    """You are not in the coming epoch, but may be in a later one: wait, warm."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Committed(Message):
    """A step was applied; told for the first step of an epoch.

    `paused_seconds` is how much longer than usual it was since the step before, in another epoch.
    """

    epoch: int
    step: int
    paused_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Pulse(Message):
    """Twice a second: in which section the main thread is, for how long, and how far it came.

    It is told at once when the script comes out of a loop, and when it goes into one. `moved` are
    the bytes of state that it has sent or received in its life.
    """

    epoch: int
    step: int
    section: str
    section_seconds: float
    samples: int
    total: int
    metrics: Figures = field(default_factory=dict)
    loop: int = 0
    moved: int = 0


@dataclass(frozen=True, slots=True)
class Staged(Message):
    """The stage profiler's report, at most 1 KB."""

    report: Json


@dataclass(frozen=True, slots=True)
class Saved(Message):
    """Part number `part` of `parts` of a snapshot lies sealed in shared memory.

    `left` is said of one that differs from another of that step: its loop was left early.
    """

    epoch: int
    step: int
    cursor: int
    part: int
    parts: int
    path: str
    blocked_seconds: float
    left: bool = False


class Farewell(StrEnum):
    """Why a worker leaves in the middle of its script."""

    DRAINED = "drained"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Leaving(Message):
    """This worker ends after that step, though the script goes on elsewhere or later."""

    epoch: int
    step: int
    why: Farewell
