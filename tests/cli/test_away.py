"""Blocking calls and streams, taken from an event loop that stays free."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import aclosing
from types import SimpleNamespace
from typing import cast

import pytest

from tests.waiting import HANG_SECONDS
from weft.api.client import Stream
from weft.api.connection import Lines
from weft.cli.worlds import away as module
from weft.cli.worlds.away import away, streamed
from weft.model.errors import WorldError


class NoLines:
    """Where items come from; it remembers being closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def taken(make: Callable[[], Iterator[int]], most: int | None = None) -> tuple[list[int], NoLines]:
    """What comes out, or the first so many of it."""
    source = NoLines()

    async def work() -> list[int]:
        items: list[int] = []
        begun = streamed(lambda: Stream(cast(Lines, source), make()))
        async with aclosing(begun) as batches:
            async for batch in batches:
                items += batch
                if most is not None and len(items) >= most:
                    break
        return items

    return asyncio.run(work()), source


def test_everything_comes_in_order_and_once() -> None:
    items, source = taken(lambda: iter(range(25_000)))
    assert items == list(range(25_000))
    assert source.closed


def test_what_came_before_an_error_comes_before_it() -> None:
    got: list[int] = []

    def breaking() -> Iterator[int]:
        yield from range(5)
        raise WorldError("no more")

    async def work() -> None:
        async for batch in streamed(lambda: Stream(cast(Lines, NoLines()), breaking())):
            got.extend(batch)

    with pytest.raises(WorldError, match="no more"):
        asyncio.run(work())
    assert got == list(range(5))


def test_a_defect_is_no_end() -> None:
    def breaking() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        taken(breaking)


def test_a_stream_is_not_read_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_AHEAD", 3)
    made = 0
    waits = threading.Event()

    class Room(threading.Semaphore):
        """Tells that its reader waits for room."""

        def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
            if super().acquire(blocking=False):
                return True
            waits.set()
            return super().acquire(blocking, timeout)

    def endless() -> Iterator[int]:
        nonlocal made
        while True:
            made += 1
            yield made

    threads = SimpleNamespace(Thread=threading.Thread, Semaphore=Room)
    monkeypatch.setattr(module, "threading", threads)

    async def work() -> int:
        async with aclosing(streamed(lambda: Stream(cast(Lines, NoLines()), endless()))) as batches:
            await anext(batches)
            assert await asyncio.to_thread(waits.wait, HANG_SECONDS)
            return made

    assert asyncio.run(work()) <= 2 * 3 + 2


def test_whoever_leaves_closes_it() -> None:
    _, source = taken(lambda: iter(range(10)), most=1)
    assert source.closed


def test_a_call_returns_or_raises() -> None:
    async def work() -> int:
        return await away(lambda: 5)

    async def fail() -> object:
        return await away(lambda: 1 // 0)

    assert asyncio.run(work()) == 5
    with pytest.raises(ZeroDivisionError):
        asyncio.run(fail())


def test_a_call_that_hangs_does_not_hold_the_loop() -> None:
    never = threading.Event()

    async def work() -> None:
        waiting = asyncio.ensure_future(away(never.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(work())
    never.set()
