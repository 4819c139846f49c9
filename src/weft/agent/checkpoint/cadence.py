"""How often a job saves: as its owner says, or else as often as failures make it worth.

What a save costs is measured with each of them, so the interval follows a model that grows, a
storage that becomes slow and a job that becomes wider, without an order from anybody.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from weft.failure.interval import Advice, Cost

REMEMBERED: Final = 5


@dataclass(frozen=True, slots=True)
class Cadence:
    """Seconds that were fixed (0: nobody did), and the advice for where nobody did."""

    fixed_seconds: float = 0.0
    advice: Advice | None = None

    def seconds(self, workers: int, cost: Cost | None) -> float:
        """Between two saves; 0 means that nobody wants any."""
        if self.advice is None:
            return self.fixed_seconds
        return self.advice.interval_seconds(workers, cost)


def cost_of(stopped: Sequence[float], written: Sequence[float]) -> Cost | None:
    """What the last saves cost; None before there was one."""
    if not stopped:
        return None
    return Cost(median(stopped[-REMEMBERED:]), median(written[-REMEMBERED:] or (0.0,)))
