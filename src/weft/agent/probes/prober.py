"""Probes of a machine for several who ask: one look at a time, and none again after a moment.

Whoever asks while a look is under way waits for it and has its answer. So however many ask, and
however often, a machine is never probed twice at once.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from weft.agent.probes.probe import Result

LEAST_SECONDS: Final = 30.0  # what was found so shortly ago is not looked for again


@dataclass(frozen=True, slots=True)
class Found:
    """What a look found; empty words where all is well."""

    words: str
    at_seconds: float

    @property
    def passed(self) -> bool:
        return not self.words


class Prober:
    """Looks when somebody asks; the last word is kept."""

    def __init__(
        self,
        probing: Callable[[], Sequence[Result]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._probing, self._clock = probing, clock
        self._one_at_a_time = threading.Lock()
        self._last: Found | None = None
        self._failed = threading.Event()

    def look(self, within_seconds: float) -> Found:
        """What was found within that time; looked for now, where nothing was."""
        with self._one_at_a_time:
            last = self._last
            if last is None or self._clock() - last.at_seconds > within_seconds:
                failed = [one.words for one in self._probing() if not one.passed]
                last = self._last = Found("; ".join(failed), self._clock())
            if not last.passed:
                self._failed.set()
            return last

    def rest(self, seconds: float) -> None:
        """For so long, or until somebody's look has found something."""
        self._failed.wait(seconds)
