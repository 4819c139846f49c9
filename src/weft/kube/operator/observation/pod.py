"""One pod, as far as the operator uses it."""

from dataclasses import dataclass

from weft.failure.lines import plain
from weft.kube.names import (
    EPOCH_LABEL,
    JOB_LABEL,
    PROBE_LABEL,
    RANK_LABEL,
)
from weft.kube.node_rules import is_mig
from weft.kube.operator.observation.metadata import Raw, controller_of, parse_time
from weft.kube.pod_requests import PodRequests, pod_requests

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
    """One pod. `job` is empty for a pod that is not of Weft's making.

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
    worker = _worker(status)
    ended, waiting = worker.get("terminated") or {}, worker.get("waiting") or {}
    return ObservedPod(
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
        exit_code=ended.get("exitCode"),
        stuck=waiting.get("reason", ""),
        ended=ended.get("reason", ""),
        ended_at=parse_time(ended["finishedAt"]) if ended.get("finishedAt") else None,
        words=str(ended.get("message", ""))[:MOST_WORDS],
        message=str(waiting.get("message") or status.get("message") or "")[:MOST_MESSAGE],
        unschedulable=_unschedulable(status),
        takes=pod_requests(spec),
        probed=_probed(spec, status) if PROBE_LABEL in labels else None,
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


def _number(label: str | None) -> int:
    return int(label) if label is not None and label.isdecimal() else -1
