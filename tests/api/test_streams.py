"""Answers that go on: signs of life, ends that are told, readers that leave or are slow."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TypeVar

import pytest

from weft.api import streams
from weft.api.streams import EVENTS, LOG, Streams, log_line
from weft.model.errors import WorldError
from weft.view.logs import LogLine

T = TypeVar("T")
LINE = LogLine(0, 1, b"step 1")


async def of(*items: T) -> AsyncIterator[T]:
    for item in items:
        yield item


def written(
    items: AsyncIterator[object], *, form: streams._Format = LOG, most: int | None = None
) -> list[bytes]:
    """The pieces that are sent, or the first so many of them."""

    async def work() -> list[bytes]:
        pieces: list[bytes] = []
        sending = Streams()._written(items, form)
        async for piece in sending:
            pieces.append(piece)
            if len(pieces) == most:
                break
        await sending.aclose()
        return pieces

    return asyncio.run(work())


def test_what_is_there_is_sent_together_and_its_end_is_told() -> None:
    assert b"".join(written(of(LINE, LINE))) == log_line(LINE) * 2 + b'{"end":true}\n'
    assert written(of()) == [b'{"end":true}\n']


def test_an_item_may_be_none() -> None:
    assert b"".join(written(of(1, None), form=EVENTS)) == (
        b"data: 1\n\ndata: null\n\nevent: end\ndata: {}\n\n"
    )


def test_bytes_that_are_no_text_come_through() -> None:
    assert log_line(LogLine(2, 3, b"\xff", "node-1")) == (
        b'{"rank":2,"epoch":3,"base64":"/w==","node":"node-1"}\n'
    )


@pytest.mark.parametrize(("form", "beat"), [(LOG, b"\n"), (EVENTS, b":\n\n")])
def test_silence_is_broken(
    monkeypatch: pytest.MonkeyPatch, form: streams._Format, beat: bytes
) -> None:
    monkeypatch.setattr(streams, "BEAT_SECONDS", 0.0)

    async def silent() -> AsyncIterator[object]:
        await asyncio.Event().wait()
        yield LINE

    assert written(silent(), form=form, most=3) == [beat] * 3


@pytest.mark.parametrize(
    ("error", "words"),
    [(WorldError("no disk", hint="buy one"), b'"no disk"'), (KeyError("x"), b'"the server failed')],
)
def test_what_goes_wrong_is_the_last_thing_said(error: Exception, words: bytes) -> None:
    async def breaking() -> AsyncIterator[object]:
        yield LINE
        raise error

    *_, last = written(breaking())
    assert words in last
    assert b'"code"' in last


@pytest.mark.parametrize("pauses", [False, True])
def test_a_reader_who_leaves_closes_the_source(pauses: bool) -> None:
    """Whether it was in the middle of something or waited for room."""
    closed: list[bool] = []

    async def endless() -> AsyncIterator[object]:
        try:
            while True:
                yield LINE
                if pauses:
                    await asyncio.sleep(0)
        finally:
            closed.append(True)

    async def work() -> None:
        sending = Streams()._written(endless(), LOG)
        await anext(sending)
        for _ in range(10):
            await asyncio.sleep(0)
        await sending.aclose()
        assert closed == [True]

    asyncio.run(work())


def test_a_slow_reader_slows_the_source() -> None:
    made = 0

    async def eager() -> AsyncIterator[object]:
        nonlocal made
        while True:
            made += 1
            yield LINE

    async def work() -> None:
        sending = Streams()._written(eager(), LOG)
        await anext(sending)
        for _ in range(100):
            await asyncio.sleep(0)
        await sending.aclose()

    asyncio.run(work())
    assert made <= 2 * streams.MOST_WAITING + 2


def test_a_server_that_stops_ends_its_streams() -> None:
    async def work() -> bytes:
        made = Streams()

        async def silent() -> AsyncIterator[object]:
            await asyncio.Event().wait()
            yield LINE

        sending = made._written(silent(), EVENTS)
        asyncio.get_running_loop().call_soon(made.stop)
        return await anext(sending)

    told = asyncio.run(work())
    assert told.startswith(b"event: error")
    assert b'"gone"' in told


def test_everything_that_was_said_before_an_end_is_sent() -> None:
    """However the reading and the writing interleave."""

    def paused(places: set[int]) -> Callable[[], AsyncIterator[object]]:
        async def items() -> AsyncIterator[object]:
            for number in range(6):
                if number in places:
                    await asyncio.sleep(0)
                yield number

        return items

    for mask in range(64):
        make = paused({bit for bit in range(6) if mask >> bit & 1})
        sent = b"".join(written(make(), form=EVENTS))
        assert sent == b"".join(b"data: %d\n\n" % n for n in range(6)) + EVENTS.end
