"""Names that the Kubernetes world writes down: others rely on them, so they stay."""

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
WORKERS_SELECTOR: Final = f"{JOB_LABEL},!{PLACEHOLDER_LABEL}"
FOREIGN_PODS: Final = {
    "labelSelector": f"!{JOB_LABEL}",
    "fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
}
"""Those of others that use something of a node."""

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


def _path(plural: str, namespace: str | None, name: str | None) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{API_VERSION}{within}/{plural}" + (f"/{name}" if name else "")
