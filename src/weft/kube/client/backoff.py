"""How long to wait before trying again: longer each time, and never in step with others."""

from random import Random


class Backoff:
    """Waits that double from `first_seconds` to `most_seconds`, each shortened by up to a half."""

    def __init__(
        self, random: Random, *, first_seconds: float = 0.1, most_seconds: float = 30.0
    ) -> None:
        self.random = random
        self._first_seconds = first_seconds
        self._most_seconds = most_seconds
        self._next_seconds = first_seconds

    def next_seconds(self, at_least: float = 0.0) -> float:
        """The wait before the next try; `at_least` is what the other side asked for."""
        wait = self._next_seconds * self.random.uniform(0.5, 1.0)
        self._next_seconds = min(self._next_seconds * 2, self._most_seconds)
        return max(wait, at_least)

    def reset(self) -> None:
        """Something went well: start again with short waits."""
        self._next_seconds = self._first_seconds
