"""The vocabulary of one step: what is looked at, what may come out, what is remembered between.

Everything here is a frozen value, so a step can be tested without a cluster and printed when it
surprises.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from weft.brain.event import Event
from weft.failure.diagnosis import Diagnosis
from weft.failure.rulebook import RuleBook, shipped
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.observation.recorded_decision import PlanOrder
from weft.kube.operator.reconcile.permissions import ALL_PERMITTED, Permissions
from weft.kube.reports.payload import OrderAnswer
from weft.kube.trouble import Trouble
from weft.model.decision import Assignment
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.model.reason import Reason
from weft.model.state import State
from weft.reconcile.belief import Belief


@dataclass(frozen=True, slots=True)
class Rules:
    """Times and habits of the operator. `pods` is False where somebody else runs the workers.

    `book` says what the ends of workers mean. Gangs of `gang_probe_gpus` have their nodes probed
    first (0: none has).
    """

    pods: bool = True
    default_image: str = ""
    permissions: Permissions = ALL_PERMITTED
    book: RuleBook = field(default_factory=shipped)
    unschedulable_seconds: float = 30.0
    stuck_seconds: float = 120.0
    join_seconds: float = 300.0
    plan_seconds: float = 600.0
    fence_seconds: float = 60.0
    head_seconds: float = 30.0
    keep_seconds: float | None = None
    trial_seconds: float = 0.0
    gang_probe_gpus: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """What is remembered of a job between two looks. Losing it costs time and nothing else.

    `refusal` says why the start (serial 0) or the resize of an epoch cannot be: epoch, serial, why,
    and `hopeless` that no other start would go better; a resize that was refused `untried` was not
    even begun. A trial runs since `tried_since`.
    """

    refusal: tuple[int, int, str] | None = None
    untried: bool = False
    unschedulable_since: float | None = None
    stuck_since: float | None = None
    joining_since: float | None = None
    ordered_since: float | None = None
    headless_since: float | None = None
    hopeless: Diagnosis | None = None
    tried_since: float | None = None


@dataclass(frozen=True, slots=True)
class NodeProbe:
    """What a node says of itself, asked `since` then; nothing before it has `answered`.

    Where nobody was `reached` nobody can tell, and nothing is held against it.
    """

    since: float
    answered: float | None = None
    unfit: str = ""
    reached: bool = True


@dataclass(frozen=True, slots=True)
class AskProbes:
    """Ask these nodes how they are."""

    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecordWait:
    """Write why it does not start yet, though it has seats."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class RecordRefused:
    """Write that the start was refused, with the reasons for which the job waits again."""

    state: State


@dataclass(frozen=True, slots=True)
class Record:
    """Write the decision into the job's status, guarded by its version."""

    epoch: int
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class RecordSeats:
    """Write the seats that an incarnation has from now on, those that are to be joined among them.

    `state` says whether the change is under way or over. Where it has a `cause`, the job's owner
    hears of it, and `why`. Under `plan` it computes from now on, if that is another one; or its
    workers are on their way to one by an order.
    """

    placement: Placement
    serial: int
    joining: frozenset[int] = frozenset()
    state: State = State.RESIZING
    cause: str = ""
    why: str = ""
    plan: ExecutionPlan | PlanOrder | None = None


@dataclass(frozen=True, slots=True)
class RecordStopping:
    """Write that this incarnation is being stopped, and why."""

    epoch: int
    why: str


@dataclass(frozen=True, slots=True)
class Settle:
    """Write the final state."""

    state: State
    message: str = ""


@dataclass(frozen=True, slots=True)
class CreatePods:
    """Create pods for these of the seats of an epoch; those that exist already count as created."""

    epoch: int
    placement: Placement
    numbers: tuple[int, ...]
    serial: int = 0


@dataclass(frozen=True, slots=True)
class DeletePods:
    """Delete these pods, each by its uid; `now` does not wait for the kubelet's word, for `why`."""

    pods: tuple[ObservedPod, ...]
    now: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class RecordHeldUp:
    """Write that workers which should be gone are not, and why."""

    why: str


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Keep the job's object until its workers are gone."""


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Let the object go."""


@dataclass(frozen=True, slots=True)
class CreateTrial:
    """Create the object of a trial of this gang."""

    gang: ObservedJob


@dataclass(frozen=True, slots=True)
class DeleteJob:
    """The finished job has been kept for as long as its owner wished."""


Action = (
    Record
    | RecordSeats
    | RecordStopping
    | RecordHeldUp
    | Settle
    | CreatePods
    | DeletePods
    | AddFinalizer
    | RemoveFinalizer
    | CreateTrial
    | AskProbes
    | RecordWait
    | RecordRefused
    | DeleteJob
)


@dataclass(frozen=True, slots=True)
class Step:
    """Events first; actions where the brain has nothing to learn. `look_at`: look again then."""

    events: tuple[Event, ...] = ()
    actions: tuple[Action, ...] = ()
    note: Note = Note()
    look_at: float | None = None

    @property
    def idle(self) -> bool:
        return not self.events and not self.actions


@dataclass(frozen=True, slots=True)
class Look:
    """One look at one job. `lost` maps nodes that are out of reach to the time of their loss.

    `dead` are those that are known to be off. `name_conflicts` are bound pods that have the names
    of the job's workers and are not Weft's.

    The job is None where there is no such object, or where it is `unreadable`.
    `said_live` is what the head of the present epoch last said of itself, if it has spoken, and
    `said_paused_seconds` what it cost to become as wide as the resize under way asks. One that
    `said_plans` follows orders to another plan, and `said_answer` is what came of the last.
    `tainted` are nodes with devices that their driver keeps claims away from. `gang` is
    whose trial it is, of a job that is one. `probed`
    are nodes that were asked lately how they are.
    """

    key: str
    job: ObservedJob | None
    pods: tuple[ObservedPod, ...]
    belief: Belief
    note: Note
    now: float
    rules: Rules
    lost: Mapping[str, float]
    dead: Collection[str] = ()
    said_live: bool | None = None
    said_paused_seconds: float | None = None
    said_plans: bool = False
    said_answer: OrderAnswer | None = None
    unreadable: bool = False
    name_conflicts: tuple[ObservedPod, ...] = ()
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    tainted: Mapping[str, tuple[Trouble, ...]] = field(default_factory=dict)
    gang: ObservedJob | None = None
    probed: Mapping[str, NodeProbe] = field(default_factory=dict)

    @property
    def id(self) -> JobId:
        return JobId(self.key)

    @property
    def live(self) -> tuple[ObservedPod, ...]:
        return tuple(pod for pod in self.pods if pod.live)

    def events(self, *events: Event) -> Step:
        return Step(events=events, note=self.note)

    def actions(self, *actions: Action) -> Step:
        return Step(actions=actions, note=self.note)

    def waiting(self, look_at: float | None = None) -> Step:
        return Step(note=self.note, look_at=look_at)
