"""Keys that are to come up again after a while, each once and at the earliest time asked for."""

import asyncio
from collections.abc import Callable


class Delays:
    """`due` hears each key when its time has come."""

    def __init__(self, due: Callable[[str], None]) -> None:
        self._due = due
        self._timers: dict[str, asyncio.TimerHandle] = {}

    def set(self, key: str, seconds: float) -> None:
        """After so many seconds, unless it is due before."""
        loop = asyncio.get_running_loop()
        at = loop.time() + max(seconds, 0.0)
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= at:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(at, self._ring, key)

    def forget(self, key: str) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    def clear(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, key: str) -> None:
        self._timers.pop(key, None)
        self._due(key)
