"""What the operator keeps of an object it watches: the few fields it uses, and nothing else.

A pod is 3–10 kB on the wire and some 50,000 of them may exist; what is kept is a flat value under
1 kB. Two sights that are equal but for their version mean that nothing of interest changed, which
spares the brain the heartbeats of every node.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from weft.brain.event import Past
from weft.kube.names import (
    CANCEL_ANNOTATION,
    EPOCH_LABEL,
    FINALIZER,
    GPU_RESOURCE,
    JOB_LABEL,
    POOL_LABEL,
    RANK_LABEL,
)
from weft.kube.node_rules import EVERYWHERE, NodeRules, devices, gpu_memory_gib, gpu_type, is_mig
from weft.kube.operator.asking import Asked, ask
from weft.kube.operator.recorded_decision import RecordedDecision, read_decision
from weft.kube.operator.stored_spec import read_stored
from weft.kube.pod_requests import NOTHING, PodRequests, pod_requests
from weft.kube.quantity import gib, parse_quantity
from weft.kube.reports.headship import Headship
from weft.kube.reports.payload import Unit
from weft.kube.resources.queue import QueueSpec
from weft.kube.resources.training_job import TrainingJobSpec
from weft.model.cluster import Gpu, Node
from weft.model.errors import SpecError
from weft.model.ids import DEFAULT_POOL, DEFAULT_RACK, GpuType, NodeId, PoolId, RackId
from weft.model.placement import Placement
from weft.model.plan import ExecutionPlan
from weft.model.suit import Offering
from weft.spec.quantity import duration_seconds
from weft.spec.reading import validated

Raw = Mapping[str, Any]

LIVE_PHASES = frozenset({"", "Pending", "Running", "Unknown"})
OUT_OF_REACH = "node.kubernetes.io/unreachable"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
SET_ASIDE = "SetAside"
"""A condition of a job that the operator cannot look after for now."""

HELD_UP = "HeldUp"
"""A condition of a job whose workers should be gone and are not."""
OUT_OF_MEMORY = "OOMKilled"
NO_PAST = Past()


@dataclass(frozen=True, slots=True)
class PodSight:
    """One pod. `job` is empty for a pod that is not of Weft's making.

    `leaves_by` is when one that was asked to leave has to be gone.
    """

    uid: str
    version: int
    namespace: str
    name: str
    job: str
    epoch: int
    seat: int
    owner: str
    node: str
    phase: str
    reason: str
    deleting: bool
    exit_code: int | None
    stuck: str
    unschedulable: str
    takes: PodRequests
    leaves_by: float | None = None

    @property
    def key(self) -> str:
        """The job it belongs to."""
        return f"{self.namespace}/{self.job}"

    @property
    def gpus(self) -> int:
        """Of any make, whole or in part; network cards and the like are no GPUs."""
        named = (n for name, n in self.takes.devices if name.endswith("gpu") or is_mig(name))
        return int(sum(named))

    @property
    def live(self) -> bool:
        """Whether it holds, or may come to hold, what it asked for."""
        return self.phase in LIVE_PHASES

    @property
    def running(self) -> bool:
        return self.phase == "Running" and not self.deleting

    @property
    def succeeded(self) -> bool:
        return self.phase == "Succeeded"

    @property
    def failed(self) -> bool:
        return self.phase == "Failed"


@dataclass(frozen=True, slots=True)
class NodeSight:
    """One node as the API server knows it; what others use of it is the ledger's to subtract.

    One that is `outside` is not Weft's to use. `taints` keep jobs away that do not bear them.
    `out_of_service` is the word of whoever keeps it that it is off.
    """

    uid: str
    version: int
    name: str
    ready: bool
    closed: bool
    gpus: int
    cpus: float
    memory_gib: float
    gpu_type: str
    gpu_memory_gib: float | None
    rack: str
    pool: str
    out_of_service: bool = False
    outside: bool = False
    gpu_resource: str = GPU_RESOURCE
    devices: tuple[tuple[str, float], ...] = ()
    taints: tuple[str, ...] = ()

    def beside(self, held: PodRequests = NOTHING) -> Node:
        """The node as the brain sees it when others hold so much of it."""
        gpus = max(self.gpus - int(held.of(self.gpu_resource)), 0)
        return Node(
            id=NodeId(self.name),
            gpus=gpus,
            gpu=Gpu(GpuType(self.gpu_type), self.gpu_memory_gib),
            cpus=max(self.cpus - held.cpus, 0.0),
            memory_gib=max(self.memory_gib - held.memory_gib, 0.0),
            rack=RackId(self.rack),
            pool=PoolId(self.pool),
            cordoned=self.closed or self.outside,
            offering=Offering(self._devices_per_gpu(held, gpus), self.taints),
        )

    def _devices_per_gpu(self, held: PodRequests, gpus: int) -> tuple[tuple[str, float], ...]:
        """Of the whole node, or of what others leave, whichever is less."""
        if not gpus:
            return ()
        return tuple(
            (name, min(amount / self.gpus, max(amount - held.of(name), 0.0) / gpus))
            for name, amount in self.devices
            if name != self.gpu_resource
        )

    def same_but_for_version(self, other: "NodeSight") -> bool:
        return replace(self, version=0) == replace(other, version=0)


@dataclass(frozen=True, slots=True)
class JobSight:
    """One training job: what was asked, what is recorded of the decision, and its owner's wish.

    `fault` says what is wrong with a spec. Fields that this version does not know are left out
    then, since a newer one may have stored them; `spec` is None where even that does not help.
    """

    uid: str
    version: int
    namespace: str
    name: str
    generation: int
    created: float
    deleting: bool
    cancelled: bool
    finalizer: bool
    spec: TrainingJobSpec | None
    fault: str
    status: Raw
    asked: Asked | None = None
    decision: RecordedDecision = field(init=False)

    def __post_init__(self) -> None:
        """Read once, since it is asked for at every look."""
        object.__setattr__(self, "decision", read_decision(self.status.get("decision")))

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def state(self) -> str:
        return str(self.status.get("state", ""))

    @property
    def final(self) -> bool:
        return self.state in ("Succeeded", "Failed", "Cancelled")

    @property
    def accepted(self) -> bool:
        """Whether an operator has taken it in before: it is not refused any more."""
        return bool(self.state)

    @property
    def epoch(self) -> int:
        """Of the last decision on record; 0 before the first."""
        return self.decision.epoch

    @property
    def placement(self) -> Placement | None:
        """The seats on record, those that are still to be joined among them."""
        return self.decision.placement

    @property
    def plan(self) -> ExecutionPlan | None:
        """How the last decision on record lets it compute; None before the first."""
        return self.decision.plan

    @property
    def serial(self) -> int:
        """Of the last resize on record in this epoch; 0 before the first."""
        return self.decision.serial

    @property
    def joining(self) -> frozenset[int]:
        """Seats whose workers are on their way: a resize under way has added them."""
        return self.decision.joining

    @property
    def next_seat(self) -> int:
        """A number that no seat of this epoch has had."""
        return self.decision.next_seat

    @property
    def is_live(self) -> bool | None:
        """Whether its head said that it can be resized while it trains; None before it spoke."""
        return self.decision.live

    @property
    def headship(self) -> Headship:
        """Who leads the workers of this epoch, as far as that is on record."""
        return self.decision.headship

    @property
    def held_up(self) -> str:
        """What is on record of workers that should be gone and are not."""
        return self._condition(HELD_UP)

    @property
    def set_aside(self) -> str:
        """What is on record of why the operator leaves it alone."""
        return self._condition(SET_ASIDE)

    def _condition(self, kind: str) -> str:
        for condition in self.status.get("conditions") or ():
            if condition.get("type") == kind:
                return str(condition.get("message", ""))
        return ""

    @property
    def past(self) -> Past:
        found = self.status.get("past")
        if not found:
            return NO_PAST
        return Past(
            float(found.get("attainedGpuSeconds", 0.0)),
            int(found.get("failures", 0)),
            int(found.get("refusals", 0)),
            int(found.get("preemptions", 0)),
            int(found.get("losses", 0)),
        )

    @property
    def work_saved(self) -> float:
        """What the job says it can go on from: seconds of its duration, else steps."""
        work, spec = self.status.get("work"), self.spec
        if not work or spec is None:
            return 0.0
        saved, total = float(work.get("saved", 0.0)), float(work.get("total", 0.0))
        if spec.duration is None:
            return saved if work.get("unit") == Unit.STEPS else 0.0
        share = saved / total if total > 0.0 else 0.0
        return min(share, 1.0) * duration_seconds(spec.duration)

    @property
    def execution(self) -> tuple[int, str]:
        """Epoch and phase that an external executor wrote."""
        found = self.status.get("execution", {})
        return int(found.get("epoch", 0)), str(found.get("phase", ""))

    @property
    def ended(self) -> float | None:
        text = self.status.get("endedAt")
        return None if text is None else parse_time(text)

    def check(self) -> None:
        """Whatever will be asked of its status can be answered; else this raises, here and now."""
        hash((self.held_up, self.past, self.work_saved, self.execution, self.ended))


@dataclass(frozen=True, slots=True)
class QueueSight:
    """One queue; `fault` says why it cannot be used."""

    uid: str
    version: int
    name: str
    generation: int
    spec: QueueSpec | None
    fault: str
    status: Raw


def see_pod(raw: Raw) -> PodSight:
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    labels = meta.get("labels") or {}
    worker = _worker(status)
    return PodSight(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        namespace=meta["namespace"],
        name=meta["name"],
        job=labels.get(JOB_LABEL, ""),
        epoch=_number(labels.get(EPOCH_LABEL)),
        seat=_number(labels.get(RANK_LABEL)),
        owner=controller_of(meta),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        reason=status.get("reason", "") or _out_of_memory(worker),
        deleting="deletionTimestamp" in meta,
        leaves_by=parse_time(meta["deletionTimestamp"]) if "deletionTimestamp" in meta else None,
        exit_code=worker.get("terminated", {}).get("exitCode"),
        stuck=worker.get("waiting", {}).get("reason", ""),
        unschedulable=_unschedulable(status),
        takes=pod_requests(spec),
    )


def see_node(raw: Raw, rules: NodeRules = EVERYWHERE) -> NodeSight:
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    labels = meta.get("labels") or {}
    room = status.get("allocatable") or {}
    taints = spec.get("taints") or ()
    resource = rules.gpu_resource(room)
    kind = gpu_type(labels, resource)
    barring = rules.barring(taints)
    return NodeSight(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        name=meta["name"],
        ready=_is_ready(status) and not any(taint["key"] == OUT_OF_REACH for taint in taints),
        out_of_service=any(taint["key"] == OUT_OF_SERVICE for taint in taints),
        closed=bool(spec.get("unschedulable")) or not {*barring} <= {*rules.job_tolerations},
        gpus=int(parse_quantity(room.get(resource, 0))),
        cpus=parse_quantity(room.get("cpu", 0)),
        memory_gib=gib(room.get("memory", 0)),
        gpu_type=kind,
        gpu_memory_gib=gpu_memory_gib(labels, resource),
        rack=rules.rack(labels, DEFAULT_RACK),
        pool=labels.get(POOL_LABEL, DEFAULT_POOL),
        outside=not rules.select(labels),
        gpu_resource=resource,
        devices=devices(room),
        taints=(*barring, *rules.special(kind, resource)),
    )


class JobEyes:
    """Sees training jobs; a spec never changes, so it is read once per job."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[TrainingJobSpec | None, str, Asked]] = {}

    def __call__(self, raw: Raw) -> JobSight:
        meta = raw["metadata"]
        created = parse_time(meta["creationTimestamp"])
        found = self._read.get(meta["uid"])
        if found is None:
            spec, fault = read_stored(raw.get("spec", {}))
            asked = ask(spec, fault, namespace=meta["namespace"], name=meta["name"], at=created)
            found = self._read[meta["uid"]] = (spec, fault, asked)
        annotations = meta.get("annotations") or {}
        sight = JobSight(
            uid=meta["uid"],
            version=int(meta["resourceVersion"]),
            namespace=meta["namespace"],
            name=meta["name"],
            generation=int(meta.get("generation", 1)),
            created=created,
            deleting="deletionTimestamp" in meta,
            cancelled=annotations.get(CANCEL_ANNOTATION) == "true",
            finalizer=FINALIZER in (meta.get("finalizers") or ()),
            spec=found[0],
            fault=found[1],
            status=raw.get("status") or {},
            asked=found[2],
        )
        sight.check()
        return sight

    def forget(self, uid: str) -> None:
        self._read.pop(uid, None)


