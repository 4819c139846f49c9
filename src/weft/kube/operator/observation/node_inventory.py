"""Nodes as the brain was told of them, and what it must be told next.

A node counts with what is allocatable less what others hold there; one that is not ready, or out of
reach, is lost and its loss is dated, because a pod on it never confirms its end. Heartbeats change
nothing that is kept here, so they cost a comparison. Nodes outside of what Weft may use are not
told, unless workers are there: such a node takes no more of them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

from weft.brain.event import NodeAdded, NodeChanged, NodeLost
from weft.kube.devices import NodeDevices
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.node import ObservedNode
from weft.model.cluster import Node
from weft.model.ids import NodeId

NodeEvent = NodeAdded | NodeChanged | NodeLost


class NodeInventory:
    """What was told; `lost` maps each node that is out of reach to the time of its loss."""

    def __init__(
        self,
        nodes: Mapping[str, ObservedNode],
        foreign_use: ForeignUse,
        counted: Callable[[str], NodeDevices] | None = None,
    ) -> None:
        """GPUs are as `counted` from what drivers publish, else as the node says."""
        self.unfit: Callable[[str], str] = lambda _: ""  # why nothing may start there
        self.lost: dict[str, float] = {}
        self._counted = counted
        self._nodes = nodes
        self._foreign_use = foreign_use
        self._told: dict[str, Node] = {}
        self._seated: frozenset[str] = frozenset()
        self._dirty: dict[str, None] = {}

    @property
    def dead(self) -> frozenset[str]:
        """Those that are known to be off: deleted, or marked as out of service."""
        nodes = {name: self._nodes.get(name) for name in self.lost}
        return frozenset(
            name for name, observed in nodes.items() if observed is None or observed.out_of_service
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
            self._foreign_on(observed) for observed in self._nodes.values() if not observed.outside
        )

    def _foreign_on(self, observed: ObservedNode) -> int:
        if self._counted is not None:
            return self._counted(observed.name).foreign
        return int(self._foreign_use.others(observed.name).of(observed.gpu_resource))

    def lost_gpus(self) -> int:
        """GPUs of nodes that are out of reach; what was deleted is nobody's loss."""
        return sum(self._told[name].gpus for name in self.lost if name in self._nodes)

    def _news_of(self, name: str, now: float) -> Iterator[NodeEvent]:
        observed = self._nodes.get(name)
        if observed is not None and observed.outside and not self._has_workers(name):
            return
        if observed is None or not observed.ready:
            yield from self._lose(name, observed, now)
            return
        node = self._with_devices(observed).beside(self._foreign_use.others(name))
        if self.unfit(name):
            node = node.with_cordon(True)
        if name in self.lost or name not in self._told:
            self.lost.pop(name, None)
            yield NodeAdded(now, node)
        elif node != self._told[name]:
            yield NodeChanged(now, node)
        self._told[name] = node

    def _with_devices(self, observed: ObservedNode) -> ObservedNode:
        if self._counted is None:
            return observed
        found = self._counted(observed.name)
        memory = observed.gpu_memory_gib if found.memory_gib is None else found.memory_gib
        return replace(observed, gpus=found.gpus, gpu_memory_gib=memory)

    def _has_workers(self, name: str) -> bool:
        return name in self._told or name in self._seated

    def _lose(self, name: str, observed: ObservedNode | None, now: float) -> Iterator[NodeEvent]:
        """A node that was never seen well is told too, so that what ran there can be adopted."""
        if name in self.lost:
            return
        if name not in self._told and observed is not None:
            node = self._told[name] = self._with_devices(observed).beside()
            yield NodeAdded(now, node)
        if name in self._told:
            self.lost[name] = now
            yield NodeLost(now, NodeId(name))
