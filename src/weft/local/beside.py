"""Work that nobody waits for: it is kept until it is done, and what breaks in it is noticed."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Beside:
    """Tasks that are under way; `broke` hears of what they raise."""

    def __init__(self, broke: Callable[[Exception], None]) -> None:
        self._broke = broke
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._broke(error)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
