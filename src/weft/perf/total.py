"""How much work a job has in all, as far as anybody can tell, and who says so.

Everything is counted in the job's own unit: steps, samples or seconds at the asked width.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

CONFIDENCE = 0.8
"""How often the truth is meant to lie between low and high."""

NORMAL_QUANTILE = 1.2816
"""Of the standard normal distribution: so many deviations to each side hold that share."""


class Source(StrEnum):
    """Where an estimate comes from; the name is shown to people."""

    STATED = "stated by its owner"
    LOSS = "extrapolated from its loss"
    HISTORY = "like earlier runs of the same program"


@dataclass(frozen=True, slots=True)
class Remaining:
    """Work that is left."""

    low: float
    likely: float
    high: float


@dataclass(frozen=True, slots=True)
class Total:
    """All the work of a job, done or not: likely so much, and between low and high."""

    low: float
    likely: float
    high: float
    source: Source

    @property
    def exact(self) -> bool:
        return self.low == self.high < math.inf

    def remaining(self, done: float) -> Remaining:
        """What is left of it; nobody does less than nothing."""
        return Remaining(*(max(part - done, 0.0) for part in (self.low, self.likely, self.high)))
