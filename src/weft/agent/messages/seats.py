"""Between the head of a job over several pods and the followers on its other seats.

    follower → head   Offer  Brought  Started  Exited  Withdraw  Beat  Led  Kept
    head → follower   Start  Over  Beat  Heirs  Lead  Keep

`Over` is also said to a worker that is of no use any more.
"""

from dataclasses import dataclass

from weft.agent.messages.message import Json, Members, Message, Names


@dataclass(frozen=True, slots=True)
class Offer(Message):
    """A seat has come: so many GPUs, at that address."""

    gpus: int
    host: str


@dataclass(frozen=True, slots=True)
class Brought(Message):
    """A worker that was started for an earlier head stands on this seat, in that place."""

    worker: int
    rank: int
    index: int
    pid: int


@dataclass(frozen=True, slots=True)
class Heirs(Message):
    """Which seats may lead when the head is gone, the first before the others; none if none may.

    `seats` are all that have followers, `members` the workers that train. Those from `next_worker`
    on have never been started. Members compute under `plan`; while they are `turning` to another
    one there are workers of that as well, which nobody else has use for. What the program `offers`
    only a worker that begins tells.
    """

    term: int
    seats: Members
    heirs: Members
    members: Members
    next_worker: int
    plan: str = ""
    turning: bool = False
    offers: Names = ()


@dataclass(frozen=True, slots=True)
class Lead(Message):
    """Lead from now on: this head is about to leave, and its own workers have left."""


@dataclass(frozen=True, slots=True)
class Led(Message):
    """The answer: whether the operator lets this seat lead; if so it does."""

    ok: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Start(Message):
    """Start a worker there, as `weft.agent.workers.places.Standing` says, under that plan."""

    worker: int
    rank: int
    width: int
    local_rank: int
    local_width: int
    node_rank: int
    nodes: int
    index: int = 0
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Started(Message):
    """It runs."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True)
class Exited(Message):
    """It has ended; a negative code is a signal."""

    worker: int
    code: int


@dataclass(frozen=True, slots=True)
class Withdraw(Message):
    """The seat is to be given back within this time: let its workers leave."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Over(Message):
    """Nothing is left to do on that seat, or for that worker: end with this code."""

    exit_code: int
    why: str


@dataclass(frozen=True, slots=True)
class Keep(Message):
    """Write these parts of `count` to the vault: where each lies in the memory of that seat.

    `run` is what the manifest says of the program; `running` are all workers of the job, of whom
    nothing is swept away.
    """

    step: int
    cursor: int
    parts: Json
    count: int
    run: Json
    replace: bool
    running: Members


@dataclass(frozen=True, slots=True)
class Kept(Message):
    """Those parts are on the disk, or why not; `whole` if they have completed the checkpoint."""

    step: int
    whole: bool
    why: str = ""


@dataclass(frozen=True, slots=True)
class Beat(Message):
    """A sign of life between head and followers, in both directions, every second."""
