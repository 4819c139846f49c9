"""Blocking calls from an event loop, in threads that nobody waits for.

The loop stays free to hear Ctrl-C, and a call that hangs does not keep the command from leaving.
"""

import asyncio
import threading
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from weft.api.client import Stream

MOST_AHEAD: Final = 1_000
T = TypeVar("T")


async def away(work: Callable[[], T]) -> T:
    """What the call returns or raises."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]  # without an error there is one

    def run() -> None:
        result, error = None, None
        try:
            result = work()
        except Exception as raised:  # it is raised again where it is waited for
            error = raised
        with suppress(RuntimeError):  # nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()
    return await done


async def streamed(begin: Callable[[], Stream[T]]) -> AsyncGenerator[list[T], None]:
    """What a stream brings, in lists of what has come; it is closed when nobody reads on."""
    stream = await away(begin)
    reader = _Reader(stream)
    threading.Thread(target=reader.read, daemon=True).start()
    try:
        while (batch := await reader.batch()) is not None:
            yield batch
    finally:
        stream.close()


class _Reader(Generic[T]):
    """Between the thread that reads and the loop that takes: at most so many items lie here."""

    def __init__(self, stream: Stream[T]) -> None:
        self._stream = stream
        self._loop = asyncio.get_running_loop()
        self._room = threading.Semaphore(MOST_AHEAD)
        self._there: deque[T] = deque()
        self._woken = asyncio.Event()
        self._error: Exception | None = None
        self._over = False

    def read(self) -> None:
        """In its own thread, to the end of the stream."""
        try:
            for item in self._stream:
                self._room.acquire()
                self._there.append(item)
                self._wake()
        except Exception as error:  # it is raised again where the items are taken
            self._error = error
        finally:
            self._over = True
            self._wake()

    async def batch(self) -> list[T] | None:
        """What has come; None at the end. What came before an error is handed over before it."""
        while True:
            self._woken.clear()
            over = self._over
            batch = [self._there.popleft() for _ in range(len(self._there))]
            if batch:
                self._room.release(len(batch))
                return batch
            if over:
                break
            await self._woken.wait()
        if self._error is not None:
            raise self._error
        return None

    def _wake(self) -> None:
        if not self._woken.is_set():
            with suppress(RuntimeError):  # nobody waits any more
                self._loop.call_soon_threadsafe(self._woken.set)
