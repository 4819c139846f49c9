"""The job file: what a person says about one training job, in one document for every world.

Only `run` is required. Each field has an effect, and each has a limit, so that a file which is
accepted can be carried by every part that follows. The same models make the cluster's schema, the
editors' schema, the reference page and the help on the command line; what stands here is said
nowhere else. Quantities stay as they were written and are read by properties.
"""

import re
from typing import Annotated, Any, Final

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from weft.model.errors import SpecError
from weft.spec.quantity import (
    DURATION_OR_ZERO_PATTERN,
    DURATION_PATTERN,
    GPUS_PATTERN,
    MAX_GPUS,
    MEMORY_PATTERN,
    SHORT_DURATION_PATTERN,
    Range,
    duration_seconds,
    gpu_range,
    memory_gib,
)

MAX_NAME: Final = 50
MAX_RUN: Final = 32_000  # one argument of a process holds 128 KiB, a character up to 4 bytes
MAX_ENV: Final = 100
MAX_ENV_VALUE: Final = 4_096
MAX_VOLUMES: Final = 16
MAX_GPU_TYPES: Final = 16
MAX_PRIORITY: Final = 1_000
MAX_GRACE_SECONDS: Final = 600
DEFAULT_GRACE: Final = "30s"

NAME_PATTERN: Final = "^[a-z0-9]([-a-z0-9]{0,48}[a-z0-9])?$"
OBJECT_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
LABEL_PATTERN: Final = "^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$"
IMAGE_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._/:@+-]*$"
TEXT_PATTERN: Final = r"^[^\x00]*$"
COMMAND_PATTERN: Final = r"^[^\x00]*[!-~][^\x00]*$"
# No component is `.` or `..`, none is empty, and `:` would split a mount in two.
PATH_PATTERN: Final = r"^(/\.?[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)+$"
ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]*$"

# What Weft sets itself, and what would hand a container devices that it was not given.
RESERVED_ENV_PATTERN: Final = (
    "^(WEFT_.*|PET_.*|TORCHELASTIC_.*|KUBEFLOW_TRAINER_.*|MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE"
    "|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|NNODES"
    "|NVIDIA_VISIBLE_DEVICES|NVIDIA_MIG_.*|NVIDIA_IMEX_.*)$"
)
RESERVED_PATH_PATTERN: Final = "^/(proc|sys|dev|(var/)?run/(weft|secrets))(/.*)?$"

_RESERVED_ENV = re.compile(RESERVED_ENV_PATTERN)
_RESERVED_PATH = re.compile(RESERVED_PATH_PATTERN)


