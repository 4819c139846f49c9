"""What a world tells the brain. Time comes in with the event; the brain has no clock."""

from dataclasses import dataclass
from enum import StrEnum

from weft.failure.diagnosis import Diagnosis
from weft.failure.evidence import UNEXPLAINED, Failure
from weft.failure.health import Health
from weft.failure.retry import RetryState
from weft.model.capability import Capability
from weft.model.cluster import Node
from weft.model.decision import NO_PARTY
from weft.model.ids import JobId, NodeId, PartyId
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.model.queue import Queue
from weft.model.request import JobRequest
from weft.model.stages import StageProfile


class Phase(StrEnum):
    """What a world sees of a job when it looks."""

    ABSENT = "absent"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Verb(StrEnum):
    """What an instruction asks for; with job and epoch it makes the instruction's id."""

    START = "start"
    RESIZE = "resize"
    PREEMPT = "preempt"
    STOP = "stop"
    PROBE = "probe"
    FEED = "feed"
    WAKE = "wake"
    CHECK = "check"
    ASK = "ask"


@dataclass(frozen=True, slots=True)
class JobSubmitted:
    """A job was submitted; the same id again means nothing new."""

    at: float
    job: JobRequest


@dataclass(frozen=True, slots=True)
class JobCancelled:
    """Its owner wants it no more."""

    at: float
    job: JobId


@dataclass(frozen=True, slots=True)
class Past:
    """What a job has behind it, as its world wrote it down: a fresh brain cannot know it.

    `retry` is what was remembered of its failures, where there have been some.
    """

    attained_gpu_seconds: float = 0.0
    failures: int = 0
    refusals: int = 0
    preemptions: int = 0
    losses: int = 0
    retry: RetryState | None = None


@dataclass(frozen=True, slots=True)
class Fed:
    """What each GPU of a job has beyond what its seats say, since the feeding of that number."""

    cores: float = 0.0
    memory_gib: float = 0.0
    serial: int = 0


@dataclass(frozen=True, slots=True)
class JobReported:
    """A look at a job: its phase, and where it runs its work so far. Also a probe's answer.

    `past` is for a brain that meets the job for the first time, and ignored by one that knows it.
    `serial` is the last resize that the placement shows; seats that it lacks are gone, and the
    others train on. `next_seat` is a number that no seat of the epoch has had, where the world has
    written that down. `live` says whether the job can be resized while it trains (None: no news),
    `tunable` the same of its cores and memory, and `fed` what it has of those beyond its seats'.
    `yields` says whether it gives way to those who rank before it (None: no news).
    `plan` is how it computes, or did when it ran last, where the world has written that down, and
    `party` with whom it takes turns.
    """

    at: float
    job: JobId
    epoch: int
    phase: Phase
    work_done: float
    placement: Placement | None = None
    past: Past | None = None
    serial: int = 0
    next_seat: int = 0
    live: bool | None = None
    tunable: bool | None = None
    fed: Fed | None = None
    plan: ExecutionPlan | None = None
    yields: bool | None = None
    party: PartyId = NO_PARTY


@dataclass(frozen=True, slots=True)
class PlansOffered:
    """As what the program of a running job can be run, by its own word.

    To any of it the world can take the job while it trains.
    """

    at: float
    job: JobId
    epoch: int
    offers: tuple[Capability, ...]


@dataclass(frozen=True, slots=True)
class JobMeasured:
    """What its workers measured while its width stood still.

    `units_per_second` is the speed over `seconds` of training on `gpus` GPUs of `nodes` nodes with
    `cpus` cores in all (0: not known), in the units that `work_done` counts. No second of training
    is in two measurements, so that they can be averaged by time. `work_total` is the
    total that the script states, for a job that was submitted without one; `loss` is where it
    stands. `stages` is what one step does alone, as measured; of a job that has never been alone
    `stages_in_turns` is what it does while it takes turns, without the waits for them.
    `shared_steps_per_second` is the speed where the job took turns with others meanwhile, which
    tells nothing of its width. Old news and news of another incarnation do no harm: a speed is a
    fact of its width.
    """

    at: float
    job: JobId
    epoch: int
    gpus: int
    nodes: int
    units_per_second: float
    seconds: float
    work_done: float
    cpus: float = 0.0
    work_total: float | None = None
    loss: float | None = None
    stages: StageProfile | None = None
    stages_in_turns: StageProfile | None = None
    shared_steps_per_second: float | None = None


