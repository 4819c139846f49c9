"""The ground of the simulated world: its nodes, and which of their GPUs are in use.

It is the world's own account, and shares no code with the brain's: what does not fit here is
refused, whatever the brain believes.
"""

from collections.abc import Iterable

from weft.brain.nodes import NodeTable
from weft.model.cluster import Node
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.sim.run import Run


class Ground:
    """Seats are taken and freed one by one."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self._used: dict[NodeId, int] = {}

    def put(self, node: Node) -> None:
        """A node that is new, or has changed."""
        self.nodes.put(node)
        self._used.setdefault(node.id, 0)

    def lose(self, node: NodeId) -> bool:
        """Whether there was such a node."""
        row = self.nodes.row.get(node)
        if row is not None:
            self.nodes.lose(row)
        return row is not None

    def no_room(self, placement: Placement) -> str:
        """Why this does not fit; nothing if it does."""
        for node, gpus in placement.gpus_by_node.items():
            row = self.nodes.row.get(node)
            if row is None or not self.nodes.columns.present[row]:
                return f"node {node} is not there"
            if self._used[node] + gpus > self.nodes.specs[row].gpus:
                return f"node {node} is full"
        return ""

    def take(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self._used[seat.node] += seat.gpus

    def free(self, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self._used[seat.node] -= seat.gpus

    def used_gpus(self) -> int:
        return sum(self._used.values())

    def speed(self, run: Run) -> float:
        """Work per second where it sits, with what it is fed."""
        return self.nodes.units_per_second(run.job, run.placement, fed=run.more_per_gpu)
