"""Answers that go on: log lines as NDJSON, changes as server-sent events.

Silence is broken every few seconds, so that both ends notice when the other is gone. A stream that
came to its end says so: one that was cut off looks the same to HTTP. What goes wrong on the way is
the last thing that is said, in the words of any other error. A reader who is slow slows the
backend's iterator, and nobody else.
"""

import asyncio
import base64
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeVar

import orjson
from starlette.responses import StreamingResponse

from weft.api.errors import NoAnswer, status_and_code
from weft.model.errors import WeftError
from weft.view.logs import LogLine

BEAT_SECONDS: Final = 10.0
MOST_WAITING: Final = 1_000  # items that are read ahead, and sent in one piece
NDJSON: Final = "application/x-ndjson"
SSE: Final = "text/event-stream"
T = TypeVar("T")

logger = logging.getLogger(__name__)


class _Mark(Enum):
    END = "the iterator has come to its end"
    NOTHING = "nothing more is there yet"


Waiting = asyncio.Queue[T | Exception | _Mark]


@dataclass(frozen=True, slots=True)
class _Format:
    """How a stream writes an item, a sign of life, the end and an error."""

    item: Callable[[Any], bytes]
    beat: bytes
    end: bytes
    error: Callable[[bytes], bytes]


@dataclass(slots=True)
class Streams:
    """Those that are open; a server that stops ends them all."""

    _stopping: asyncio.Event = field(default_factory=asyncio.Event)

    def stop(self) -> None:
        self._stopping.set()

    def logs(self, lines: AsyncIterator[LogLine]) -> StreamingResponse:
        """A line of JSON for each line that was printed; empty lines mean nothing."""
        return StreamingResponse(self._written(lines, LOG), media_type=NDJSON)

    def events(self, items: AsyncIterator[Any]) -> StreamingResponse:
        """An event for each item."""
        still = {"Cache-Control": "no-store"}
        return StreamingResponse(self._written(items, EVENTS), media_type=SSE, headers=still)

    async def _written(
        self, items: AsyncIterator[Any], form: _Format
    ) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._batches(items)) as batches:
                async for batch in batches:
                    yield b"".join(map(form.item, batch)) or form.beat
            yield form.end
        except WeftError as error:
            yield form.error(_failure(error))
        except Exception:
            logger.exception("a stream broke off")
            yield form.error(_failure(WeftError("the server failed at this")))

    async def _batches(self, items: AsyncIterator[T]) -> AsyncGenerator[list[T], None]:
        """What has come since the last look; nothing, after a while in which nothing came."""
        queue: Waiting[T] = asyncio.Queue(MOST_WAITING)
        pump = asyncio.create_task(_pump(items, queue))
        try:
            while True:
                batch: list[T] = []
                last = await self._next(queue)
                while not isinstance(last, Exception | _Mark):
                    batch.append(last)
                    last = _Mark.NOTHING if queue.empty() else queue.get_nowait()
                if batch or last is _Mark.NOTHING:
                    yield batch
                if isinstance(last, Exception):
                    raise last
                if last is _Mark.END:
                    return
        finally:
            pump.cancel()
            await asyncio.gather(pump, return_exceptions=True)

    async def _next(self, queue: "Waiting[T]") -> T | Exception | _Mark:
        """The next thing, if one comes within a while; a server that stops is an error."""
        getting = asyncio.ensure_future(queue.get())
        stopping = asyncio.ensure_future(self._stopping.wait())
        try:
            await asyncio.wait(
                {getting, stopping}, timeout=BEAT_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            if getting.done():
                return getting.result()
            if stopping.done():
                return NoAnswer("the server stops", hint="weft local status tells if it is back")
            return _Mark.NOTHING
        finally:
            getting.cancel()
            stopping.cancel()


async def _pump(items: AsyncIterator[T], queue: "Waiting[T]") -> None:
    try:
        async for item in items:
            await queue.put(item)
    except Exception as error:  # it is told by whoever reads the queue
        await queue.put(error)
    else:
        await queue.put(_Mark.END)
    finally:
        if isinstance(items, AsyncGenerator):
            await items.aclose()


def log_line(line: LogLine) -> bytes:
    """Text where it is text; a line that is none loses nothing either."""
    told: dict[str, object] = {"rank": line.rank, "epoch": line.epoch}
    try:
        told["text"] = line.text.decode()
    except UnicodeDecodeError:
        told["base64"] = base64.b64encode(line.text).decode()
    if line.node is not None:
        told["node"] = line.node
    return orjson.dumps(told) + b"\n"


def _event(item: object) -> bytes:
    return b"data: " + orjson.dumps(item) + b"\n\n"


def _failure(error: WeftError) -> bytes:
    _, code = status_and_code(error)
    return orjson.dumps({"error": str(error), "hint": error.hint, "code": code})


LOG: Final = _Format(log_line, b"\n", b'{"end":true}\n', lambda told: told + b"\n")
EVENTS: Final = _Format(
    _event,
    b":\n\n",
    b"event: end\ndata: {}\n\n",
    lambda told: b"event: error\ndata: " + told + b"\n\n",
)
