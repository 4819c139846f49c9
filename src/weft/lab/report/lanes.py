"""Lanes of a Gantt chart: which of a node's GPUs a sitting is drawn on.

The brain counts GPUs and never says which; for a picture the lowest free lanes are taken, so that
what is idle stays together and shows as one white band. Who takes turns with others is drawn on
their lanes, in as many bars as their company had times, each of which knows its turn among how
many.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from weft.model.ids import JobId, NodeId, PartyId
from weft.sim.record import Sitting


@dataclass(frozen=True, slots=True)
class Bar:
    """A rectangle: adjacent lanes of one node, from begin to end.

    Of `members` who take turns there meanwhile this is the one that comes at its `turn`.
    """

    node: NodeId
    lane: int
    lanes: int
    begin: float
    end: float
    job: JobId
    turn: int = 0
    members: int = 1


Company = tuple[NodeId, PartyId]


def bars_of(sittings: Iterable[Sitting], gpus: Mapping[NodeId, int]) -> list[Bar]:
    """Bars of all sittings on nodes that are drawn, in the order in which they begin."""
    drawn = [one for one in sittings if one.node in gpus and one.end > one.begin]
    companies: dict[Company, list[Sitting]] = defaultdict(list)
    for sitting in drawn:
        companies[sitting.node, sitting.party].append(sitting)
    shared = {
        key: members
        for key, members in companies.items()
        if key[1] and len({one.job for one in members}) > 1
    }
    lanes = _lanes(drawn, gpus, shared)
    bars: list[Bar] = []
    for sitting in drawn:
        if (sitting.node, sitting.party) not in shared:
            bars += _bars(sitting, lanes[id(sitting)], sitting.begin, sitting.end)
    for members in shared.values():
        bars += _in_turns(members, lanes)
    return sorted(bars, key=lambda bar: (bar.begin, bar.end))


def _lanes(
    sittings: Sequence[Sitting],
    gpus: Mapping[NodeId, int],
    shared: Mapping[Company, Sequence[Sitting]],
) -> dict[int, list[int]]:
    """Of each sitting, by its identity; one that joins others has theirs."""
    free_at = {node: [0.0] * count for node, count in gpus.items()}
    found: dict[int, list[int]] = {}
    for sitting in sorted(sittings, key=lambda one: (one.begin, one.end)):
        place = free_at[sitting.node]
        there = [
            one
            for one in shared.get((sitting.node, sitting.party), ())
            if id(one) in found and one.end > sitting.begin
        ]
        own = {lane for one in there if one.job == sitting.job for lane in found[id(one)]}
        theirs = {lane for one in there if one.job != sitting.job for lane in found[id(one)]} - own
        if len(theirs) >= sitting.gpus > 0:
            found[id(sitting)] = sorted(theirs)[: sitting.gpus]
            for lane in found[id(sitting)]:
                place[lane] = max(place[lane], sitting.end)
        else:
            found[id(sitting)] = _take(place, sitting)
    return found


def _in_turns(company: Sequence[Sitting], lanes: Mapping[int, list[int]]) -> Iterator[Bar]:
    """From each change of a company to the next one, those who are there in their order."""
    times = sorted({time for one in company for time in (one.begin, one.end)})
    for begin, end in pairwise(times):
        there = [one for one in company if one.begin <= begin and one.end >= end]
        jobs = list(dict.fromkeys(one.job for one in there))
        for one in there:
            turn, members = jobs.index(one.job), len(jobs)
            yield from _bars(one, lanes[id(one)], begin, end, turn=turn, members=members)


def _bars(
    sitting: Sitting,
    lanes: Sequence[int],
    begin: float,
    end: float,
    *,
    turn: int = 0,
    members: int = 1,
) -> list[Bar]:
    return [
        Bar(sitting.node, first, count, begin, end, sitting.job, turn, members)
        for first, count in _runs(lanes)
    ]


def _take(lanes: list[float], sitting: Sitting) -> list[int]:
    """The lowest free lanes; where too few are free, those that are free soonest."""
    by_wish = sorted(
        range(len(lanes)), key=lambda lane: (max(lanes[lane] - sitting.begin, 0.0), lane)
    )
    taken = sorted(by_wish[: sitting.gpus])
    for lane in taken:
        lanes[lane] = sitting.end
    return taken


def _runs(lanes: Sequence[int]) -> list[tuple[int, int]]:
    """Adjacent lanes together: first lane and how many."""
    runs = []
    for _, group in groupby(enumerate(lanes), key=lambda pair: pair[1] - pair[0]):
        members = [lane for _, lane in group]
        runs.append((members[0], len(members)))
    return runs
