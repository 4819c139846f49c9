"""What a job takes from its namespace and its cluster: variables, folders, devices, taints.

Only names are written here, of things that are there already; what they hold is never read by Weft.
Who may name a secret or a service account is the cluster's to say (`docs/install.md`).
"""

import re
from typing import Annotated, Final

from pydantic import AfterValidator, Field, model_validator

from weft.spec.strict import Strict, told, wrong

MAX_VOLUMES: Final = 16
MAX_ENV_FROM: Final = 32
MAX_DEVICES: Final = 8
MAX_TOLERATIONS: Final = 8
MAX_ANNOTATIONS: Final = 16
MAX_LENT: Final = 8
"""Secrets, or ConfigMaps, of one job: for each the API server asks whether its owner may."""

OBJECT_PATTERN: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
# No component is `.` or `..`, none is empty, and `:` would split a mount in two.
PATH_PATTERN: Final = r"^(/\.?[A-Za-z0-9_@+-][A-Za-z0-9._@+-]*)+$"
PATH_WORDS: Final = "an absolute path of letters, digits and . _ @ + -, without '..', up to 512"
# A folder of a user's own, which is no mount: with spaces and letters of any alphabet.
FOLDER_PART: Final = r"\.?[^/.\x00-\x1f\x7f][^/\x00-\x1f\x7f]*"
FOLDER_PATTERN: Final = f"^/({FOLDER_PART}(/{FOLDER_PART})*/?)?$"
FOLDER_WORDS: Final = "an absolute path, without '.' and '..' as a part of it, up to 512 characters"
ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]*$"
KEY_PATTERN: Final = "^[A-Za-z0-9._-]+$"
TEXT_PATTERN: Final = r"^[^\x00]*$"
DOMAIN: Final = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
WORD: Final = "[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?"
RESOURCE_PATTERN: Final = f"^{DOMAIN}/{WORD}$"
QUALIFIED_PATTERN: Final = f"^({DOMAIN}/)?{WORD}$"

# What Weft sets itself, and what would hand a container devices that it was not given.
RESERVED_ENV_PATTERN: Final = (
    "^(WEFT_.*|PET_.*|TORCHELASTIC_.*|KUBEFLOW_TRAINER_.*|MASTER_ADDR|MASTER_PORT|RANK|WORLD_SIZE"
    "|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|NODE_RANK|NNODES"
    "|NVIDIA_VISIBLE_DEVICES|NVIDIA_MIG_.*|NVIDIA_IMEX_.*)$"
)
RESERVED_PATH_PATTERN: Final = "^/(proc|sys|dev|(var/)?run/(weft|secrets))(/.*)?$"
GPU_RESOURCE_PATTERN: Final = r"^((nvidia|amd)\.com/(gpu|mig-).*|([^/]*\.)?kubernetes\.io/.*)$"
# Such annotations speak to the cluster itself, to Weft, or to autoscalers, which Weft answers.
RESERVED_ANNOTATION_PATTERN: Final = (
    r"^([^/]*\.)?(kubernetes\.io|k8s\.io|weft\.dev|karpenter\.sh)/.*$"
)

_RESERVED_ENV = re.compile(RESERVED_ENV_PATTERN)
_RESERVED_PATH = re.compile(RESERVED_PATH_PATTERN)
_GPU_RESOURCE = re.compile(GPU_RESOURCE_PATTERN)
_RESERVED_ANNOTATION = re.compile(RESERVED_ANNOTATION_PATTERN)


def listed_once(names: list[str]) -> list[str]:
    if len(set(names)) < len(names):
        raise wrong("a name is listed twice", hint="list each name once")
    return names


def _free_env(name: str) -> str:
    if _RESERVED_ENV.fullmatch(name):
        raise wrong(
            f"'{name}' is set by Weft or by the device plugin", hint="remove it, or rename it"
        )
    return name


def _free_path(path: str) -> str:
    if _RESERVED_PATH.fullmatch(path):
        raise wrong(f"'{path}' belongs to the system or to Weft", hint="mount it elsewhere")
    return path


def _no_gpu(name: str) -> str:
    if _GPU_RESOURCE.fullmatch(name):
        raise wrong(f"'{name}' is no device beside a GPU", hint="ask for GPUs by gpus and gpu_type")
    return name


