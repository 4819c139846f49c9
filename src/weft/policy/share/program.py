"""How often to take each of many columns: a small integer program, solved by its relaxation.

The relaxed program is solved, what is whole of its answer is taken, or its largest part as one, and
again with what is left. That is exact where jobs are many, and can lose some parts in a hundred
where they are few; so while the relaxation says that there is more to be had, it is branched on,
for a bounded number of times. HiGHS has a solver for whole numbers too, but it prints to standard
output whatever it is told.
"""

from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from math import inf

import numpy as np

from weft.model.errors import InvariantBreach, SpecError
from weft.model.snapshot import Bools, Floats, Ints

SOLVERS = "in Weft's checkout: pip install '.[solvers]'"
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Effort:
    """When a search ends: an answer has `enough` of what the relaxed program promises, or so many
    `branches` were looked at."""

    enough: float
    branches: int


QUICK = Effort(enough=0.998, branches=40)


@dataclass(frozen=True, slots=True)
class Program:
    """`worth` of each column, what it `uses` of each row, and what is `there`; none below `least`.

    `most` is infinite where nothing was decided of a column.
    """

    worth: Floats
    uses: Floats
    there: Floats
    least: Ints
    most: Floats

    @classmethod
    def of(cls, worth: Floats, uses: Floats, there: Ints | Floats) -> "Program":
        none = np.zeros(len(worth), np.int64)
        return cls(worth, uses, np.asarray(there, np.float64), none, np.full(len(worth), np.inf))

    def with_at_least(self, column: int, times: int) -> "Program":
        least = self.least.copy()
        least[column] = times
        return replace(self, least=least)

    def with_at_most(self, column: int, times: int) -> "Program":
        most = self.most.copy()
        most[column] = times
        return replace(self, most=most)

    def relaxed(self) -> Floats | None:
        """The best answer in parts; None if what was decided cannot be."""
        try:
            from scipy.optimize import linprog  # noqa: PLC0415 - an extra, loaded when used
            from scipy.sparse import csc_array  # noqa: PLC0415
        except ImportError as missing:
            raise SpecError("groups by types need SciPy", hint=SOLVERS) from missing
        found = linprog(
            -self.worth,
            A_ub=csc_array(self.uses),
            b_ub=self.there,
            bounds=np.column_stack([self.least, self.most]),
            method="highs-ds",
        )
        part: Floats | None = found.x
        return part


def whole_numbers(
    worth: Floats, uses: Floats, there: Ints | Floats, effort: Effort = QUICK
) -> Ints:
    """How often each column is taken: the worth is greatest, and no row is used up.

    What promises most is looked at first: a search that goes deep first spends all its branches
    under a first choice that was wrong.
    """
    if not len(worth):
        return np.zeros(0, np.int64)
    first = Program.of(worth, uses, there)
    best, value = first.least, -1.0
    order = count(0, -1)  # of two that promise alike the later one, which is the likelier
    waiting = [(-inf, next(order), first)]
    for _ in range(effort.branches):
        if not waiting or -waiting[0][0] * effort.enough <= value:
            break
        program = heappop(waiting)[-1]
        parts = program.relaxed()
        if parts is None or (promised := float(worth @ parts)) * effort.enough <= value:
            continue
        found = _completed(program, parts)
        if float(worth @ found) > value:
            best, value = found, float(worth @ found)
        for branch in _branches(program, parts):
            heappush(waiting, (-promised, next(order), branch))
    if (uses @ best > first.there + ROUNDING).any():
        raise InvariantBreach("the choice of groups uses more than there is")
    return best


def _branches(program: Program, parts: Floats) -> list[Program]:
    """Two programs without this answer in parts, the likelier last; none if it is whole."""
    broken = np.abs(parts - np.rint(parts))
    column = int(np.argmax(broken))
    if broken[column] <= ROUNDING:
        return []
    below = int(np.floor(parts[column]))
    return [program.with_at_most(column, below), program.with_at_least(column, below + 1)]


def _completed(program: Program, parts: Floats) -> Ints:
    """A whole answer near this one: what is whole of it, then the largest part as one, again."""
    often = np.floor(parts + ROUNDING).astype(np.int64)
    left = program.there - program.uses @ often
    columns = np.flatnonzero(program.worth > 0.0)
    while len(columns := columns[_once(program.uses[:, columns], left)]):
        rest = Program.of(program.worth[columns], program.uses[:, columns], left)
        again = rest.relaxed()
        if again is None:
            break
        whole = np.floor(again + ROUNDING).astype(np.int64)
        if not whole.any():
            whole[int(np.argmax(again))] = 1
        often[columns] += whole
        left = left - rest.uses @ whole
    return often


def _once(uses: Floats, left: Floats) -> Bools:
    """Which columns could be taken once more."""
    return np.asarray((uses <= left[:, None] + ROUNDING).all(axis=0))
