"""The fabric: what the cluster could hold if it were empty, by kind of job.

These facts change only when nodes do, so they are computed once and asked in every round: which
nodes suit a kind, the fewest nodes that could hold a width, and the widest gang that could ever
be placed. A gang stays inside one pool and on one GPU type; a tier is the set of nodes of one
type, tried fastest first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from weft.model.ids import NodeId
from weft.model.kind import Kind
from weft.model.snapshot import Bools, Floats, Ints, NodeColumns
from weft.model.suit import UNDEMANDING, Offering

UNLIMITED = 1 << 40


@dataclass(frozen=True, slots=True)
class Tier:
    """Nodes of one GPU type that suit a kind; `mask` None means every node of the cluster."""

    speed: float
    mask: Bools | None
    capacity: Ints


class Total(NamedTuple):
    """All that the present nodes have; never 0, so that shares of it can be computed."""

    gpus: float
    cpus: float
    memory_gib: float


@dataclass(frozen=True, slots=True)
class Site:
    """A kind's tiers, and what they could hold when empty: as it stands, or with all nodes back."""

    kind: Kind
    tiers: tuple[Tier, ...]
    total_gpus: int
    largest_gpus: int
    largest_ever_gpus: int
    hosted_ever: bool


class Fabric:
    """Derived facts about one set of nodes; made anew when the nodes change."""

    def __init__(
        self,
        nodes: NodeColumns,
        gpu_types: tuple[str, ...],
        offerings: Sequence[Offering] = (),
        ids: Sequence[NodeId] = (),
    ) -> None:
        self.nodes = nodes
        self.usable = nodes.present & ~nodes.cordoned
        self.count = len(nodes.gpus)
        amounts = (nodes.gpus, nodes.cpus, nodes.memory_gib)
        self.total = Total(*(float(a[nodes.present].sum()) or 1.0 for a in amounts))
        self.one_rack = len(np.unique(nodes.rack)) <= 1
        self.one_pool = len(np.unique(nodes.pool)) <= 1
        self._offerings, self._ids = offerings, ids
        self._tainted = any(offering.taints for offering in offerings)
        self._type_codes = {name: code for code, name in enumerate(gpu_types)}
        self._sites: dict[Kind, Site] = {}
        self._fewest: dict[tuple[Kind, int, bool], int] = {}

    def site(self, kind: Kind) -> Site:
        found = self._sites.get(kind)
        if found is None:
            found = self._sites[kind] = self._survey(kind)
        return found

    def fewest_nodes(self, kind: Kind, width: int) -> int:
        """Fewest nodes that could hold `width`, 0 where nothing could."""
        return self._fewest_that_hold(kind, width, racks=False)

    def fewest_racks(self, kind: Kind, width: int) -> int:
        """Fewest racks whose nodes could hold `width`, 0 where nothing could."""
        return self._fewest_that_hold(kind, width, racks=True)

    def _fewest_that_hold(self, kind: Kind, width: int, *, racks: bool) -> int:
        key = (kind, width, racks)
        found = self._fewest.get(key)
        if found is None:
            found = self._fewest[key] = self._count_fewest(kind, width, racks=racks)
        return found

    def suiting(self, kind: Kind) -> Bools | None:
        """Nodes that have what the kind demands, and that it does not avoid; None: all of them."""
        demand, found = kind.demand, None
        if self._offerings and (demand != UNDEMANDING or self._tainted):
            found = np.array([demand.is_met_by(offering) for offering in self._offerings], bool)
        if not kind.avoid:
            return found
        others = np.array([node not in kind.avoid for node in self._ids[: self.count]], bool)
        return others if found is None else found & others

    def _survey(self, kind: Kind) -> Site:
        ever = gpus_offered(kind, self.nodes.gpus, self.nodes.cpus, self.nodes.memory_gib)
        suiting = self.suiting(kind)
        tiers = self._tiers(kind, ever * self.usable, suiting)
        always = self._tiers(kind, ever, suiting)
        return Site(
            kind,
            tiers,
            int(sum(tier.capacity.sum() for tier in tiers)),
            max((self._largest(kind, tier.capacity) for tier in tiers), default=0),
            max((self._largest(kind, tier.capacity) for tier in always), default=0),
            self._hosted(kind, suiting),
        )

    def _hosted(self, kind: Kind, suiting: Bools | None) -> bool:
        """Whether some node has the CPUs and memory of a job without GPUs."""
        enough = (self.nodes.cpus >= kind.cpus) & (self.nodes.memory_gib >= kind.memory_gib)
        return bool((enough if suiting is None else enough & suiting).any())

    def _tiers(self, kind: Kind, whole: Ints, suiting: Bools | None) -> tuple[Tier, ...]:
        codes = np.unique(self.nodes.gpu_type[self.nodes.gpus > 0])
        if not kind.gpu_types and len(codes) <= 1:
            return (Tier(1.0, suiting, whole if suiting is None else whole * suiting),)
        speeds = {int(code): 1.0 for code in codes}
        if kind.gpu_types:
            speeds = {
                self._type_codes[accepted.type]: accepted.speed
                for accepted in kind.gpu_types
                if accepted.type in self._type_codes
            }
        tiers = []
        for code, speed in sorted(speeds.items(), key=lambda item: (-item[1], item[0])):
            mask = self.nodes.gpu_type == code
            mask = mask if suiting is None else mask & suiting
            tiers.append(Tier(speed, mask, whole * mask))
        return tuple(tiers)

    def _largest(self, kind: Kind, capacity: Ints) -> int:
        best = 0
        for pool in np.unique(self.nodes.pool):
            inside = np.sort(capacity[self.nodes.pool == pool])[::-1]
            best = max(best, int(inside[: kind.max_nodes].sum()))
        return best

    def _count_fewest(self, kind: Kind, width: int, *, racks: bool) -> int:
        fewest = 0
        for tier in self.site(kind).tiers:
            for pool in np.unique(self.nodes.pool):
                here = self.nodes.pool == pool
                held = tier.capacity[here]
                if racks:
                    held = np.bincount(self.nodes.rack[here], held)
                sums = np.cumsum(np.sort(held)[::-1])
                count = int(np.searchsorted(sums, width)) + 1
                if count <= len(sums) and (fewest == 0 or count < fewest):
                    fewest = count
        return fewest


def gpus_offered(kind: Kind, gpus: Ints, cpus: Floats, memory_gib: Floats) -> Ints:
    """GPUs each node can offer to this kind, CPUs and memory considered."""
    if not kind.counts_host:
        return gpus
    offered = gpus.astype(np.float64)
    if kind.cpus_per_gpu > 0:
        offered = np.minimum(offered, np.floor(cpus / kind.cpus_per_gpu + 1e-9))
    if kind.memory_gib_per_gpu > 0:
        offered = np.minimum(offered, np.floor(memory_gib / kind.memory_gib_per_gpu + 1e-9))
    return offered.astype(np.int64)
