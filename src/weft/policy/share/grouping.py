"""A grouping: who takes turns with whom, why, and who was kept apart by what.

A choice of groups is a function of candidates, GPUs and limits. Whatever it is, its answer is a
partition of some of the candidates: nobody is in two groups, all members of a group have the same
width, and together the groups need no more GPUs than there are.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from weft.model.errors import InvariantBreach
from weft.perf.interleaving.group import GroupForecast, foretold
from weft.policy.share.candidates import Candidates
from weft.policy.share.guards import ORDER, Guard, Limits, judged

LOOKED_AT = 10
TOLD = 10
"""Of so many pairs among those that rank highest it is told what kept them apart."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of candidates, the best-ranked first; one alone is a group too."""

    members: tuple[int, ...]
    forecast: GroupForecast

    def __len__(self) -> int:
        return len(self.members)

    @property
    def lead(self) -> int:
        """The member whose turn it would be without company."""
        return self.members[0]


@dataclass(frozen=True, slots=True)
class Refused:
    """Two candidates that ranked high and were kept apart."""

    members: tuple[int, int]
    guard: Guard


@dataclass(frozen=True, slots=True)
class Grouping:
    """The groups, by rank of their best member; who is in none waits."""

    groups: tuple[Group, ...]
    matcher: str
    refused: tuple[Refused, ...] = ()

    @property
    def shared(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if len(group) > 1)

    def gpus(self, jobs: Candidates) -> int:
        return sum(int(jobs.gpus[group.lead]) for group in self.groups)

    def aggregate(self, jobs: Candidates) -> float:
        """Work per second on all GPUs, in that of one GPU whose job is alone."""
        return sum(int(jobs.gpus[one.lead]) * one.forecast.aggregate for one in self.groups)


class Choice(Protocol):
    """Says who shares, if these candidates want more GPUs than there are."""

    def __call__(self, jobs: Candidates, free_gpus: int, limits: Limits) -> Grouping: ...


def everybody_alone(jobs: Candidates, free_gpus: int, limits: Limits) -> Grouping:
    """Nobody shares; in order of rank, skipping what does not fit."""
    alone = [(row,) for row in range(len(jobs))]
    return Grouping(tuple(grouped(jobs, _with_room(jobs, alone, free_gpus), limits)), "none")


def grouped(jobs: Candidates, rows: Iterable[Sequence[int]], limits: Limits) -> Iterator[Group]:
    """Groups of these rows with their forecasts, in the order in which they come."""
    for one in rows:
        profiles = [jobs.profiles[int(jobs.profile[row])] for row in one]
        yield Group(tuple(one), foretold(profiles, limits.cycles))


def demand_valid(jobs: Candidates, grouping: Grouping, free_gpus: int) -> Grouping:
    """The same grouping, if it is one; matchers are other people's code."""
    rows = [row for group in grouping.groups for row in group.members]
    if len(rows) != len(set(rows)):
        raise InvariantBreach(f"{grouping.matcher} put a job into two groups")
    for group in grouping.groups:
        if len({int(jobs.gpus[row]) for row in group.members}) > 1:
            raise InvariantBreach(f"{grouping.matcher} put jobs of several widths together")
    if grouping.gpus(jobs) > free_gpus:
        raise InvariantBreach(f"{grouping.matcher} gave away more GPUs than there are")
    return grouping


def by_width(jobs: Candidates) -> dict[int, list[int]]:
    """Rows of candidates of equal width, the widest first."""
    widths = np.unique(jobs.gpus)[::-1].tolist()
    return {width: np.flatnonzero(jobs.gpus == width).tolist() for width in widths}


def fitted(
    jobs: Candidates, groups: Sequence[Sequence[int]], free_gpus: int, limits: Limits, matcher: str
) -> Grouping:
    """Those that find room, in order of their best members, skipping what does not fit."""
    taken = grouped(jobs, _with_room(jobs, groups, free_gpus), limits)
    return demand_valid(jobs, Grouping(tuple(taken), matcher, refused(jobs, limits)), free_gpus)


def _with_room(
    jobs: Candidates, groups: Sequence[Sequence[int]], free_gpus: int
) -> Iterator[Sequence[int]]:
    for group in sorted(sorted(members) for members in groups):
        gpus = int(jobs.gpus[group[0]])
        if gpus <= free_gpus:
            free_gpus -= gpus
            yield group


def refused(jobs: Candidates, limits: Limits) -> tuple[Refused, ...]:
    """Pairs of equal width among those that rank highest, and what kept them apart."""
    first = range(min(len(jobs), LOOKED_AT))
    pairs = [pair for pair in combinations(first, 2) if jobs.gpus[pair[0]] == jobs.gpus[pair[1]]]
    if not pairs:
        return ()
    found = judged(jobs, jobs.types.of_job[np.array(pairs)], limits)
    told = [
        Refused(pair, ORDER[guard])
        for pair, guard in zip(pairs, found.guard.tolist(), strict=True)
        if ORDER[guard] is not Guard.NONE
    ]
    return tuple(told[:TOLD])
