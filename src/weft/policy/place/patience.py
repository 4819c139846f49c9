"""Patience: how long a job waits for a tighter placement than the one it could have now.

A spread that makes a job s times slower over the time T it has left costs (s - 1) T, so waiting
for a better one is worth at most that. Where nobody knows T, half an hour is waited at most; and
a cap of some hours bounds what a wrong T can do. The offer gets tighter or the patience runs out,
level by level, as nodes free up.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds on locality waiting; `cap_seconds` 0 turns it off."""

    cap_seconds: float = 14_400.0
    unknown_seconds: float = 1_800.0

    def bound_seconds(self, slowdown: float, remaining_seconds: float) -> float:
        """Longest wait that the avoided slowdown pays for; T is NaN where nobody knows it."""
        worth = (slowdown - 1.0) * remaining_seconds
        return min(self.unknown_seconds if math.isnan(worth) else worth, self.cap_seconds)


PATIENT = Patience()