def see_queue(raw: Raw) -> QueueSight:
    meta = raw["metadata"]
    spec, fault = None, ""
    try:
        spec = validated(QueueSpec, raw.get("spec", {}), name=meta["name"])
    except SpecError as error:
        fault = f"{error}: {error.hint}"
    return QueueSight(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        name=meta["name"],
        generation=int(meta.get("generation", 1)),
        spec=spec,
        fault=fault,
        status=raw.get("status") or {},
    )


def parse_time(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 time."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def controller_of(meta: Raw) -> str:
    """The uid of the object that made this one; empty where nobody says so."""
    for owner in meta.get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return ""


def _worker(status: Raw) -> Raw:
    """State of the worker container."""
    for container in status.get("containerStatuses") or ():
        state: Raw = container.get("state") or {}
        return state
    return {}


def _out_of_memory(worker: Raw) -> str:
    """The one reason of a container that says more than its exit code."""
    reason = worker.get("terminated", {}).get("reason")
    return OUT_OF_MEMORY if reason == OUT_OF_MEMORY else ""


def _unschedulable(status: Raw) -> str:
    """The stock scheduler's own words, where it found no room."""
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition.get("reason") == "Unschedulable":
            return str(condition.get("message", "unschedulable"))[:300]
    return ""


def _is_ready(status: Raw) -> bool:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            return bool(condition["status"] == "True")
    return False


def _number(label: str | None) -> int:
    return int(label) if label is not None and label.isdecimal() else -1
