"""Groups by types: the best groups of all sizes at once, as an integer program over group columns.

How often each group of types is formed is the unknown; no type has more jobs than there are, and
all groups together have no more GPUs. Guards are columns that are missing. Where there are more
types than columns can be made of, those that differ least count as one, and every group of concrete
jobs is judged once more by its own profiles.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Floats, Ints
from weft.policy.share.blossom import Blossom
from weft.policy.share.candidates import Candidates
from weft.policy.share.columns import GroupColumns, columns_possible, group_columns
from weft.policy.share.grouping import Grouping, everybody_alone, fitted
from weft.policy.share.guards import Limits, judged
from weft.policy.share.program import whole_numbers

MOST_COLUMNS = 8_000
COARSEST_GRID = 1.0


@dataclass(frozen=True, slots=True)
class ByTypes:
    """A choice of groups by an integer program."""

    most_columns: int = MOST_COLUMNS

    def __call__(self, jobs: Candidates, free_gpus: int, limits: Limits) -> Grouping:
        if jobs.demand_gpus <= free_gpus:
            return everybody_alone(jobs, free_gpus, limits)
        coarse = jobs
        while columns_possible(coarse, limits) > self.most_columns and coarse.grid < COARSEST_GRID:
            coarse = coarse.coarser()
        if columns_possible(coarse, limits) > self.most_columns:
            return Blossom()(jobs, free_gpus, limits)
        columns = group_columns(coarse, limits)
        groups = _filled(coarse, columns, _chosen(coarse, columns, free_gpus))
        if coarse is not jobs:
            groups = list(_judged_again(jobs, groups, limits))
        return fitted(jobs, groups, free_gpus, limits, "types")


def _chosen(jobs: Candidates, columns: GroupColumns, free_gpus: int) -> Ints:
    """How often each column is taken."""
    uses = np.vstack([columns.counts(len(jobs.types)).T, columns.gpus[None]])
    there: Floats = np.append(jobs.types.count, free_gpus).astype(np.float64)
    return whole_numbers(columns.worth, uses.astype(np.float64), there)


def _filled(jobs: Candidates, columns: GroupColumns, often: Ints) -> list[tuple[int, ...]]:
    """Concrete jobs, by rank: the best of each type go where fewest share."""
    left = [deque[int]() for _ in range(len(jobs.types))]
    for row, of in enumerate(jobs.types.of_job.tolist()):
        left[of].append(row)
    taken, sizes = np.flatnonzero(often), columns.sizes
    order = np.lexsort((-columns.worth[taken], sizes[taken]))
    found: list[tuple[int, ...]] = []
    for column in taken[order].tolist():
        members = columns.members[column, : sizes[column]].tolist()
        found += [tuple(left[of].popleft() for of in members) for _ in range(int(often[column]))]
    return found


def _judged_again(
    jobs: Candidates, groups: list[tuple[int, ...]], limits: Limits
) -> Iterator[tuple[int, ...]]:
    """Groups whose own members pass every guard; the others are taken apart."""
    for size in sorted({len(group) for group in groups}):
        rows = [group for group in groups if len(group) == size]
        if size == 1:
            yield from rows
            continue
        passed = judged(jobs, jobs.types.of_job[np.array(rows)], limits).passed
        for group, stays in zip(rows, passed.tolist(), strict=True):
            yield from [group] if stays else [(row,) for row in group]