def _free_annotation(name: str) -> str:
    if _RESERVED_ANNOTATION.fullmatch(name):
        raise wrong(f"'{name}' is for the cluster or for Weft to set", hint="remove it")
    return name


AbsolutePath = Annotated[str, Field(pattern=PATH_PATTERN, max_length=512)]
FolderPath = Annotated[str, Field(pattern=FOLDER_PATTERN, max_length=512)]
MountPath = Annotated[AbsolutePath, AfterValidator(_free_path)]
ObjectName = Annotated[str, Field(pattern=OBJECT_PATTERN, max_length=253)]
EnvName = Annotated[str, Field(pattern=ENV_PATTERN, max_length=128), AfterValidator(_free_env)]
Key = Annotated[str, Field(pattern=KEY_PATTERN, max_length=253)]
ResourceName = Annotated[
    str, Field(pattern=RESOURCE_PATTERN, max_length=200), AfterValidator(_no_gpu)
]
Devices = Annotated[
    dict[ResourceName, Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)]],
    Field(max_length=MAX_DEVICES),
]
Tolerations = Annotated[
    list[Annotated[str, Field(pattern=QUALIFIED_PATTERN, max_length=316)]],
    Field(max_length=MAX_TOLERATIONS),
    AfterValidator(listed_once),
]
Annotations = Annotated[
    dict[
        Annotated[
            str,
            Field(pattern=QUALIFIED_PATTERN, max_length=316),
            AfterValidator(_free_annotation),
        ],
        Annotated[str, Field(pattern=TEXT_PATTERN, max_length=4_096)],
    ],
    Field(max_length=MAX_ANNOTATIONS),
]

NAME_WORDS: Final = "a name of a-z, 0-9, - and ., up to 253 characters"


class EnvSource(Strict):
    """A variable whose value stands in a Secret or a ConfigMap of the same namespace."""

    name: EnvName = told(
        ...,
        "Name of the variable.",
        allowed="letters, digits and _, up to 128",
        example="HF_TOKEN",
    )
    secret: ObjectName | None = told(
        None,
        "Name of a Secret that you may read.",
        allowed=NAME_WORDS,
        example="hugging-face",
    )
    config_map: ObjectName | None = told(
        None, "Name of a ConfigMap, instead.", allowed=NAME_WORDS, example="train-settings"
    )
    key: Key = told(
        ...,
        "Which of its entries.",
        allowed="letters, digits and . _ -, up to 253",
        example="token",
    )

    @model_validator(mode="after")
    def _from_one_place(self) -> "EnvSource":
        if (self.secret is None) == (self.config_map is None):
            raise wrong(f"{self.name} comes from one place", hint="name a secret or a config_map")
        return self


class Volume(Strict):
    """A claim, Secret or ConfigMap of the same namespace, and where it appears."""

    claim: ObjectName | None = told(
        None,
        "Name of a PersistentVolumeClaim in the job's own namespace.",
        allowed=NAME_WORDS,
        example="ckpt-pvc",
    )
    secret: ObjectName | None = told(
        None,
        "Name of a Secret that you may read, instead: each entry is a file.",
        allowed=NAME_WORDS,
        example="bucket-key",
    )
    config_map: ObjectName | None = told(
        None,
        "Name of a ConfigMap, instead: each entry is a file.",
        allowed=NAME_WORDS,
        example="train-settings",
    )
    path: MountPath = told(
        ...,
        "Where it is mounted.",
        allowed=f"{PATH_WORDS}; not below /proc, /sys, /dev, /run/weft or /run/secrets",
        example="/ckpt",
    )
    read_only: bool = told(
        False,
        "Whether the workers may only read it; of a Secret or a ConfigMap they always may only "
        "read.",
        allowed="true or false",
        example=True,
    )

    @model_validator(mode="after")
    def _one_thing(self) -> "Volume":
        if [self.claim, self.secret, self.config_map].count(None) != len(("two", "others")):
            raise wrong(
                f"what is mounted at {self.path} is one thing",
                hint="name a claim, a secret or a config_map",
            )
        return self


Volumes = Annotated[list[Volume], Field(max_length=MAX_VOLUMES)]
EnvSources = Annotated[list[EnvSource], Field(max_length=MAX_ENV_FROM)]
