"""What timers and watches ask for, done one after the other by one task.

A callback of the event loop that raises is logged by the loop and forgotten: a wake-up would be
lost and nobody would decide again, while the lease is kept. So callbacks only ask for a turn here.
What breaks in a turn, or is told to have broken elsewhere, ends the task, and with it the term.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable

Work = Callable[[], None]


class SerialQueue:
    """Work that is due, and since when."""

    def __init__(self) -> None:
        self._due: deque[tuple[float, Work]] = deque()
        self._any = asyncio.Event()
        self._broken: Exception | None = None

    def soon(self, work: Work) -> None:
        self._due.append((time.monotonic(), work))
        self._any.set()

    def later(self, seconds: float, work: Work) -> asyncio.TimerHandle:
        """A turn after so many seconds, unless the timer is cancelled before."""
        loop = asyncio.get_running_loop()
        return loop.call_later(max(seconds, 0.0), self.soon, work)

    @property
    def broken(self) -> bool:
        """Whether something is known to have broken."""
        return self._broken is not None

    def break_off(self, error: Exception) -> None:
        """Somebody else met this in the middle of what only a whole turn may change."""
        self._broken = self._broken or error
        self._any.set()

    async def run(self) -> None:
        """For ever, until something breaks."""
        while True:
            await self._any.wait()
            self._any.clear()
            while self._due and self._broken is None:
                self._due[0][1]()
                self._due.popleft()
                await asyncio.sleep(0)
            if self._broken is not None:
                raise self._broken

    @property
    def late_seconds(self) -> float:
        """How long the oldest turn has been due."""
        return time.monotonic() - self._due[0][0] if self._due else 0.0
