"""Calibration: what was foretold, against what came.

An interval is worth what it covers. Each prediction is scored when the truth is known, and the
scores are kept as counters, so that they can be carried along and shown at any time: how often the
interval held the truth, and how far the likely value was off. Keep one for each kind of prediction.
"""

from bisect import bisect_left
from dataclasses import dataclass
from math import isfinite

FINEST = 0.005
PER_DOUBLING = 4
BINS = 44
EDGES = tuple(FINEST * 2 ** (edge / PER_DOUBLING) for edge in range(BINS))
"""Errors are counted between these; a median is known to a bin, which is a fifth of its size."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """How many predictions were scored, how many intervals held, and how far off they were."""

    count: int = 0
    covered: int = 0
    error_sum: float = 0.0
    errors: tuple[int, ...] = (0,) * (BINS + 1)

    def with_score(self, likely: float, low: float, high: float, actual: float) -> "Calibration":
        """One more; what has no finite truth above 0 cannot be scored."""
        if not (isfinite(actual) and actual > 0 and isfinite(likely)):
            return self
        error = abs(likely - actual) / actual
        place = bisect_left(EDGES, error)
        errors = (*self.errors[:place], self.errors[place] + 1, *self.errors[place + 1 :])
        held = self.covered + (low <= actual <= high)
        return Calibration(self.count + 1, held, self.error_sum + error, errors)

    def with_all(self, other: "Calibration") -> "Calibration":
        """Both together."""
        errors = tuple(map(sum, zip(self.errors, other.errors, strict=True)))
        count, covered = self.count + other.count, self.covered + other.covered
        return Calibration(count, covered, self.error_sum + other.error_sum, errors)

    @property
    def coverage(self) -> float | None:
        """The share of intervals that held the truth."""
        return self.covered / self.count if self.count else None

    @property
    def mean_error(self) -> float | None:
        """Of the likely value, as a share of the truth."""
        return self.error_sum / self.count if self.count else None

    @property
    def median_error(self) -> float | None:
        return self.error_quantile(0.5)

    @property
    def p90_error(self) -> float | None:
        return self.error_quantile(0.9)

    def error_quantile(self, share: float) -> float | None:
        """Below which that share of the errors lies, as the upper edge of its bin."""
        if not self.count:
            return None
        seen = 0
        for edge, count in zip(EDGES, self.errors, strict=False):
            seen += count
            if seen >= share * self.count:
                return edge
        return EDGES[-1]
