"""Neighbours: jobs on other GPUs of the same nodes, who slow each other by what they share.

Cores of the host, PCIe lanes and the network card belong to a node and not to a GPU. Philly's
operators measured what that costs: a ResNet-50 on two servers did 98 images a second alone and 74
to 76 beside others. A gang goes at the pace of its slowest node.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple

from weft.brain.event import Phase
from weft.model.ids import JobId, NodeId
from weft.model.truth import Strain
from weft.sim.run import Run

FULL = 1.0
NO_STRAIN = Strain()

RESNET_STRAINS = Strain(pcie=1 / 3, network=1 / 3)
RESNET_MINDS = Strain(pcie=98.0 / 75.6 - 1.0, network=98.0 / 74.1 - 1.0)
"""As Philly's ResNet-50: beside three others of its kind it does 75.6 images a second instead of
98.0 where these share its servers, and 74.1 where they share its network."""


class Neighbours:
    """Who sits beside whom, and how much slower that makes them."""

    def __init__(self, runs: Mapping[JobId, Run]) -> None:
        self._runs = runs
        self._anybody_minds = False

    def slowdown(self, run: Run) -> float:
        """1 for who sits alone, and for who does not mind."""
        minds = run.job.truth.minds
        if minds is None:
            return 1.0
        self._anybody_minds = True
        others = [other for other in self._beside(run) if other.job.truth.strains is not None]
        nodes = run.placement.nodes
        return 1.0 + max((_slower(run, minds, others, node) for node in nodes), default=0.0)

    def minding(self, run: Run) -> list[Run]:
        """Those beside it who mind: when it comes or goes, they go on at another pace."""
        if not self._anybody_minds or run.job.truth.strains is None:
            return []
        return [other for other in self._beside(run) if other.job.truth.minds is not None]

    def _beside(self, run: Run) -> Iterator[Run]:
        nodes = set(run.placement.nodes)
        for other in self._runs.values():
            apart = other is not run and other.party != run.party
            if apart and _trains(other) and not nodes.isdisjoint(other.placement.nodes):
                yield other


def _slower(run: Run, minds: Strain, others: Iterable[Run], node: NodeId) -> float:
    """By how much, because of those who are on this node too."""
    taken = [0.0, 0.0, 0.0]
    for other in others:
        gpus = other.placement.gpus_by_node.get(node, 0)
        for what, share in enumerate(_parts(other, other.job.truth.strains or NO_STRAIN)):
            taken[what] += gpus * share
    return sum(
        minded * min(share, FULL) for minded, share in zip(_parts(run, minds), taken, strict=True)
    )


def _parts(run: Run, strain: Strain) -> tuple[float, float, float]:
    """Whoever sits on one node sends nothing over the card."""
    host, pcie, network = astuple(strain)
    return host, pcie, network if len(run.placement.nodes) > 1 else 0.0


def _trains(run: Run) -> bool:
    return run.phase is Phase.RUNNING and not run.broken
