"""Patience: how long a job waits for a tighter placement than the one it could have now.

A spread that makes a job s times slower over the time T it has left costs (s - 1) T, so waiting
for a better one is worth at most that; the wait is capped, because nobody knows T well. The
offer gets tighter or the patience runs out, level by level, as nodes free up.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds on locality waiting; `cap_seconds` 0 turns it off."""

    cap_seconds: float = 1800.0

    def bound_seconds(self, slowdown: float, remaining_seconds: float) -> float:
        """Longest wait that the avoided slowdown pays for; the cap where T is unknown (NaN)."""
        worth = (slowdown - 1.0) * remaining_seconds
        return worth if worth < self.cap_seconds else self.cap_seconds


PATIENT = Patience()