@dataclass(frozen=True, slots=True)
class JobFinished:
    """All its work is done and its processes are gone."""

    at: float
    job: JobId
    epoch: int


@dataclass(frozen=True, slots=True)
class JobFailed:
    """It ended without finishing, its processes are gone, and `work_kept` is checkpointed.

    `diagnosis` is what was found when somebody looked into it; without one it is judged by how
    often it has failed.
    """

    at: float
    job: JobId
    epoch: int
    work_kept: float
    failure: Failure = UNEXPLAINED
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class JobForgotten:
    """The world keeps no trace of a job that is over; its name may be used again."""

    at: float
    job: JobId


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """One of its workers is gone; the others may still run. It is not the job that failed."""

    at: float
    job: JobId
    epoch: int
    node: NodeId
    failure: Failure = UNEXPLAINED
    diagnosis: Diagnosis | None = None


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node is there, for the first time or again."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeChanged:
    """A node was cordoned, resized or relabelled."""

    at: float
    node: Node


@dataclass(frozen=True, slots=True)
class NodeLost:
    """A node is gone or out of reach; what ran there makes no more progress."""

    at: float
    node: NodeId


@dataclass(frozen=True, slots=True)
class NodeChecked:
    """A node that was set aside was checked; `repaired` where people say so."""

    at: float
    node: NodeId
    passed: bool
    evidence: str = ""
    repaired: bool = False


@dataclass(frozen=True, slots=True)
class ServiceAsked:
    """Whether a service that jobs failed on answers."""

    at: float
    service: str
    answers: bool


@dataclass(frozen=True, slots=True)
class PastRecalled:
    """What jobs have had that were over before this brain began, for one that knows of none.

    Restarts are paid from all GPU time. `restarted_gpus` are those of the restarts that such jobs
    had themselves, each GPU as often as it was started anew.
    """

    at: float
    served_gpu_seconds: float
    restarted_gpus: int = 0


@dataclass(frozen=True, slots=True)
class HealthRecalled:
    """What a world wrote down of nodes and services, for a brain that knows nothing of them."""

    at: float
    health: Health


@dataclass(frozen=True, slots=True)
class QueueChanged:
    """A queue was added or edited."""

    at: float
    queue: Queue


@dataclass(frozen=True, slots=True)
class InstructionDone:
    """Done, and what it freed is free. `work_kept` is what a stopped job can resume from.

    `paused_seconds` is how long a resize kept the job from training, where that was measured.
    """

    at: float
    job: JobId
    epoch: int
    verb: Verb
    work_kept: float | None = None
    serial: int = 0
    paused_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class InstructionRefused:
    """The world would not do it, and nothing of it was done.

    A resize that was not even begun is `untried`: what it was to be says nothing against it.
    """

    at: float
    job: JobId
    epoch: int
    verb: Verb
    why: str
    serial: int = 0
    untried: bool = False


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has come that the brain asked to be woken at."""

    at: float


Event = (
    JobSubmitted
    | JobCancelled
    | JobReported
    | PlansOffered
    | JobMeasured
    | JobFinished
    | JobFailed
    | JobForgotten
    | WorkerLost
    | NodeAdded
    | NodeChanged
    | NodeLost
    | NodeChecked
    | ServiceAsked
    | HealthRecalled
    | PastRecalled
    | QueueChanged
    | InstructionDone
    | InstructionRefused
    | Tick
)
