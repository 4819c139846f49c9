"""Lanes of a Gantt chart: which of a node's GPUs a sitting is drawn on.

The brain counts GPUs and never says which; for a picture the lowest free lanes are taken, so that
what is idle stays together and shows as one white band.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from weft.model.ids import JobId, NodeId
from weft.sim.record import Sitting


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle: adjacent lanes of one node, from begin to end."""

    node: NodeId
    lane: int
    lanes: int
    begin: float
    end: float
    job: JobId


def bars_of(sittings: Iterable[Sitting], gpus: Mapping[NodeId, int]) -> list[Bar]:
    """Bars of all sittings on nodes that are drawn, in the order in which they begin."""
    free_at = {node: [0.0] * count for node, count in gpus.items()}
    bars: list[Bar] = []
    for sitting in sorted(sittings, key=lambda sitting: (sitting.begin, sitting.end)):
        if sitting.node not in free_at or sitting.end <= sitting.begin:
            continue
        lanes = free_at[sitting.node]
        taken = _take(lanes, sitting)
        bars += [
            Bar(sitting.node, first, count, sitting.begin, sitting.end, sitting.job)
            for first, count in _runs(taken)
        ]
    return bars


def _take(lanes: list[float], sitting: Sitting) -> list[int]:
    """The lowest free lanes; where too few are free, those that are free soonest."""
    by_wish = sorted(
        range(len(lanes)), key=lambda lane: (max(lanes[lane] - sitting.begin, 0.0), lane)
    )
    taken = sorted(by_wish[: sitting.gpus])
    for lane in taken:
        lanes[lane] = sitting.end
    return taken


def _runs(lanes: list[int]) -> list[tuple[int, int]]:
    """Adjacent lanes together: first lane and how many."""
    runs = []
    for _, group in groupby(enumerate(lanes), key=lambda pair: pair[1] - pair[0]):
        members = [lane for _, lane in group]
        runs.append((members[0], len(members)))
    return runs
