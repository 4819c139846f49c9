"""The cluster: pool ▸ rack ▸ node ▸ GPU, and the links between them.

A pool is one network domain: a gang never spans two. A node has GPUs of one type. The brain
counts GPUs per node; which device of the node a seat gets is bound by the world that starts
it (a kubelet's device plugin, or the local world), because only that world can see them.
"""

from dataclasses import dataclass, field, replace

from weft.model.errors import SpecError
from weft.model.ids import ANY_GPU, DEFAULT_POOL, DEFAULT_RACK, GpuType, NodeId, PoolId, RackId
from weft.model.suit import PLAIN, Offering


@dataclass(frozen=True, slots=True)
class Gpu:
    """A kind of GPU."""

    type: GpuType = ANY_GPU
    memory_gib: float | None = None


@dataclass(frozen=True, slots=True)
class Links:
    """Bandwidth between two GPUs by how far apart they are; None where nobody measured it."""

    in_node_gbps: float | None = None
    in_rack_gbps: float | None = None
    in_pool_gbps: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine. CPUs or memory of None are not counted; a cordoned node takes no new seat."""

    id: NodeId
    gpus: int
    gpu: Gpu = Gpu()
    cpus: float | None = None
    memory_gib: float | None = None
    rack: RackId = DEFAULT_RACK
    pool: PoolId = DEFAULT_POOL
    cordoned: bool = False
    offering: Offering = PLAIN

    def __post_init__(self) -> None:
        if self.gpus < 0:
            raise SpecError(f"node {self.id} has {self.gpus} GPUs", hint="write 0 or more")

    def with_cordon(self, cordoned: bool) -> "Node":
        return replace(self, cordoned=cordoned)


@dataclass(frozen=True, slots=True)
class Pool:
    """A network domain with its links."""

    id: PoolId = DEFAULT_POOL
    links: Links = Links()


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes, in a fixed order; pools that are not listed have unknown links."""

    nodes: tuple[Node, ...]
    pools: tuple[Pool, ...] = field(default=())

    def __post_init__(self) -> None:
        seen: set[NodeId] = set()
        for node in self.nodes:
            if node.id in seen:
                raise SpecError(f"node {node.id} is listed twice", hint="names are unique")
            seen.add(node.id)

    @classmethod
    def uniform(cls, nodes: int, gpus: int, *, racks: int = 1) -> "Cluster":
        """`nodes` equal machines of `gpus` GPUs, dealt over `racks` racks in blocks."""
        per_rack = -(-nodes // racks)
        width = len(str(max(nodes - 1, 0)))
        return cls(
            tuple(
                Node(id=NodeId(f"n{i:0{width}d}"), gpus=gpus, rack=RackId(f"r{i // per_rack}"))
                for i in range(nodes)
            )
        )

    @property
    def gpus(self) -> int:
        return sum(node.gpus for node in self.nodes)
