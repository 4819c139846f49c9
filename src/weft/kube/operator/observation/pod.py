"""One pod, as far as the operator uses it."""

from dataclasses import dataclass

from weft.failure.lines import plain
from weft.kube.names import (
    JOB_LABEL,
    PLACEHOLDER_INFIX,
    PROBE_LABEL,
    WorkerName,
    parse_pod_name,
)
from weft.kube.node_rules import is_mig
from weft.kube.operator.observation.metadata import (
    Raw,
    controller_of,
    controlling_job,
    parse_time,
)
from weft.kube.pod_requests import NOTHING, PodRequests, pod_requests

LIVE_PHASES = frozenset({"", "Pending", "Running", "Unknown"})
OUT_OF_MEMORY = "OOMKilled"
MOST_WORDS = 4096
MOST_MESSAGE = 500
PROBE_PORT = "probe"


@dataclass(frozen=True, slots=True)
class Probed:
    """What a pod says whose only work is to probe its node; `words` is what failed last.

    `address` is where it may be asked, if it listens.
    """

    ready: bool
    words: str = ""
    address: tuple[str, int] | None = None

    @property
    def unfit(self) -> str:
        """Why nothing should start there; one that is only about to begin says nothing yet."""
        return "" if self.ready else self.words


@dataclass(frozen=True, slots=True)
class ObservedPod:
    """One pod. `job` is empty for a pod that is not Weft's.

    A worker is a pod that has the name of a worker of `job`, its label, and that TrainingJob as its
    controller. Labels and owner references can change, a name cannot, so `epoch` and `seat` come
    from the name. They are known too for a pod that has the name and the label without the owner.

    `leaves_by` is when one that was asked to leave has to be gone. `words` is what its container
    left to be read, `message` what the kubelet or the runtime says, `ended` in one word. One that
    probes its node has `probed`.
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
    ended: str = ""
    ended_at: float | None = None
    words: str = ""
    message: str = ""
    probed: Probed | None = None

    @property
    def key(self) -> str:
        """The job it belongs to."""
        return f"{self.namespace}/{self.job}"

    @property
    def worker_name(self) -> WorkerName | None:
        """Which worker it is by its name alone; None for a pod that has no such name."""
        return parse_pod_name(self.name)

    def was_worker_of(self, job_uid: str) -> bool:
        """Whether a pod that has a worker's name lost its label or its owner after creation."""
        return not self.job and (self.owner == job_uid or self.epoch >= 0)

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


def read_pod(raw: Raw) -> ObservedPod:
    meta, spec, status = raw["metadata"], raw["spec"], raw.get("status", {})
    labels = meta.get("labels") or {}
    named = parse_pod_name(meta["name"])
    if named is not None and named.job != labels.get(JOB_LABEL):
        named = None
    worker = _worker(status)
    ended, waiting = worker.get("terminated") or {}, worker.get("waiting") or {}
    return ObservedPod(
        uid=meta["uid"],
        version=int(meta["resourceVersion"]),
        namespace=meta["namespace"],
        name=meta["name"],
        job=named.job if named is not None and named.job == controlling_job(meta) else "",
        epoch=-1 if named is None else named.epoch,
        seat=-1 if named is None else named.seat,
        owner=controller_of(meta),
        node=spec.get("nodeName", ""),
        phase=status.get("phase", ""),
        reason=status.get("reason", "") or _out_of_memory(worker),
        deleting="deletionTimestamp" in meta,
        leaves_by=parse_time(meta["deletionTimestamp"]) if "deletionTimestamp" in meta else None,
        exit_code=ended.get("exitCode"),
        stuck=waiting.get("reason", ""),
        ended=ended.get("reason", ""),
        ended_at=parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
        words=str(ended.get("message", ""))[:MOST_WORDS],
        message=str(waiting.get("message") or status.get("message") or "")[:MOST_MESSAGE],
        unschedulable=_unschedulable(status),
        takes=NOTHING if is_placeholder(raw) else pod_requests(spec),
        probed=_probed(spec, status) if PROBE_LABEL in labels else None,
    )


def is_placeholder(raw: Raw) -> bool:
    """Whether a pod is a placeholder: made for a TrainingJob, and preempted at once by any worker.

    Labels are not enough, because a worker or another pod could be given them. Name, priority and
    grace period cannot change after a pod is created.
    """
    meta, spec = raw["metadata"], raw["spec"]
    job = (meta.get("labels") or {}).get(JOB_LABEL)
    return (
        bool(job)
        and meta["name"].rpartition(PLACEHOLDER_INFIX)[0] == job == controlling_job(meta)
        and (spec.get("priority") or 0) < 0
        and spec.get("terminationGracePeriodSeconds") == 0
    )


def _probed(spec: Raw, status: Raw) -> Probed:
    """A container that ended with an error, now or before it was started again, has failed."""
    address = _listens_at(spec, status)
    for container in status.get("containerStatuses") or ():
        for state in (container.get("state") or {}, container.get("lastState") or {}):
            ended = state.get("terminated") or {}
            if ended.get("exitCode"):
                words = str(ended.get("message") or f"its probes ended with {ended['exitCode']}")
                return Probed(bool(container.get("ready")), plain(words)[:MOST_MESSAGE], address)
        return Probed(bool(container.get("ready")), address=address)
    return Probed(ready=False)


def _listens_at(spec: Raw, status: Raw) -> tuple[str, int] | None:
    host = status.get("podIP")
    ports = [port for each in spec.get("containers") or () for port in each.get("ports") or ()]
    named = [int(port["containerPort"]) for port in ports if port.get("name") == PROBE_PORT]
    return (str(host), named[0]) if host and named else None


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
