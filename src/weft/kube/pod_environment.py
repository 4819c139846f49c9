"""What workers are told by variables: of their job, their gang, their seat, and where to report."""

from typing import Any, Final

from weft.kube.names import HEAD_SEAT
from weft.kube.reports.server import kubeflow_path, report_path
from weft.model.ids import JobId
from weft.model.placement import Seat
from weft.model.trial import is_trial
from weft.reconcile import trial
from weft.spec.job_file import JobSpec
from weft.spec.pod_fields import EnvSource
from weft.spec.process_rules import PER_GPU, PER_NODE

Manifest = dict[str, Any]

MASTER_PORT: Final = 29500
TOKEN_FOLDER: Final = "/var/run/weft"
TOKEN_FILE: Final = f"{TOKEN_FOLDER}/token"
POD_IP: Final[Manifest] = {
    "name": "WEFT_POD_IP",
    "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}},
}


def given_env(spec: JobSpec) -> list[Manifest]:
    """What the job itself says."""
    written = [{"name": name, "value": literal(value)} for name, value in spec.env.items()]
    return written + [{"name": it.name, "valueFrom": _source(it)} for it in spec.env_from]


def job_env(namespace: str, name: str, spec: JobSpec) -> list[Manifest]:
    """What is the same for all workers of a job."""
    width = spec.resources.width
    found = env(
        WEFT_JOB=f"{namespace}/{name}",
        # A job without GPUs has a worker all the same.
        WEFT_MIN_GPUS=max(width.least, 1),
        WEFT_MAX_GPUS=max(width.most, 1),
        WEFT_GRACE_SECONDS=spec.grace_seconds,
        WEFT_NPROC_PER_NODE=PER_GPU if spec.starts_per_gpu else PER_NODE,
        MASTER_PORT=MASTER_PORT,
        PET_MASTER_PORT=MASTER_PORT,
    )
    found.append(POD_IP)
    if is_trial(JobId(name)):
        found.append({"name": trial.VARIABLE, "value": "1"})
    if spec.checkpoint is not None:
        found += env(WEFT_CHECKPOINT_EVERY_SECONDS=spec.checkpoint_seconds)
        if spec.checkpoint.path is not None:
            found += env(WEFT_CHECKPOINT_PATH=literal(spec.checkpoint.path))
    return found


def takes_advice(spec: JobSpec) -> bool:
    """Whether the job saves somewhere and does not say how often."""
    return spec.checkpoint is not None and spec.checkpoint.every is None


def report_env(report_url: str, ca_file: str, namespace: str, name: str) -> list[Manifest]:
    """Where progress goes; libraries that know Kubeflow's names report without a change."""
    url = report_url.rstrip("/")
    found = env(
        WEFT_REPORT_URL=url + report_path(namespace, name),
        WEFT_TOKEN_FILE=TOKEN_FILE,
        KUBEFLOW_TRAINER_SERVER_URL=url + kubeflow_path(namespace, name),
        KUBEFLOW_TRAINER_SERVER_TOKEN=TOKEN_FILE,
    )
    if ca_file:
        found += env(WEFT_REPORT_CA_FILE=ca_file, KUBEFLOW_TRAINER_SERVER_CA_CERT=ca_file)
    return found


def seat_env(seat: Seat, rank: int) -> list[Manifest]:
    """What is told to one pod alone."""
    found = env(
        WEFT_SEAT=seat.number,
        WEFT_SEAT_GPUS=workers_on(seat),
        WEFT_RANK=rank,
        NODE_RANK=rank,
        PET_NODE_RANK=rank,
        PET_NPROC_PER_NODE=workers_on(seat),
    )
    if seat.number == HEAD_SEAT:
        found += env(WEFT_HEAD=1)
    # Images made for GPUs ask for all of them, and some runtimes obey.
    return found if seat.gpus else [*found, {"name": "NVIDIA_VISIBLE_DEVICES", "value": "void"}]


def workers_on(seat: Seat) -> int:
    return seat.gpus or 1


def env(**values: object) -> list[Manifest]:
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def literal(text: str) -> str:
    """Kubernetes replaces `$(NAME)` and reads `$$` as `$`: doubled, a text stays what it is."""
    return text.replace("$", "$$")


def _source(source: EnvSource) -> Manifest:
    if source.secret is not None:
        return {"secretKeyRef": {"name": source.secret, "key": source.key}}
    return {"configMapKeyRef": {"name": source.config_map, "key": source.key}}
