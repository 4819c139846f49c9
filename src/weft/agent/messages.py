"""What agent, workers and drivers say to each other: JSON lines, one message each, nothing pickled.

Each message is a frozen dataclass; its fields are its schema. A line carries the job and the
incarnation it belongs to and a running number, so that what comes late or from an older start of
the job is dropped. The control side refuses fields that it does not know; a worker, which may be
older than its agent, ignores them.

    worker → agent   Hello  Ready  Built  NotBuilt  Committed  Pulse  Broken  Saved  Leaving  Staged
                     Here
    agent → worker   Welcome  Prepare  Abandon  Arm  Halt  Regroup  Standby  Drain  Save  Over
    driver → agent   Resize  Drain  Save  Kill  Status
    store            Ask  Answer
    outpost → head   Offer  Brought  Started  Exited  Withdraw  Beat  Led  Kept
    head → outpost   Start  Kill  Over  Beat  Heirs  Lead  Keep
"""

import dataclasses
import json
import typing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from weft.model.errors import ProtocolError

MOST_LINE_BYTES: Final = 1 << 20
NOWHERE: Final = -1
FRESH: Final = -1  # the step before the first
STATELESS: Final = -2  # the last step of a worker that has not received the state

Members = tuple[int, ...]
Json = dict[str, Any]
Figures = dict[str, float]


class Farewell(StrEnum):
    """Why a worker leaves in the middle of its script."""

    DRAINED = "drained"
    LEFT = "left"


@dataclass(frozen=True, slots=True)
class Message:
    """What is common to all: the worker that speaks or is spoken to stands in the connection."""


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


@dataclass(frozen=True, slots=True)
class Leaving(Message):
    """This worker ends after that step, though the script goes on elsewhere or later."""

    epoch: int
    step: int
    why: Farewell


@dataclass(frozen=True, slots=True)
class Drain(Message):
    """Leave together at the next agreed boundary, with a snapshot."""

    grace_seconds: float


@dataclass(frozen=True, slots=True)
class Save(Message):
    """Take a snapshot at the next boundary."""


@dataclass(frozen=True, slots=True)
class Resize(Message):
    """Train on that many workers; the pools of devices and processors are replaced where given."""

    width: int
    devices: Members = ()
    cpus: Members = ()


@dataclass(frozen=True, slots=True)
class Kill(Message):
    """Send a signal to a worker: by an outpost for its head, or by a driver to see what happens."""

    worker: int
    signal: int


@dataclass(frozen=True, slots=True)
class Status(Message):
    """Tell how the job stands."""


@dataclass(frozen=True, slots=True)
class Offer(Message):
    """A seat has come: so many GPUs, at that address."""

    gpus: int
    host: str


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
class Brought(Message):
    """A worker that was started for an earlier head stands on this seat, in that place."""

    worker: int
    rank: int
    index: int
    pid: int


@dataclass(frozen=True, slots=True)
class Heirs(Message):
    """Which seats may lead when the head is gone, the first before the others; none if none may.

    `seats` are all that have outposts, `members` the workers that train. Those from `next_worker`
    on have never been started.
    """

    term: int
    seats: Members
    heirs: Members
    members: Members
    next_worker: int


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
    """Start a worker there, as `weft.agent.workers.places.Standing` says."""

    worker: int
    rank: int
    width: int
    local_rank: int
    local_width: int
    node_rank: int
    nodes: int
    index: int = 0


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
    """A sign of life between head and outposts, in both directions, every second."""


@dataclass(frozen=True, slots=True)
class Ask(Message):
    """One operation on the control store; values are base64."""

    op: str
    key: str = ""
    value: str = ""
    expected: str = ""
    amount: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """What the store, or the agent to a driver, has to say."""

    ok: bool
    value: str = ""
    amount: int = 0
    body: Json = field(default_factory=dict)


KINDS: Final[dict[str, type[Message]]] = {kind.__name__: kind for kind in Message.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Envelope:
    """Whose message it is: anything of another job or an older incarnation is dropped."""

    job: str
    incarnation: int
    seq: int
    message: Message


def encode(envelope: Envelope) -> bytes:
    """One line, with its end."""
    body = dataclasses.asdict(envelope.message)
    line = {
        "job": envelope.job,
        "incarnation": envelope.incarnation,
        "seq": envelope.seq,
        "type": type(envelope.message).__name__,
        "body": body,
    }
    return json.dumps(line, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes, *, strict: bool) -> Envelope:
    """What a line says; `strict` refuses fields that the message does not have."""
    if len(line) > MOST_LINE_BYTES:
        raise ProtocolError(f"a message of {len(line):,} bytes", hint="the most is 1 MiB")
    raw = _object(line)
    name = raw.get("type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProtocolError(f"no message is called {raw.get('type')!r}")
    return Envelope(
        job=_checked(str, raw.get("job"), "job"),
        incarnation=_checked(int, raw.get("incarnation"), "incarnation"),
        seq=_checked(int, raw.get("seq"), "seq"),
        message=_message(kind, raw.get("body"), strict=strict),
    )


def _object(line: bytes) -> Json:
    try:
        raw = json.loads(line, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise ProtocolError(f"not a message: {error}") from error
    if not isinstance(raw, dict):
        raise ProtocolError("not a message: a JSON object was expected")
    return raw


def _no_number(text: str) -> Json:
    """JSON knows neither NaN nor infinity; Python's reader would take both."""
    raise ValueError(f"{text} is no number")


def _message(kind: type[Message], body: object, *, strict: bool) -> Message:
    if not isinstance(body, dict):
        raise ProtocolError(f"{kind.__name__} has no body")
    wanted = typing.get_type_hints(kind)
    unknown = sorted(set(body) - set(wanted))
    if unknown and strict:
        raise ProtocolError(f"{kind.__name__} has no field {unknown[0]!r}")
    values = {name: _checked(wanted[name], body[name], name) for name in body if name in wanted}
    try:
        return kind(**values)
    except TypeError as error:
        raise ProtocolError(f"{kind.__name__} is incomplete: {error}") from error


def _checked(wanted: Any, value: object, name: str) -> Any:  # noqa: ANN401 - types as values
    """`value` as the field's type, or an error that names the field."""
    found = _converted(wanted, value)
    if found is _REFUSED:
        kind = getattr(wanted, "__name__", wanted)
        raise ProtocolError(f"{name} is {str(value)[:100]!r}, which is no {kind}")
    return found


_REFUSED: Final = object()


def _converted(wanted: Any, value: object) -> object:  # noqa: ANN401
    if wanted is float:
        return _number(value)
    if wanted == Figures:
        return _figures(value)
    if typing.get_origin(wanted) is tuple:
        return _members(value)
    if typing.get_origin(wanted) is dict:
        return value if isinstance(value, dict) else _REFUSED
    if issubclass(wanted, StrEnum):
        return wanted(value) if value in list(wanted) else _REFUSED
    return value if type(value) is wanted else _REFUSED


def _number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _REFUSED
    try:
        return float(value)
    except OverflowError:
        return _REFUSED


def _figures(value: object) -> object:
    if not isinstance(value, dict):
        return _REFUSED
    figures = {name: _number(figure) for name, figure in value.items()}
    return _REFUSED if _REFUSED in figures.values() else figures


def _members(value: object) -> object:
    if isinstance(value, list) and all(type(one) is int for one in value):
        return tuple(value)
    return _REFUSED
