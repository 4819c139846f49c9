"""How long each thing may take before whoever does it counts as lost."""

from dataclasses import dataclass
from math import inf
from typing import Final

COMMUNICATING: Final = "comm_exposed"
TURN: Final = "token_wait"  # another job on the same GPUs has its turn; such a wait is bounded
SETUP: Final = "setup"
BETWEEN: Final = "between"  # behind a loop of the script: before the next one, or at the end
SILENCE: Final = "silence"  # it says nothing at all
WAITS: Final = frozenset({COMMUNICATING, TURN, SILENCE})
UNWATCHED: Final = frozenset({"standby", "ended", BETWEEN})  # nobody waits for a worker in these


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds, and in attempts."""

    warm_seconds: float = 120.0
    build_seconds: float = 30.0
    switch_seconds: float = 60.0
    try_seconds: float = 60.0
    silent_seconds: float = 1.5
    hang_seconds: float = 60.0
    steps_of_hang: float = 3.0
    setup_seconds: float = 600.0
    stop_seconds: float = 30.0
    rest_seconds: float = 1.0
    longest_rest_seconds: float = 30.0
    breath_seconds: float = 0.1
    settle_seconds: float = 1.0
    meet_seconds: float = 600.0
    beat_seconds: float = 1.0
    beatless_seconds: float = 5.0
    headless_seconds: float = 60.0
    claim_seconds: float = 0.5
    gather_seconds: float = 2.0
    write_seconds: float = 3600.0
    most_restarts: int = 100
    most_fruitless: int = 3
    most_repeats: int = 9
    most_stillborn: int = 3
    most_hangs: int = 2
    most_failed_joins: int = 3
    most_failed_switches: int = 5
    most_fruitless_halts: int = 10

    def rest(self, failures: int) -> float:
        """Before another attempt to change the width, when so many in a row have failed."""
        return min(_doubled(self.rest_seconds, failures), self.longest_rest_seconds)

    def breath(self, failures: int) -> float:
        """The same before members meet again, who all stand still meanwhile."""
        return min(_doubled(self.breath_seconds, failures), self.longest_rest_seconds)

    @property
    def whole_switch_seconds(self) -> float:
        """For how long a switch may stand still: two steps, however long they are."""
        return max(self.switch_seconds, 3 * self.hang_seconds)

    def of(self, section: str, *, proven: bool, step_seconds: float = 0.0) -> float:
        """How long a worker may be in it whose steps take so long; beyond that it hangs.

        Whoever waits for the others is freed by its group's own limit, and is given longer; who
        waits for its turn is at no fault. So is one that has not committed a step yet: the first
        may compile what the others only run. One that says nothing has stopped; the others find
        it sooner, by the limit of their group, but one that is alone has no others.
        """
        if section in UNWATCHED:
            return inf
        if not proven or section == SETUP:
            return self.setup_seconds
        own = max(self.hang_seconds, self.steps_of_hang * step_seconds)
        limit = 2 * own + 5.0 if section in WAITS else own
        return max(min(limit, self.setup_seconds), self.hang_seconds)

    @property
    def waiting_seconds(self) -> float:
        return self.of(SILENCE, proven=True)


def _doubled(seconds: float, failures: int) -> float:
    return seconds * 2.0 ** min(failures - 1, 30) if failures > 0 else 0.0
