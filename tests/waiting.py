"""Wait for a condition, with a guard against hangs.

A test asserts what happens and in which order, not how long it takes: a busy machine can be slower
by any factor. So a wait ends when its condition holds, and `HANG_SECONDS` only turns a hang into a
failure that names the condition. No test that passes comes near it.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

T = TypeVar("T")

#: The shortest guard of any wait. Below pytest's own limit for a test (`timeout` in
#: pyproject.toml), so that the failure names the condition.
HANG_SECONDS: Final = 90.0
POLL_SECONDS: Final = 0.01


def until(
    condition: Callable[[], T],
    what: str,
    *,
    state: Callable[[], object] | None = None,
    seconds: float = HANG_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Return the first true result of `condition`.

    `what` names the condition in the failure, and `state` tells there what is known instead.
    """
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(_failure(what, seconds, state, found))
        time.sleep(poll_seconds)
    return found


async def until_async(
    condition: Callable[[], T],
    what: str,
    *,
    state: Callable[[], object] | None = None,
    seconds: float = HANG_SECONDS,
    poll_seconds: float = POLL_SECONDS,
) -> T:
    """Return the first true result of `condition`; other tasks of the event loop run meanwhile."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(_failure(what, seconds, state, found))
        await asyncio.sleep(poll_seconds)
    return found


@asynccontextmanager
async def hang_guard(what: str, *, seconds: float = HANG_SECONDS) -> AsyncIterator[None]:
    """Cancel the body if it hangs, and fail with the name of what it waits for."""
    try:
        async with asyncio.timeout(seconds) as guard:
            yield
    except TimeoutError:
        if guard.expired():
            raise AssertionError(_failure(what, seconds, None, None)) from None
        raise


def _failure(what: str, seconds: float, state: Callable[[], object] | None, found: object) -> str:
    last = found if state is None else state()
    return f"waited {seconds:g} s for {what}; last state: {last}"
