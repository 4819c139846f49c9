"""Names that the Kubernetes world writes down: others rely on them, so they stay."""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

GROUP: Final = "weft.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

JOBS: Final = "trainingjobs"
JOB_KIND: Final = "TrainingJob"
QUEUES: Final = "queues"
QUEUE_KIND: Final = "Queue"
WAIT_REPORTS: Final = "waitreports"
WAIT_REPORT_KIND: Final = "WaitReport"

JOB_LABEL: Final = f"{GROUP}/job"
EPOCH_LABEL: Final = f"{GROUP}/epoch"
RANK_LABEL: Final = f"{GROUP}/rank"
PROBE_LABEL: Final = f"{GROUP}/probe"
"""Of pods in the operator's own namespace that are ready while the probes of their node pass."""

REPAIRED_ANNOTATION: Final = f"{GROUP}/repaired"
"""On a node, when somebody has repaired it: a moment as Kubernetes writes them."""

PLACEHOLDER_LABEL: Final = f"{GROUP}/placeholder"
PLACEHOLDER_INFIX: Final = "-room-"
BOUND_PODS: Final = {
    "fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"
}
"""Pods that use something of a node."""

LABELED_PODS: Final = {"labelSelector": JOB_LABEL}
UNLABELED_PODS: Final = {"labelSelector": f"!{JOB_LABEL}", **BOUND_PODS}
"""Together these two select every bound pod, whatever labels it has."""

QUEUE_LABEL: Final = f"{GROUP}/queue"
LEADER_ANNOTATION: Final = f"{GROUP}/leader"
REPORT_CA_ANNOTATION: Final = f"{GROUP}/report-ca"
TERM_ANNOTATION: Final = f"{GROUP}/term"
"""On a job by which a new leader made sure that it has seen all that was decided before."""

CANCEL_ANNOTATION: Final = f"{GROUP}/cancel"
FINALIZER: Final = f"{GROUP}/workers"

GPU_RESOURCE: Final = "nvidia.com/gpu"
GPU_TYPE_LABEL: Final = "nvidia.com/gpu.product"
GPU_MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
RACK_LABEL: Final = "topology.kubernetes.io/rack"
POOL_LABEL: Final = f"{GROUP}/pool"

TOKEN_AUDIENCE: Final = "weft"
LEASE: Final = "weft-operator"
NAMESPACE: Final = "weft-system"  # where the documents install it
SETTINGS: Final = "weft-settings"
FIELD_MANAGER: Final = "weft"
USER_AGENT: Final = "weft"

NAME_PARTS: Final = 3  # job, epoch and seat in the name of a worker
HEAD_SEAT: Final = 0  # its pod holds the head of the job


def jobs_path(namespace: str | None = None, name: str | None = None) -> str:
    """Where training jobs live: all, of one namespace, or one."""
    return _path(JOBS, namespace, name)


def queues_path(name: str | None = None) -> str:
    return _path(QUEUES, None, name)


def wait_reports_path(namespace: str | None = None, part: int | None = None) -> str:
    return _path(WAIT_REPORTS, namespace, None if part is None else wait_report_name(part))


def wait_report_name(part: int) -> str:
    return f"waits-{part}"


def wait_part(job: str, parts: int) -> int:
    """Which of the parts of a namespace's report speaks of the job, for writers and readers."""
    return crc32(job.encode()) % parts


def pods_path(namespace: str | None = None, name: str | None = None) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/api/v1{within}/pods" + (f"/{name}" if name else "")


def pod_name(job: str, epoch: int, seat: int) -> str:
    """Deterministic, so that creating it twice is the same as creating it once."""
    return f"{job}-{epoch}-{seat}"


@dataclass(frozen=True, slots=True)
class WorkerName:
    """The parts of a worker's name."""

    job: str
    epoch: int
    seat: int


def parse_pod_name(name: str) -> WorkerName | None:
    """The inverse of `pod_name`; None for any other name."""
    parts = name.rsplit("-", 2)
    if len(parts) != NAME_PARTS or not parts[0] or not all(map(_is_number, parts[1:])):
        return None
    return WorkerName(parts[0], int(parts[1]), int(parts[2]))


def _is_number(text: str) -> bool:
    """Whether `pod_name` writes a number in this way."""
    return text.isascii() and text.isdecimal() and str(int(text)) == text


def _path(plural: str, namespace: str | None, name: str | None) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{API_VERSION}{within}/{plural}" + (f"/{name}" if name else "")
