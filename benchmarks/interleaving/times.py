"""Completion times of a run's jobs, summed up as schedulers are compared."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds from submission to end, of the jobs that ended."""

    jcts: tuple[float, ...]

    def __len__(self) -> int:
        return len(self.jcts)

    def __add__(self, other: "Times") -> "Times":
        return Times(self.jcts + other.jcts)

    @property
    def mean_seconds(self) -> float:
        return float(np.mean(self.jcts))

    @property
    def p99_seconds(self) -> float:
        """As in Muri's scripts: the time at that place in their order."""
        return sorted(self.jcts)[int(0.99 * len(self.jcts))]
