"""What cores and host memory do to a job's speed: the factor under a placement, and a fit.

A training step waits for the slower of two: the GPUs, or the cores that feed them. So speed rises
in proportion to the cores and then stands still, and two measured points already tell much. Of the
shapes that were tried on Synergy's tables this bent line foretells best; AITurbo's saturating
exponential d + a exp(-b x) is further off, above all beyond the measured points.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, log2, sqrt

from weft.model.host import HostCurve, PerGpu
from weft.model.placement import Seat

PRIOR_ERROR = 0.05
"""Relative error of a prediction between points that the line explains perfectly."""
PER_DOUBLING = 0.15
"""What each doubling of the cores beyond the measured ones adds to it."""
SPREAD = 1.28
"""An interval of so many standard deviations is to hold the truth in 80 of 100 cases."""

NOTHING_MORE = PerGpu(0.0, 0.0)

Point = tuple[float, float]
"""Cores per GPU, and the speed that was measured with them."""


def host_factor(
    curve: HostCurve | None, seats: Iterable[Seat], fed: PerGpu = NOTHING_MORE
) -> float:
    """Speed relative to what the job asked for: that of the worker which is worst off.

    Each GPU may be `fed` beyond what its seat says. Seats without cores say nothing, and memory
    of 0 means that nobody counts it.
    """
    if curve is None:
        return 1.0
    per_gpu = {
        (seat.cpus / seat.gpus, seat.memory_gib / seat.gpus): None
        for seat in seats
        if seat.gpus and seat.cpus
    }
    speeds = (
        curve.at(PerGpu(cores + fed.cores, memory + fed.memory_gib if memory else inf))
        for cores, memory in per_gpu
    )
    return min(speeds, default=1.0)


@dataclass(frozen=True, slots=True)
class HostFit:
    """Speed is `slope` times the cores, up to `top`; `error` is how far off the points were.

    Where no point lay on the rise, or none on the level part, no more is claimed than was seen,
    and the interval reaches to what may be.
    """

    slope: float
    top: float
    error: float
    least_cores: float
    most_cores: float
    rise_seen: bool
    level_seen: bool

    def at(self, cores: float) -> tuple[float, float, float]:
        """Likely speed, and the interval that should hold it."""
        likely = min(self.slope * cores, self.top)
        far = max(log2(cores / self.most_cores), log2(self.least_cores / cores), 0.0)
        half = SPREAD * (sqrt(PRIOR_ERROR**2 + self.error**2) + PER_DOUBLING * far)
        return likely, likely / (1.0 + half), self._at_best(cores) * (1.0 + half)

    def _at_best(self, cores: float) -> float:
        rises = cores * self.slope < self.top
        if rises and not self.rise_seen:
            return self.top
        if not rises and not self.level_seen:
            return self.slope * cores
        return min(self.slope * cores, self.top)

    def curve(self) -> HostCurve:
        """As a host curve: one bend, at the fewest cores with which the GPUs are busy."""
        return HostCurve.by_cores([(self.top / self.slope, self.top)])

    def hoped(self, asked_cores: float) -> HostCurve:
        """Relative to the speed on what was asked, and as if a rise whose end nobody has seen went
        on to twice the cores that were measured: whoever has idle cores finds out."""
        unit = self.at(asked_cores)[0]
        most = self.top / self.slope if self.level_seen else 2.0 * self.most_cores
        return HostCurve.by_cores([(most, self.slope * most / unit)])


def fit_cores(points: Sequence[Point]) -> HostFit:
    """The bent line that is least off the measured points.

    A line that only rises is taken where it is no further off than measurements are from each
    other: a single point somewhat below it is no sign of the level part.
    """
    means = _means(points)
    candidates = [(*_bent(means, rising), rising) for rising in range(len(means) + 1)]
    slope, top, squares, rising = min(candidates, key=lambda found: found[2])
    if len(means) > 1 and candidates[-1][2] <= len(means) * PRIOR_ERROR**2:
        slope, top, squares, rising = candidates[-1]
    error = sqrt(squares / max(len(means) - 2, 1))
    ends = means[0][0], means[-1][0]
    several = len(means) > 1
    seen = several and rising > 0, several and rising < len(means)
    return HostFit(slope, top, error, *ends, *seen)


def _means(points: Sequence[Point]) -> list[Point]:
    by_cores: dict[float, list[float]] = {}
    for cores, speed in points:
        by_cores.setdefault(cores, []).append(speed)
    return [(cores, sum(found) / len(found)) for cores, found in sorted(by_cores.items())]


def _bent(points: list[Point], rising: int) -> tuple[float, float, float]:
    """The line with that many points on its rise, and the squares of its relative errors."""
    rise, level = points[:rising], points[rising:]
    slope = _mean([speed / cores for cores, speed in rise] or [level[0][1] / level[0][0]])
    top = _mean([speed for _, speed in level] or [slope * rise[-1][0]])
    line = [(min(slope * cores, top), speed) for cores, speed in points]
    return slope, top, sum(((likely - speed) / speed) ** 2 for likely, speed in line)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
