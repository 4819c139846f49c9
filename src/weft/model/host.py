"""A host curve: how a job's speed hangs on the cores and the host memory that each GPU has.

Reading, decoding and augmenting is work for the CPU: some jobs starve on the share that their GPUs
would get, others do not even use it (Synergy, OSDI'22). A table with a few rows by cores and a few
columns by memory says which is which. Speeds are relative: 1 is the speed on what the job asks for.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, isfinite
from typing import NamedTuple

from weft.model.errors import SpecError


class PerGpu(NamedTuple):
    """Cores and host memory for each GPU of a job."""

    cores: float
    memory_gib: float = inf


@dataclass(frozen=True, slots=True)
class HostCurve:
    """`speeds[row][column]` at `cores[row]` cores and `memory_gib[column]` GiB per GPU.

    Linear in between, flat beyond the last point, proportional before the first one. More never
    slows a job down.
    """

    cores: tuple[float, ...]
    memory_gib: tuple[float, ...]
    speeds: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        _demand_rising("cores", self.cores)
        _demand_rising("memory_gib", self.memory_gib)
        if [len(row) for row in self.speeds] != [len(self.memory_gib)] * len(self.cores):
            raise SpecError(
                f"a table of {len(self.cores)} x {len(self.memory_gib)} has other speeds",
                hint="give a row for each number of cores, in it a speed for each memory",
            )
        columns = tuple(zip(*self.speeds, strict=True))
        if not all(_never_falls(line) for line in (*self.speeds, *columns)):
            raise SpecError(
                "a host curve falls where a job has more",
                hint="take the best speed of what is no more than that",
            )

    @classmethod
    def by_cores(cls, points: Sequence[tuple[float, float]]) -> "HostCurve":
        """(cores, speed) of a job to which memory does not matter."""
        return cls(tuple(c for c, _ in points), (0.0,), tuple((s,) for _, s in points))

    def at(self, host: PerGpu) -> float:
        """Relative speed with so much for each GPU."""
        row, down = _between(self.cores, host.cores)
        column, right = _between(self.memory_gib, host.memory_gib)
        above, below = self._in_row(row, column, right), self._in_row(row + 1, column, right)
        return above + (below - above) * down

    def _in_row(self, row: int, column: int, right: float) -> float:
        left, more = self._point(row, column), self._point(row, column + 1)
        return left + (more - left) * right

    def _point(self, row: int, column: int) -> float:
        """Counted from 1; the points with nothing lie before them, at speed 0."""
        return self.speeds[row - 1][column - 1] if row and column else 0.0


def _between(points: tuple[float, ...], value: float) -> tuple[int, float]:
    """The point (counted from 1) at or before the value, and how far on to the next it lies."""
    after = bisect_left(points, value)
    if after == len(points):
        return after - 1, 1.0
    begin = points[after - 1] if after else 0.0
    width = points[after] - begin
    return after, (value - begin) / width if width else 1.0


def _demand_rising(axis: str, points: tuple[float, ...]) -> None:
    rising = all(one < other for one, other in pairwise(points))
    if not points or not rising or points[0] < 0 or not isfinite(points[-1]):
        raise SpecError(
            f"{axis} of a host curve are {points}", hint="give each point once, smallest first"
        )


def _never_falls(line: tuple[float, ...]) -> bool:
    return line[0] >= 0 and all(one <= other for one, other in pairwise(line))
