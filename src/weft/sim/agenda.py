"""What is still to happen, in a total order: by time, then by turn, then as it was put down.

Nothing in it depends on chance or on the order of a set, so a run is a function of its inputs.
"""

from collections.abc import Callable
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

T = TypeVar("T")


class Turn(IntEnum):
    """Order of what happens at one instant; ticks come last, so a round sees everything."""

    WORLD = 0
    JOB = 1
    MESSAGE = 2
    SUBMISSION = 3
    TICK = 4


class Agenda:
    """Entries are taken out in order; `now` is the time of the last one."""

    __slots__ = ("_entries", "_sequence", "now")

    def __init__(self, now: float = 0.0) -> None:
        self.now = now
        self._entries: list[tuple[float, int, int, Callable[[Any], None], Any]] = []
        self._sequence = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def next_at(self) -> float:
        """When the next thing happens; never, where nothing is left."""
        return self._entries[0][0] if self._entries else float("inf")

    @property
    def entries(self) -> list[tuple[Callable[[Any], None], Any]]:
        """All that is to happen, in its order."""
        return [entry[3:] for entry in sorted(self._entries, key=lambda entry: entry[:3])]

    def put(self, at: float, turn: Turn, happen: Callable[[T], None], what: T) -> int:
        """Put it down; how manieth thing that was."""
        self._sequence += 1
        heappush(self._entries, (at, turn, self._sequence, happen, what))
        return self._sequence

    def advance(self) -> None:
        """Let the next thing happen."""
        self.now, _, _, happen, what = heappop(self._entries)
        happen(what)

    def strike(self, happen: Callable[[Any], None]) -> None:
        """Take out all that this would have done."""
        self._entries = [entry for entry in self._entries if entry[3] != happen]
        heapify(self._entries)
