"""The nodes as rows, and what follows from them: the fabric, and speeds under a placement."""

from collections.abc import Iterable

import numpy as np

from weft.model.cluster import Node
from weft.model.host import PerGpu
from weft.model.ids import GpuType, NodeId
from weft.model.kind import Kind
from weft.model.placement import Placement
from weft.model.snapshot import NodeColumns
from weft.perf.host import NOTHING_MORE, host_factor
from weft.perf.speed import Traits, units_per_second
from weft.policy.place.fabric import Fabric


class NodeTable:
    """Rows of nodes; a lost node keeps its row, so that its name means the same when it returns."""

    def __init__(self) -> None:
        self.columns = NodeColumns.empty(8)
        self.specs: list[Node] = []
        self.ids: list[NodeId] = []
        self.row: dict[NodeId, int] = {}
        self.gpu_types: dict[str, int] = {}
        self._racks: dict[str, int] = {}
        self._pools: dict[str, int] = {}
        self._fabric: Fabric | None = None
        self._aside: frozenset[NodeId] = frozenset()

    def put(self, node: Node) -> int:
        """Add the node, or bring its row up to date."""
        row = self.row.get(node.id)
        if row is None:
            row = self.row[node.id] = len(self.specs)
            self.specs.append(node)
            self.ids.append(node.id)
            if row >= len(self.columns.gpus):
                self.columns = self.columns.grown(2 * row)
        self.specs[row] = node
        columns = self.columns
        columns.present[row] = True
        columns.cordoned[row] = node.cordoned or node.id in self._aside
        columns.gpus[row] = node.gpus
        columns.cpus[row] = np.inf if node.cpus is None else node.cpus
        columns.memory_gib[row] = np.inf if node.memory_gib is None else node.memory_gib
        columns.gpu_type[row] = _code(self.gpu_types, node.gpu.type)
        columns.rack[row] = _code(self._racks, f"{node.pool}/{node.rack}")
        columns.pool[row] = _code(self._pools, node.pool)
        self._fabric = None
        return row

    def lose(self, row: int) -> None:
        self.columns.present[row] = False
        self._fabric = None

    def set_aside(self, nodes: Iterable[NodeId]) -> None:
        """Nothing starts on these nodes, whatever their owners say of them."""
        before, self._aside = self._aside, frozenset(nodes)
        for node in before ^ self._aside:
            if (row := self.row.get(node)) is not None:
                self.columns.cordoned[row] = self.specs[row].cordoned or node in self._aside
                self._fabric = None

    def in_pool_of(self, node: NodeId) -> frozenset[NodeId]:
        """The nodes of its pool that are there, itself among them."""
        columns, count = self.columns, len(self.specs)
        alike = columns.pool[:count] == columns.pool[self.row[node]]
        rows = np.flatnonzero(alike & columns.present[:count])
        return frozenset(self.ids[row] for row in rows.tolist())

    @property
    def fabric(self) -> Fabric:
        if self._fabric is None:
            nodes = self.columns.frozen(len(self.specs)).copied()
            offerings = tuple(node.offering for node in self.specs)
            self._fabric = Fabric(nodes, tuple(self.gpu_types), offerings, self.ids)
        return self._fabric

    def units_per_second(
        self,
        placement: Placement,
        traits: Traits,
        *,
        kind: Kind,
        company: float = 1.0,
        fed: PerGpu = NOTHING_MORE,
    ) -> float:
        """What a job of these traits does per second on that placement.

        Each of its GPUs may be `fed` beyond what its seat says.
        """
        width = placement.width
        if width == 0:
            return 1.0
        rows = [self.row[node] for node in placement.nodes]
        fewest, racks = 1, 1
        if len(rows) > 1:
            fewest = self.fabric.fewest_nodes(kind, width) or 1
            racks = len({int(self.columns.rack[row]) for row in rows})
        return units_per_second(
            traits,
            nodes=len(rows),
            fewest_nodes=fewest,
            racks=racks,
            company=company,
            host=host_factor(traits.host, placement.seats, fed),
        )

    def gpu_type(self, placement: Placement) -> GpuType:
        """The type that the job sits on: a placement has one."""
        return self.specs[self.row[placement.nodes[0]]].gpu.type

    def copied(self) -> "NodeTable":
        twin = NodeTable()
        twin.columns = self.columns.copied()
        twin.specs, twin.ids, twin.row = list(self.specs), list(self.ids), dict(self.row)
        twin.gpu_types = dict(self.gpu_types)
        twin._racks, twin._pools = dict(self._racks), dict(self._pools)
        twin._fabric, twin._aside = self._fabric, self._aside
        return twin


def _code(codes: dict[str, int], name: str) -> int:
    return codes.setdefault(name, len(codes))
