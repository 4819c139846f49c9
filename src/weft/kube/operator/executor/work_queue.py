"""Who waits to be looked at: each job once, and those about which something was decided first.

When a term begins, every job that has something is in line. A start that is decided meanwhile must
not wait for all of them.
"""

import asyncio
import time
from collections import deque

BREATH_SECONDS = 0.005


class WorkQueue:
    """Two lines of keys, and who of them still waits."""

    def __init__(self) -> None:
        self._first: deque[str] = deque()
        self._rest: deque[str] = deque()
        self._waiting: dict[str, bool] = {}  # whether it is among the first
        self._any = asyncio.Event()
        self._breathed_at = time.monotonic()

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, key: str) -> bool:
        return key in self._waiting

    def put(self, key: str) -> None:
        """Behind all others, unless it is in line already."""
        if key not in self._waiting:
            self._waiting[key] = False
            self._rest.append(key)
            self._any.set()

    def put_first(self, key: str) -> None:
        """Before all that were only put; one of those may come forward."""
        if not self._waiting.get(key, False):
            self._waiting[key] = True
            self._first.append(key)
            self._any.set()

    async def get(self) -> str:
        """The next one; a long line is left now and then, so that others get their turn."""
        if time.monotonic() - self._breathed_at > BREATH_SECONDS:
            await asyncio.sleep(0)
            self._breathed_at = time.monotonic()
        while not self._waiting:
            self._any.clear()
            await self._any.wait()
            self._breathed_at = time.monotonic()
        return self._next()

    def _next(self) -> str:
        for line, is_first in ((self._first, True), (self._rest, False)):
            while line:
                key = line.popleft()
                if self._waiting.get(key) is is_first:  # one that came forward is passed over here
                    del self._waiting[key]
                    return key
        raise AssertionError("whoever waits is in one of the lines")