class Strict(BaseModel):
    """A part of the file: unknown fields are refused, and no value is bent into another kind."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def told(default: object, description: str, *, allowed: str, example: object, **more: Any) -> Any:  # noqa: ANN401
    """A field with everything that help pages and errors say about it."""
    return Field(
        default,
        description=description,
        examples=[example],
        json_schema_extra={"allowed": allowed},
        **more,
    )


def _read_gpus(written: object) -> int | str:
    try:
        gpu_range(written)  # type: ignore[arg-type]  # anything may be written
    except SpecError as error:
        raise _wrong(str(error), hint=error.hint) from None
    assert isinstance(written, int | str)
    return written


def _one_or_more(written: object) -> object:
    return [written] if isinstance(written, str) else written


def _listed_once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise _wrong("a name is listed twice", hint="list each name once")
    return names


def _free_env(name: str) -> str:
    if _RESERVED_ENV.fullmatch(name):
        raise _wrong(
            f"'{name}' is set by Weft or by the device plugin", hint="remove it, or rename it"
        )
    return name


def _free_path(path: str) -> str:
    if _RESERVED_PATH.fullmatch(path):
        raise _wrong(f"'{path}' belongs to the system or to Weft", hint="mount it elsewhere")
    return path


def _short(written: str) -> str:
    if duration_seconds(written) > MAX_GRACE_SECONDS:
        raise _wrong(f"'{written}' is longer than 10m", hint="save within 10 minutes")
    return written


def _wrong(message: str, *, hint: str, field: str = "") -> PydanticCustomError:
    # The text goes in as a value, because a template would read braces in what was written.
    return PydanticCustomError("weft", "{text}", {"text": message, "hint": hint, "field": field})


Gpus = Annotated[
    int | str,
    PlainValidator(_read_gpus),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "minimum": 0,
            "maximum": MAX_GPUS,
            "pattern": GPUS_PATTERN,
            "maxLength": 12,
        }
    ),
]
GpuTypes = Annotated[
    list[Annotated[str, Field(pattern=LABEL_PATTERN, max_length=63)]],
    Field(min_length=1, max_length=MAX_GPU_TYPES),
    BeforeValidator(_one_or_more),
    AfterValidator(_listed_once),
]
Memory = Annotated[str, Field(pattern=MEMORY_PATTERN, max_length=16)]
Duration = Annotated[str, Field(pattern=DURATION_PATTERN, min_length=2, max_length=23)]
DurationOrZero = Annotated[
    str, Field(pattern=DURATION_OR_ZERO_PATTERN, min_length=2, max_length=23)
]
ShortDuration = Annotated[
    str,
    Field(pattern=SHORT_DURATION_PATTERN, min_length=2, max_length=7),
    AfterValidator(_short),
]
# Not "at least 0.1": the API server cuts a bound to a whole number where it meets one.
Cpus = Annotated[float, Field(gt=0, le=4096, allow_inf_nan=False)]
Name = Annotated[str, Field(pattern=NAME_PATTERN, max_length=MAX_NAME)]
ObjectName = Annotated[str, Field(pattern=OBJECT_PATTERN, max_length=253)]
QueueName = Annotated[str, Field(pattern=OBJECT_PATTERN, max_length=63)]
Command = Annotated[str, Field(pattern=COMMAND_PATTERN, min_length=1, max_length=MAX_RUN)]
Image = Annotated[str, Field(pattern=IMAGE_PATTERN, max_length=512)]
AbsolutePath = Annotated[str, Field(pattern=PATH_PATTERN, max_length=512)]
MountPath = Annotated[AbsolutePath, AfterValidator(_free_path)]
EnvName = Annotated[str, Field(pattern=ENV_PATTERN, max_length=128), AfterValidator(_free_env)]
EnvValue = Annotated[str, Field(pattern=TEXT_PATTERN, max_length=MAX_ENV_VALUE)]
Env = Annotated[dict[EnvName, EnvValue], Field(max_length=MAX_ENV)]

PATH_WORDS: Final = "an absolute path of letters, digits and . _ @ + -, without '..', up to 512"


class Resources(Strict):
    """What the job computes with."""

    gpus: Gpus = told(
        1,
        "How many GPUs. A range makes the job elastic: it runs on any number in it and is given "
        "the larger end where there is room. 0 means a job without GPUs.",
        allowed=f"a whole number 0 to {MAX_GPUS}, or a range such as 4..16",
        example="4..16",
    )
    gpu_type: GpuTypes | None = told(
        None,
        "GPU types that the job accepts, any of them; without it, every type. A job file may name "
        "one without brackets.",
        allowed=f"up to {MAX_GPU_TYPES} names of letters, digits and . _ -, up to 63 characters",
        example=["H100", "A100"],
    )
    cpus_per_gpu: Cpus | None = told(
        None,
        "CPU cores for each GPU.",
        allowed="a number above 0, up to 4096",
        example=8,
    )
    memory_per_gpu: Memory | None = told(
        None,
        "Main memory for each GPU.",
        allowed="a number from 1 with MB, GB, TB (powers of 1000) or MiB, GiB, TiB (of 1024)",
        example="64GB",
    )
    cpus: Cpus | None = told(
        None,
        "CPU cores of a job without GPUs; required there, refused elsewhere.",
        allowed="a number above 0, up to 4096",
        example=16,
    )
    memory: Memory | None = told(
        None,
        "Main memory of a job without GPUs.",
        allowed="a number from 1 with MB, GB, TB (powers of 1000) or MiB, GiB, TiB (of 1024)",
        example="100GB",
    )

    @property
    def width(self) -> Range:
        return gpu_range(self.gpus)

    @model_validator(mode="after")
    def _per_gpu_or_whole(self) -> "Resources":
        if self.width.most == 0:
            self._refuse(("cpus_per_gpu", "memory_per_gpu", "gpu_type"), "a job without GPUs")
            if self.cpus is None:
                raise _wrong(
                    "a job without GPUs needs cpus", hint="add cpus, such as 16", field="cpus"
                )
            return self
        self._refuse(("cpus", "memory"), "a job with GPUs")
        return self

    def _refuse(self, names: tuple[str, ...], who: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                hint = WRITE_INSTEAD.get(name, "remove it, or ask for gpus")
                raise _wrong(f"{who} cannot have {name}", hint=hint, field=name)


WRITE_INSTEAD: Final = {
    "cpus": "write cpus_per_gpu",
    "memory": "write memory_per_gpu",
    "cpus_per_gpu": "write cpus",
    "memory_per_gpu": "write memory",
}


class Retry(Strict):
    """What happens after a failure."""

    limit: Annotated[int, Field(ge=0, le=100)] = told(
        3, "How often a failed job is tried again.", allowed="a whole number 0 to 100", example=3
    )


class Checkpoint(Strict):
    """Where the job saves, and how often; Weft never reads what is there."""

    path: AbsolutePath | None = told(
        None,
        "Folder of the checkpoints, handed to the workers as WEFT_CHECKPOINT_PATH. It survives a "
        "worker only on a volume.",
        allowed=PATH_WORDS,
        example="/ckpt/llama",
    )
    every: Duration = told(
        "30m",
        "How often the job saves: what a preemption may cost it at most.",
        allowed="a duration such as 90s, 10m, 1h30m",
        example="10m",
    )


class Volume(Strict):
    """A claim of the same namespace, and where it appears."""

    claim: ObjectName = told(
        ...,
        "Name of a PersistentVolumeClaim in the job's own namespace.",
        allowed="a name of a-z, 0-9, - and ., up to 253 characters",
        example="ckpt-pvc",
    )
    path: MountPath = told(
        ...,
        "Where it is mounted.",
        allowed=f"{PATH_WORDS}; not below /proc, /sys, /dev, /run/weft or /run/secrets",
        example="/ckpt",
    )
    read_only: bool = told(
        False, "Whether the workers may only read it.", allowed="true or false", example=True
    )


Volumes = Annotated[list[Volume], Field(max_length=MAX_VOLUMES)]


class JobSpec(Strict):
    """What a job asks for. A TrainingJob carries exactly this under `spec`."""

    run: Command = told(
        ...,
        "The command, run by /bin/sh in each worker.",
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
    workdir: AbsolutePath | None = told(
        None,
        "Folder in which the command starts; without it, the image's own.",
        allowed=PATH_WORDS,
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
    duration: Duration | None = told(
        None,
        "How long it would run on the GPUs it asks for, if that is known: an estimate, not a "
        "limit.",
        allowed="a duration such as 45m, 2h, 1d12h",
        example="2h",
    )
    retry: Retry = told(Retry(), "What happens after a failure.", allowed="", example={"limit": 3})
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
    volumes: Volumes = told(
        [],
        "Claims of the job's namespace that its workers mount.",
        allowed=f"up to {MAX_VOLUMES} entries",
        example=[{"claim": "ckpt-pvc", "path": "/ckpt"}],
    )
    keep_on_failure: DurationOrZero | None = told(
        None,
        "How long the pods of a failed job are kept for their logs.",
        allowed="a duration such as 30m; 0s to remove them at once",
        example="30m",
    )
    ttl: DurationOrZero | None = told(
        None,
        "When the finished job is deleted, counted from its end; without it, it stays.",
        allowed="a duration such as 7d",
        example="7d",
    )

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
        return duration_seconds((self.checkpoint or Checkpoint()).every)

    @property
    def memory_gib_per_gpu(self) -> float:
        return _gib(self.resources.memory_per_gpu)

    @property
    def memory_gib(self) -> float:
        return _gib(self.resources.memory)

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
