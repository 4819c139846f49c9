"""One node, as far as the operator uses it."""

from dataclasses import dataclass, replace

from weft.kube.names import (
    GPU_RESOURCE,
    GROUP,
    POOL_LABEL,
    REPAIRED_ANNOTATION,
)
from weft.kube.node_rules import EVERYWHERE, NodeRules, devices, gpu_memory_gib, gpu_type
from weft.kube.operator.observation.metadata import Raw, parse_time
from weft.kube.pod_requests import NOTHING, PodRequests
from weft.kube.quantity import gib, parse_quantity
from weft.kube.trouble import MOST_MESSAGE, Trouble
from weft.model.cluster import Gpu, Node
from weft.model.ids import DEFAULT_POOL, DEFAULT_RACK, GpuType, NodeId, PoolId, RackId
from weft.model.suit import Offering

OUT_OF_REACH = "node.kubernetes.io/unreachable"
SET_ASIDE = f"{GROUP}/set-aside"
"""A taint of Weft's own: its brain knows better than the taint whether the node is of use."""

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"


BAD_WHEN_TRUE = frozenset(
    {
        *("MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        # what the Node Problem Detector says with the rules that it comes with
        *("KernelDeadlock", "ReadonlyFilesystem", "CorruptDockerOverlay2"),
        *("FrequentKubeletRestart", "FrequentDockerRestart", "FrequentContainerdRestart"),
        *("FrequentUnregisterNetDevice", "XfsShutdown", "CperHardwareErrorFatal"),
    }
)
"""Conditions of a node that say that something is wrong with it."""


@dataclass(frozen=True, slots=True)
class ObservedNode:
    """One node as the API server knows it; what others use of it is subtracted by `foreign_use`.

    One that is `outside` is not Weft's to use. `taints` keep jobs away that do not bear them.
    `out_of_service` is the word of whoever keeps it that it is off; `set_aside` says that it
    carries Weft's own taint. `repaired_at` is when somebody says that it was repaired.
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
    troubles: tuple[Trouble, ...] = ()
    set_aside: bool = False
    repaired_at: float | None = None

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

    def same_but_for_version(self, other: "ObservedNode") -> bool:
        return replace(self, version=0) == replace(other, version=0)


def read_node(raw: Raw, rules: NodeRules = EVERYWHERE) -> ObservedNode:
    meta, spec, status = raw["metadata"], raw.get("spec", {}), raw.get("status", {})
    labels = meta.get("labels") or {}
    room = status.get("allocatable") or {}
    taints = spec.get("taints") or ()
    resource = rules.gpu_resource(room)
    kind = gpu_type(labels, resource)
    barring = rules.barring([taint for taint in taints if taint["key"] != SET_ASIDE])
    return ObservedNode(
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
        troubles=_troubles(status),
        set_aside=any(taint["key"] == SET_ASIDE for taint in taints),
        repaired_at=_repaired_at(meta),
    )


def _repaired_at(meta: Raw) -> float | None:
    try:
        told = (meta.get("annotations") or {}).get(REPAIRED_ANNOTATION)
        return parse_time(told) if told else None
    except (ValueError, OverflowError):  # whoever may write annotations may write anything
        return None


def _troubles(status: Raw) -> tuple[Trouble, ...]:
    return tuple(
        Trouble(one["type"], str(one.get("message", ""))[:MOST_MESSAGE], _since(one))
        for one in status.get("conditions") or ()
        if one["type"] in BAD_WHEN_TRUE and one.get("status") == "True"
    )


def _since(condition: Raw) -> float | None:
    at = condition.get("lastTransitionTime")
    return parse_time(at) if at else None


def _is_ready(status: Raw) -> bool:
    for condition in status.get("conditions") or ():
        if condition["type"] == "Ready":
            return bool(condition["status"] == "True")
    return False
