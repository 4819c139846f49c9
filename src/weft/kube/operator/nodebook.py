"""Nodes as the brain was told of them, and what it must be told next.

A node counts with what is allocatable less what others hold there; one that is not ready, or out of
reach, is lost and its loss is dated, because a pod on it never confirms its end. Heartbeats change
nothing that is kept here, so they cost a comparison. Nodes outside of what Weft may use are not
told, unless workers are there: such a node takes no more of them.
"""

from collections.abc import Iterable, Iterator, Mapping

from weft.brain.event import NodeAdded, NodeChanged, NodeLost
from weft.kube.operator.ledger import Ledger
from weft.kube.operator.sight import NodeSight
from weft.model.cluster import Node
from weft.model.ids import NodeId

NodeEvent = NodeAdded | NodeChanged | NodeLost


class NodeBook:
    """What was told; `lost` maps each node that is out of reach to the time of its loss."""

    def __init__(self, sights: Mapping[str, NodeSight], ledger: Ledger) -> None:
        self.lost: dict[str, float] = {}
        self._sights = sights
        self._ledger = ledger
        self._told: dict[str, Node] = {}
        self._seated: frozenset[str] = frozenset()
        self._dirty: dict[str, None] = {}

    @property
    def dead(self) -> frozenset[str]:
        """Those that are known to be off: deleted, or marked as out of service."""
        sights = {name: self._sights.get(name) for name in self.lost}
        return frozenset(
            name for name, sight in sights.items() if sight is None or sight.out_of_service
        )

    def touch(self, name: str) -> None:
        self._dirty[name] = None

    def seat(self, names: Iterable[str]) -> None:
        """Workers are there, as a term begins."""
        self._seated = frozenset(names)

    def news(self, now: float) -> Iterator[NodeEvent]:
        """What the brain does not know yet of the nodes that were touched."""
        dirty, self._dirty = sorted(self._dirty), {}
        for name in dirty:
            yield from self._news_of(name, now)

    def foreign_gpus(self) -> int:
        """GPUs that others hold on the nodes that are there."""
        return sum(
            int(self._ledger.others(sight.name).of(sight.gpu_resource))
            for sight in self._sights.values()
            if not sight.outside
        )

    def lost_gpus(self) -> int:
        """GPUs of nodes that are out of reach; what was deleted is nobody's loss."""
        return sum(self._told[name].gpus for name in self.lost if name in self._sights)

    def _news_of(self, name: str, now: float) -> Iterator[NodeEvent]:
        sight = self._sights.get(name)
        if sight is not None and sight.outside and not self._has_workers(name):
            return
        if sight is None or not sight.ready:
            yield from self._lose(name, sight, now)
            return
        node = sight.beside(self._ledger.others(name))
        if name in self.lost or name not in self._told:
            self.lost.pop(name, None)
            yield NodeAdded(now, node)
        elif node != self._told[name]:
            yield NodeChanged(now, node)
        self._told[name] = node

    def _has_workers(self, name: str) -> bool:
        return name in self._told or name in self._seated

    def _lose(self, name: str, sight: NodeSight | None, now: float) -> Iterator[NodeEvent]:
        """A node that was never seen well is told too, so that what ran there can be adopted."""
        if name in self.lost:
            return
        if name not in self._told and sight is not None:
            node = self._told[name] = sight.beside()
            yield NodeAdded(now, node)
        if name in self._told:
            self.lost[name] = now
            yield NodeLost(now, NodeId(name))
