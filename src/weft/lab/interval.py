"""Confidence intervals over a few seeds: Student's t at 95 %, from a table of its quantiles.

With three seeds the factor is 4.3 and not the normal 2: what looks like a difference often is none,
and an interval that says so is worth more than another digit.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev

# Two-sided 95 % quantiles by degrees of freedom; between two entries the smaller one counts, which
# makes the interval a little too wide and never too narrow.
QUANTILES: tuple[tuple[int, float], ...] = (
    *enumerate(
        (
            *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
            *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
            *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
        ),
        start=1,
    ),
    (40, 2.021),
    (60, 2.000),
    (120, 1.980),
    (1000, 1.962),
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and half the width of its 95 % interval; None where there is one value only."""

    mean: float
    half_width: float | None

    @property
    def excludes_zero(self) -> bool:
        return self.half_width is not None and abs(self.mean) > self.half_width


def interval(values: Sequence[float]) -> Interval:
    """Mean of independent runs, with its interval."""
    if len(values) == 1:
        return Interval(values[0], None)
    spread = stdev(values) / sqrt(len(values))
    return Interval(fmean(values), t_quantile(len(values) - 1) * spread)


def t_quantile(degrees: int) -> float:
    """The factor for that many degrees of freedom."""
    row = bisect_right(QUANTILES, (degrees, float("inf"))) - 1
    return QUANTILES[row][1]
