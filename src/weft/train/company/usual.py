"""What a stage usually takes, from what it took: how long its turn may be, and whether to ask."""

from typing import Final

MOST_BOUND_SECONDS: Final = 10.0
LEAST_TERM_SECONDS: Final = 1.0  # so long a busy machine may keep anybody from its processor
MOST_TERM_SECONDS: Final = 10.0
FIRST_TERM_SECONDS: Final = 1.0
TERM_OF_USUAL: Final = 3.0  # who is not back after three times the usual is not coming
WORTH_SECONDS: Final = 0.001  # asking takes about a tenth of this
MEMORY: Final = 0.2  # the weight of the newest


class Usual:
    """Of one stage; a mean over the past that forgets."""

    def __init__(self) -> None:
        self._seconds: float | None = None

    def took(self, seconds: float) -> None:
        before = self._seconds
        self._seconds = seconds if before is None else before + MEMORY * (seconds - before)

    @property
    def term_seconds(self) -> float:
        if self._seconds is None:
            return FIRST_TERM_SECONDS
        return min(max(TERM_OF_USUAL * self._seconds, LEAST_TERM_SECONDS), MOST_TERM_SECONDS)

    @property
    def is_worth_a_turn(self) -> bool:
        """Not where taking turns would take longer than the stage."""
        return self._seconds is None or self._seconds >= WORTH_SECONDS
