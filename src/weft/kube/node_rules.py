"""Which nodes are Weft's to use, and what is read from them: an administrator's choice.

The operator and the command line read nodes by the same rules, so that a node that gets no workers
is in no list either. A node counts with one kind of GPU, as it has one type: the first of the
`gpu_resources` that it offers, else the first of its MIG profiles.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from weft.kube.gpu_names import short_name
from weft.kube.names import GPU_MEMORY_LABEL, GPU_RESOURCE, RACK_LABEL
from weft.kube.quantity import gib, parse_quantity
from weft.model.ids import ANY_GPU

MIG_PREFIX: Final = "nvidia.com/mig-"
AMD_RESOURCE: Final = "amd.com/gpu"
AMD_MEMORY_LABEL: Final = "amd.com/gpu.vram"
TYPE_LABELS: Final = ("gpu.product", "gpu.product-name")
"""Below the maker's domain: as NVIDIA's discovery and as AMD's labeller name them."""
BARRING: Final = frozenset({"NoSchedule", "NoExecute"})

Labels = Mapping[str, str]
Raw = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRules:
    """`tolerations` are taints that every worker bears, `job_tolerations` those that a job may.

    With a `gpu_class` GPUs are what the driver of that name publishes, and are claimed by that
    class of devices; they can be shared then.
    """

    selector: tuple[tuple[str, str], ...] = ()
    gpu_resources: tuple[str, ...] = (GPU_RESOURCE, AMD_RESOURCE)
    rack_labels: tuple[str, ...] = (RACK_LABEL,)
    tolerations: tuple[str, ...] = ()
    job_tolerations: tuple[str, ...] = ()
    gpu_class: str = ""

    def select(self, labels: Labels) -> bool:
        return all(labels.get(key) == value for key, value in self.selector)

    def gpu_resource(self, allocatable: Raw) -> str:
        """What its GPUs are called in a pod's requests."""
        named = (*self.gpu_resources, *sorted(filter(is_mig, allocatable)))
        offered = (name for name in named if parse_quantity(allocatable.get(name, 0)) > 0)
        return next(offered, self.gpu_resources[0])

    def special(self, kind: str, resource: str) -> tuple[str, ...]:
        """Parts of GPUs and those of other makers keep away who does not name them.

        A script that asks for GPUs and no more means whole ones, of the first kind that is listed.
        """
        usual = resource == self.gpu_resources[0] and not kind.startswith("MIG-")
        return () if usual else (type_taint(kind),)

    def rack(self, labels: Labels, default: str) -> str:
        """The first of the rack labels that it has."""
        return next((labels[key] for key in self.rack_labels if labels.get(key)), default)

    @property
    def borne(self) -> tuple[str, ...]:
        """Keys of the taints that every worker bears: those of GPU nodes, and what was added."""
        return tuple(dict.fromkeys((*self.gpu_resources, *self.tolerations)))

    def barring(self, taints: Iterable[Raw]) -> list[str]:
        """Keys of the taints that keep an ordinary worker away."""
        keys = (taint["key"] for taint in taints if taint.get("effect") in BARRING)
        return sorted({key for key in keys if key not in self.borne})


EVERYWHERE: Final = NodeRules()


def is_mig(resource: str) -> bool:
    return resource.startswith(MIG_PREFIX)


def gpu_type(labels: Labels, resource: str) -> str:
    """By the model, or by the profile where a GPU is a part of one."""
    if is_mig(resource):
        return short_name(resource.rpartition("/")[2])
    maker = resource.partition("/")[0]
    told = (labels.get(f"{maker}/{name}") for name in TYPE_LABELS)
    unknown = ANY_GPU if resource == GPU_RESOURCE else maker
    return short_name(next(filter(None, told), unknown))


def type_taint(kind: str) -> str:
    """What a job bears that names this GPU type."""
    return f"gpu-type:{kind}"


def gpu_memory_gib(labels: Labels, resource: str) -> float | None:
    """Of one GPU, where somebody has written it down; of a profile it is part of the name."""
    if resource == GPU_RESOURCE and GPU_MEMORY_LABEL in labels:
        return parse_quantity(labels[GPU_MEMORY_LABEL]) / 1024.0
    if resource == AMD_RESOURCE and AMD_MEMORY_LABEL in labels:
        return gib(labels[AMD_MEMORY_LABEL])
    return None


def devices(amounts: Raw) -> tuple[tuple[str, float], ...]:
    """Resources that somebody's plugin offers: all whose name has a domain."""
    return tuple((name, parse_quantity(amounts[name])) for name in sorted(amounts) if "/" in name)
