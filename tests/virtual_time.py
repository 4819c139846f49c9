"""An event loop whose time passes at once: where nothing is left to do, the next timer is due.

For code that waits for timers and other tasks alone. What comes from outside, such as bytes of a
socket or a result of a thread, takes no time on this clock, so a timer would be due before it.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Selector(selectors.DefaultSelector):
    """Adds each wait to the clock instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Begins at 0 s."""

    def __init__(self) -> None:
        self._virtual = _Selector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


def run(work: Coroutine[Any, Any, T]) -> T:
    """Like `asyncio.run`, on a loop with a clock of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(work)


async def pass_time(seconds: float) -> None:
    """Let so much of the loop's time pass, and all that is due in it happen."""
    assert isinstance(asyncio.get_running_loop(), VirtualLoop), "this would sleep"
    await asyncio.sleep(seconds)
