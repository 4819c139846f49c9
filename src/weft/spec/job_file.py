"""The job file: what a person says about one training job, in one document for every world.

Only `run` is required. Each field has an effect, and each has a limit, so that a file which is
accepted can be carried by every part that follows. The same models make the cluster's schema, the
editors' schema, the reference page and the help on the command line; what stands here is said
nowhere else. Quantities stay as they were written and are read by properties.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, Field, model_validator

from weft.spec.command import MAX_RUN, Command
from weft.spec.model_claims import ModelClaims
from weft.spec.notify_fields import Notify
from weft.spec.plan_commands import PlanCommands
from weft.spec.plan_rules import refuse_odd_plans
from weft.spec.pod_fields import (
    FOLDER_WORDS,
    MAX_ANNOTATIONS,
    MAX_ENV_FROM,
    MAX_LENT,
    MAX_TOLERATIONS,
    MAX_VOLUMES,
    OBJECT_PATTERN,
    TEXT_PATTERN,
    Annotations,
    EnvName,
    EnvSources,
    FolderPath,
    ObjectName,
    Tolerations,
    Volumes,
)
from weft.spec.process_rules import ALLOWED, PER_GPU, ProcessesPerNode, refuse_odd_processes
from weft.spec.quantity import (
    DURATION_OR_ZERO_PATTERN,
    DURATION_PATTERN,
    SHORT_DURATION_PATTERN,
    duration_seconds,
    memory_gib,
)
from weft.spec.resource_fields import Resources
from weft.spec.stage_claims import StageClaims
from weft.spec.strict import Strict, told
from weft.spec.strict import wrong as _wrong

MAX_NAME: Final = 50
MAX_ENV: Final = 100
MAX_ENV_VALUE: Final = 4_096
MAX_PRIORITY: Final = 1_000
MAX_GRACE_SECONDS: Final = 600
DEFAULT_GRACE: Final = "30s"
LONGEST_EVERY: Final = "30m"

NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$"
IMAGE_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$"


def _short(written: str) -> str:
    if duration_seconds(written) > MAX_GRACE_SECONDS:
        raise _wrong(f"'{written}' is longer than 10m", hint="save within 10 minutes")
    return written


Duration = Annotated[str, Field(pattern=DURATION_PATTERN, min_length=2, max_length=23)]
DurationOrZero = Annotated[
    str, Field(pattern=DURATION_OR_ZERO_PATTERN, min_length=2, max_length=23)
]
ShortDuration = Annotated[
    str,
    Field(pattern=SHORT_DURATION_PATTERN, min_length=2, max_length=7),
    AfterValidator(_short),
]
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
QueueName = Annotated[str, Field(pattern=OBJECT_PATTERN, max_length=63)]
Image = Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=512)]
EnvValue = Annotated[str, Field(pattern=TEXT_PATTERN, max_length=MAX_ENV_VALUE)]
Env = Annotated[dict[EnvName, EnvValue], Field(max_length=MAX_ENV)]


class Retry(Strict):
    """What happens after a failure."""

    limit: Annotated[int, Field(ge=0, le=100)] = told(
        3, "How often a failed job is tried again.", allowed="a whole number 0 to 100", example=3
    )


class Checkpoint(Strict):
    """Where the job saves, and how often; Weft never reads what is there."""

    path: FolderPath | None = told(
        None,
        "Folder of the checkpoints, handed to the workers as WEFT_CHECKPOINT_PATH. It survives a "
        "worker only on a volume.",
        allowed=FOLDER_WORDS,
        example="/ckpt/llama",
    )
    every: Duration | None = told(
        None,
        "How often the job saves; without it as often as failures of jobs of its size make it "
        "worth, and at least every 30m (1h where it is not preemptible).",
        allowed="a duration such as 90s, 10m, 1h30m",
        example="10m",
    )


class JobSpec(Strict):
    """What a job asks for. A TrainingJob carries exactly this under `spec`."""

    run: Command = told(
        ...,
        "The command, run by /bin/sh once on each node, or for each GPU as nproc_per_node says.",
        allowed=f"text of 1 to {MAX_RUN} characters",
        example="torchrun train.py --config sft.yaml",
    )
    image: Image | None = told(
        None,
        "Container image; without it, the one that the cluster's operator sets. Used in clusters "
        "only.",
        allowed="an image reference, up to 512 characters",
        example="registry.example.com/team/train:1.4",
    )
    workdir: FolderPath | None = told(
        None,
        "Folder in which the command starts; without it, the image's own.",
        allowed=FOLDER_WORDS,
        example="/workspace",
    )
    resources: Resources = told(
        Resources(), "What the job computes with.", allowed="", example={"gpus": "4..16"}
    )
    nodes: Annotated[int, Field(ge=1, le=10_000)] | None = told(
        None,
        "The most nodes that the job may be spread over.",
        allowed="a whole number 1 to 10000",
        example=2,
    )
    nproc_per_node: ProcessesPerNode | None = told(
        None,
        "How many processes the command is started as on each node: 1, which sees all GPUs that "
        "the job has there, or gpu, one for each of them, with ranks as under torchrun. Without "
        "it, gpu for a job that Weft may resize, split or share (a range of gpus, model, plans, "
        "shareable), and 1 for any other.",
        allowed=ALLOWED,
        example=1,
    )
    queue: QueueName = told(
        "default",
        "The queue that it waits in and whose share it uses.",
        allowed="a name of a-z, 0-9, - and ., up to 63 characters",
        example="research",
    )
    priority: Annotated[int, Field(ge=-MAX_PRIORITY, le=MAX_PRIORITY)] = told(
        0,
        "Higher goes first within a queue.",
        allowed=f"a whole number -{MAX_PRIORITY} to {MAX_PRIORITY}",
        example=10,
    )
    preemptible: bool = told(
        True,
        "Whether it may be stopped for others and started again later. One that may not be "
        "stopped fits only into what its queue is guaranteed.",
        allowed="true or false",
        example=False,
    )
    shareable: bool = told(
        False,
        "Whether it may take turns with other jobs of its owner's on the same GPUs while GPUs are "
        "short. Each is slowed, at most as its queue allows, and together they do more.",
        allowed="true or false",
        example=True,
    )
    stages: StageClaims | None = told(
        None,
        "Where the time of one step goes, for a job that is shareable; without it, it runs alone "
        "until that is measured.",
        allowed="",
        example={"storage_seconds": 0.12, "gpu_seconds": 0.2},
    )
    model: ModelClaims | None = told(
        None,
        "What it trains, where the scheduler may choose how the model is split over the GPUs; "
        "without it, that stays as the command does it. Only recipes that choose plans use it.",
        allowed="",
        example={"parameters": 6_738_415_616, "layers": 32, "hidden": 4096},
    )
    plans: PlanCommands | None = told(
        None,
        "Commands by family of plans, for a program that takes its degrees as flags and goes on "
        "from a checkpoint: another plan is a start by another command. A job that trains with "
        "Weft's library needs none.",
        allowed="",
        example={"tensor": "python train.py --tp {tensor}"},
    )
    duration: Duration | None = told(
        None,
        "How long it would run on the GPUs it asks for, if that is known: an estimate, not a "
        "limit.",
        allowed="a duration such as 45m, 2h, 1d12h",
        example="2h",
    )
    retry: Retry = told(Retry(), "What happens after a failure.", allowed="", example={"limit": 3})
    notify: Notify | None = told(
        None, "Who is told of the job, and when.", allowed="", example={"to": ["team"]}
    )
    checkpoint: Checkpoint | None = told(
        None,
        "Where the job saves, and how often.",
        allowed="",
        example={"path": "/ckpt/llama", "every": "10m"},
    )
    grace: ShortDuration = told(
        DEFAULT_GRACE,
        "Time to save after SIGTERM, before the workers are killed.",
        allowed="a duration of at most 10m, such as 30s or 2m",
        example="2m",
    )
    env: Env = told(
        {},
        "Environment variables of the workers. Those that Weft sets are refused.",
        allowed=f"up to {MAX_ENV} names of letters, digits and _; values are text of up to "
        f"{MAX_ENV_VALUE} characters",
        example={"WANDB_PROJECT": "sft"},
    )
    env_from: EnvSources = told(
        [],
        "Variables whose values stand in Secrets or ConfigMaps of the job's namespace; at most "
        f"{MAX_LENT} of each, those of volumes included. Used in clusters only.",
        allowed=f"up to {MAX_ENV_FROM} entries",
        example=[{"name": "HF_TOKEN", "secret": "hugging-face", "key": "token"}],
    )
    volumes: Volumes = told(
        [],
        "Claims, Secrets and ConfigMaps of the job's namespace that its workers mount.",
        allowed=f"up to {MAX_VOLUMES} entries",
        example=[{"claim": "ckpt-pvc", "path": "/ckpt"}],
    )
    service_account: ObjectName | None = told(
        None,
        "ServiceAccount of the workers, for the identity that a cloud gives to it; without it, "
        "the namespace's default one. Its token for the API server is not mounted. Used in "
        "clusters only.",
        allowed="a name of a-z, 0-9, - and ., up to 253 characters",
        example="trainer",
    )
    priority_class: ObjectName | None = told(
        None,
        "PriorityClass of the workers' pods, one of those that the cluster's operator allows. "
        "Which job goes first is not its subject: that is priority. Used in clusters only.",
        allowed="a name of a-z, 0-9, - and ., up to 253 characters",
        example="training",
    )
    tolerations: Tolerations = told(
        [],
        "Keys of taints that the workers bear, of those that the cluster's operator allows. Used "
        "in clusters only.",
        allowed=f"up to {MAX_TOLERATIONS} names such as example.com/spot",
        example=["example.com/spot"],
    )
    annotations: Annotations = told(
        {},
        "Annotations of the workers' pods, such as the networks that they join. Used in clusters "
        "only.",
        allowed=f"up to {MAX_ANNOTATIONS} names, none of kubernetes.io, k8s.io, weft.dev or "
        "karpenter.sh; values are text of up to 4096 characters",
        example={"k8s.v1.cni.cncf.io/networks": "rdma-net"},
    )
    keep_on_failure: DurationOrZero | None = told(
        None,
        "How long the pods of a failed job are kept for their logs.",
        allowed="a duration such as 30m; 0s to remove them at once",
        example="30m",
    )
    ttl: DurationOrZero | None = told(
        None,
        "When the finished job is deleted, counted from its end; without it, after 30 days, or as "
        "its world is told.",
        allowed="a duration such as 7d",
        example="7d",
    )

    @property
    def starts_per_gpu(self) -> bool:
        """Whether the command is started for each GPU, unless it is a launcher itself.

        Jobs that Weft resizes, splits or shares train with its library, which takes a GPU for each
        process.
        """
        width = self.resources.width
        if self.nproc_per_node is not None:
            return self.nproc_per_node == PER_GPU
        by_library = self.model is not None or self.plans is not None or self.shareable
        return width.most <= 1 or width.least < width.most or by_library

    @property
    def grace_seconds(self) -> int:
        return duration_seconds(self.grace)

    @property
    def ttl_seconds(self) -> int | None:
        return None if self.ttl is None else duration_seconds(self.ttl)

    @property
    def keep_on_failure_seconds(self) -> int | None:
        return None if self.keep_on_failure is None else duration_seconds(self.keep_on_failure)

    @property
    def checkpoint_seconds(self) -> int:
        return duration_seconds((self.checkpoint or Checkpoint()).every or LONGEST_EVERY)

    @property
    def memory_gib_per_gpu(self) -> float:
        return _gib(self.resources.memory_per_gpu)

    @property
    def memory_gib(self) -> float:
        return _gib(self.resources.memory)

    @property
    def secrets(self) -> list[str]:
        """Those that it names, each once."""
        named = [entry.secret for entry in self.env_from]
        named += [volume.secret for volume in self.volumes]
        return list(dict.fromkeys(filter(None, named)))

    @property
    def config_maps(self) -> list[str]:
        named = [entry.config_map for entry in self.env_from]
        named += [volume.config_map for volume in self.volumes]
        return list(dict.fromkeys(filter(None, named)))

    @model_validator(mode="after")
    def _shares_what_it_has(self) -> "JobSpec":
        if self.shareable and self.resources.width.most == 0:
            raise _wrong(
                "a job without GPUs has none to share",
                hint="remove shareable, or ask for gpus",
                field="shareable",
            )
        return self

    @model_validator(mode="after")
    def _processes_of_what_it_has(self) -> "JobSpec":
        gpus = self.resources.width.most
        refuse_odd_processes(self.nproc_per_node, self.run, gpus=gpus)
        return self

    @model_validator(mode="after")
    def _plans_of_what_it_has(self) -> "JobSpec":
        refuse_odd_plans(self.model, self.plans, gpus=self.resources.width.most)
        return self

    @model_validator(mode="after")
    def _one_value_per_variable(self) -> "JobSpec":
        names = [*self.env, *(source.name for source in self.env_from)]
        for number, name in enumerate(names):
            if name in names[:number]:
                raise _wrong(f"'{name}' is set twice", hint="set it once", field="env_from")
        return self

    @model_validator(mode="after")
    def _few_lent(self) -> "JobSpec":
        for what, names in (("Secrets", self.secrets), ("ConfigMaps", self.config_maps)):
            if len(names) > MAX_LENT:
                raise _wrong(
                    f"{len(names)} {what} are more than {MAX_LENT}",
                    hint="put their entries into fewer",
                    field="env_from",
                )
        return self

    @model_validator(mode="after")
    def _one_volume_per_path(self) -> "JobSpec":
        paths = [volume.path for volume in self.volumes]
        for number, path in enumerate(paths):
            if path in paths[:number]:
                raise _wrong(
                    f"'{path}' is mounted twice",
                    hint="give each volume its own path",
                    field="volumes",
                )
        return self


class JobFile(JobSpec):
    """A job file: the job's name and what it asks for."""

    name: Name | None = told(
        None,
        "The job's name, unique in its namespace; without it, the file's name is used.",
        allowed=f"a-z, 0-9 and -, up to {MAX_NAME} characters, with a letter or digit at both ends",
        example="llama-sft",
    )

    @property
    def spec(self) -> dict[str, Any]:
        """What a TrainingJob carries under `spec`: the fields that were written, as written."""
        return self.model_dump(mode="json", exclude={"name"}, exclude_unset=True)


def _gib(written: str | None) -> float:
    return 0.0 if written is None else memory_gib(written)
