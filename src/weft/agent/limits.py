"""How long each thing may take before whoever does it counts as lost."""

from dataclasses import dataclass
from typing import Final

COMMUNICATING: Final = "comm_exposed"
SETUP: Final = "setup"
UNWATCHED: Final = frozenset({"standby", "ended"})  # sections in which nobody waits for a worker


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds, and in attempts."""

    warm_seconds: float = 120.0
    build_seconds: float = 30.0
    switch_seconds: float = 60.0
    silent_seconds: float = 1.5
    hang_seconds: float = 60.0
    setup_seconds: float = 600.0
    stop_seconds: float = 30.0
    rest_seconds: float = 1.0
    settle_seconds: float = 1.0
    meet_seconds: float = 600.0
    beat_seconds: float = 1.0
    beatless_seconds: float = 5.0
    most_restarts: int = 100
    most_stillborn: int = 3
    most_failed_joins: int = 3

    @property
    def whole_switch_seconds(self) -> float:
        """From arming to the first step of the new epoch: two steps, however long they are."""
        return max(self.switch_seconds, 3 * self.hang_seconds)

    def too_long(self, section: str, seconds: float, *, proven: bool) -> bool:
        """Whether a worker hangs that is in this section for so long.

        Whoever waits for the others is freed by its group's own limit, and is given longer. So is
        one that has not committed a step yet: the first may compile what the others only run.
        """
        if section in UNWATCHED:
            return False
        if not proven or section == SETUP:
            return seconds > self.setup_seconds
        waits = section == COMMUNICATING
        return seconds > (2 * self.hang_seconds + 5.0 if waits else self.hang_seconds)
