"""The ground of the simulated world: its nodes, and which of their GPUs are in use.

It is the world's own account, and shares no code with the brain's: what does not fit here is
refused, whatever the brain believes.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from weft.brain.state.node_table import NodeTable
from weft.model.cluster import Node
from weft.model.decision import NO_PARTY
from weft.model.ids import JobId, NodeId, PartyId
from weft.model.kind import kind_of
from weft.model.placement import Placement, Seat
from weft.model.request import WorkUnit
from weft.perf.speed import Traits
from weft.sim.run import Run

NOBODY: Final[Mapping[JobId, int]] = MappingProxyType({})


class Ground:
    """Seats are taken and freed one by one; those who take turns take each GPU once."""

    def __init__(self) -> None:
        self.nodes = NodeTable()
        self._used: dict[NodeId, int] = {}
        self._sitting: dict[tuple[PartyId, NodeId], dict[JobId, int]] = {}
        self._in_use = 0

    def put(self, node: Node) -> None:
        """A node that is new, or has changed."""
        self.nodes.put(node)
        self._used.setdefault(node.id, 0)

    def take_over(self, nodes: NodeTable) -> None:
        """The nodes as somebody else knows them, with those that are gone."""
        for row, node in enumerate(nodes.specs):
            self.put(node)
            if not nodes.columns.present[row]:
                self.lose(node.id)

    @property
    def gpus(self) -> int:
        """Of all nodes that are there."""
        there = zip(self.nodes.specs, self.nodes.columns.present, strict=False)
        return sum(node.gpus for node, present in there if present)

    def lose(self, node: NodeId) -> bool:
        """Whether there was such a node."""
        row = self.nodes.row.get(node)
        if row is not None:
            self.nodes.lose(row)
        return row is not None

    def has_all(self, nodes: Iterable[NodeId]) -> bool:
        """Whether none of them is lost."""
        return all(self.nodes.columns.present[self.nodes.row[node]] for node in nodes)

    def no_room(self, placement: Placement, party: PartyId = NO_PARTY) -> str:
        """Why this does not fit; nothing if it does, beside others of its party too."""
        for node, gpus in placement.gpus_by_node.items():
            row = self.nodes.row.get(node)
            if row is None or not self.nodes.columns.present[row]:
                return f"node {node} is not there"
            there = max(self._sitting.get((party, node), NOBODY).values(), default=0)
            if self._used[node] + max(gpus - there, 0) > self.nodes.specs[row].gpus:
                return f"node {node} is full"
        return ""

    def take(self, run: Run, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self._change(run, seat.node, seat.gpus)

    def free(self, run: Run, seats: Iterable[Seat]) -> None:
        for seat in seats:
            self._change(run, seat.node, -seat.gpus)

    def party(self, run: Run) -> list[JobId]:
        """Who takes turns with it where it sits, itself among them."""
        return list(self._sitting.get((run.party, run.placement.nodes[0]), ()))

    def _change(self, run: Run, node: NodeId, gpus: int) -> None:
        """Of those who take turns on a node, the widest takes the GPUs."""
        key = (run.party, node)
        sitting = self._sitting.setdefault(key, {})
        before = max(sitting.values(), default=0)
        sitting[run.job.id] = sitting.get(run.job.id, 0) + gpus
        if not sitting[run.job.id]:
            del sitting[run.job.id]
        more = max(sitting.values(), default=0) - before
        self._used[node] += more
        self._in_use += more
        if not sitting:
            del self._sitting[key]

    def used_gpus(self) -> int:
        return self._in_use

    def speed(self, run: Run) -> float:
        """Work per second where it sits, with what it is fed."""
        request, truth, placement = run.job.request, run.job.truth, run.placement
        if not placement.width:
            return 1.0
        if truth.steps is not None:
            return self._planned(run)
        traits = Traits(
            truth.units_per_second(placement.width),
            truth.type_speed(self.nodes.gpu_type(placement)),
            truth.locality,
            truth.host,
        )
        return self.nodes.units_per_second(
            placement, traits, kind=kind_of(request), fed=run.more_per_gpu
        )

    def _planned(self, run: Run) -> float:
        """Where it sits and how it computes is all in what was measured of its steps."""
        placement, truth = run.placement, run.job.truth
        assert truth.steps is not None
        counts = tuple(sorted(placement.gpus_by_node.values(), reverse=True))
        cores = sum(seat.cpus for seat in placement.seats) / placement.width
        speed = truth.steps.samples_per_second(run.plan, counts, cores)
        if truth.work.unit is WorkUnit.SECONDS:
            speed /= truth.steps.as_asked(truth.asked_gpus)
        return speed * truth.type_speed(self.nodes.gpu_type(placement))
