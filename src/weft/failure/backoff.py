"""How long to rest before another try: twice as long each time, up to a cap."""

from dataclasses import dataclass
from typing import Final

MOST_DOUBLINGS: Final = 60
"""Beyond any cap, and within what a float holds."""


@dataclass(frozen=True, slots=True)
class Backoff:
    """The rest after the first time, and the longest one."""

    first_seconds: float
    cap_seconds: float

    def after(self, times: int) -> float:
        """Seconds to rest after so many times, counted from 1."""
        doubled = min(times - 1, MOST_DOUBLINGS)
        return min(self.first_seconds * 2.0**doubled, self.cap_seconds)
