"""Whether a service answers: asked of real servers that answer, refuse, stall and talk nonsense."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import pytest

from tests.waiting import HANG_SECONDS, until_async
from weft.brain.instruction import AskService
from weft.reconcile.services import Address, Services, answers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.enable_socket

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
HASTY = 0.3  # of a service that does not answer


def says(*parts: bytes, pause: float = 0.0) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)
            await reader.read()
        writer.close()

    return handle


@asynccontextmanager
async def a_server(handle: Handler) -> "AsyncIterator[int]":
    lines: list[asyncio.StreamWriter] = []
    handling: list[asyncio.Future[None]] = []

    async def kept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(writer)
        handling.append(asyncio.ensure_future(handle(reader, writer)))
        await handling[-1]

    server = await asyncio.start_server(kept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for line in lines:
            line.close()
            with suppress(OSError):
                await line.wait_closed()
        for each in handling:
            each.cancel()
        await asyncio.gather(*handling, return_exceptions=True)


def asked(handle: Handler, path: str = "/", seconds: float = HANG_SECONDS) -> bool:
    async def scene() -> bool:
        async with a_server(handle) as port:
            return await answers(Address("127.0.0.1", port, path), seconds)

    return asyncio.run(scene())


@pytest.mark.parametrize(
    ("status", "well"),
    [
        (b"200 OK", True),
        (b"302 Found\r\nLocation: http://127.0.0.1:1/", True),  # it is not followed
        (b"403 Forbidden", True),
        (b"429 Too Many Requests", False),
        (b"500 Internal Server Error", False),
        (b"503 Service Unavailable", False),
    ],
)
def test_an_answer_is_one_unless_the_server_says_that_it_cannot(status: bytes, well: bool) -> None:
    assert asked(says(b"HTTP/1.1 " + status + b"\r\n\r\n")) is well


@pytest.mark.parametrize(
    "handle",
    [
        says(),  # takes the call and says nothing
        says(*[b"H"] * 1000, pause=0.1),  # a byte now and then, for as long as a test may last
        says(b"x" * 100_000),  # no end of a line
        says(b"SSH-2.0-OpenSSH_9.6\r\n"),
        says(b"\r\n"),
    ],
)
def test_what_is_no_answer_is_none_within_the_time(handle: Handler) -> None:
    assert not asked(handle, seconds=HASTY)


def test_without_a_path_a_connection_is_answer_enough() -> None:
    assert asked(says(), path="")


@pytest.mark.parametrize("host", ["127.0.0.1", "nowhere.invalid", "a" * 70, "127.0.0.1."])
def test_nobody_there_is_no_answer(host: str) -> None:
    assert not asyncio.run(answers(Address(host, 1, "/"), HASTY))


def test_one_question_is_under_way_and_a_service_without_an_address_is_never_asked() -> None:
    told: list[tuple[str, bool]] = []
    calls = 0
    answering = asyncio.Event()

    async def counted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal calls
        calls += 1
        await answering.wait()
        await says(b"HTTP/1.1 204 No Content\r\n\r\n")(reader, writer)

    async def scene() -> None:
        async with a_server(counted) as port:
            address = Address("127.0.0.1", port, "/")
            services = Services({"store": address}, lambda *found: told.append(found))
            for _ in range(5):
                services.ask(AskService("store"))
                services.ask(AskService("hdfs"))
            await until_async(lambda: calls, "the call")
            answering.set()
            await until_async(lambda: told, "the answer")
            assert calls == 1
            services.ask(AskService("store"))  # asked again once it has been answered
            await until_async(lambda: len(told) == 2, "the second answer")
            answering.clear()
            services.ask(AskService("store"))
            await until_async(lambda: calls == 3, "the third call")
            services.close()
            answering.set()

    asyncio.run(scene())
    assert told == [("store", True)] * 2, "of the third nothing is told after the end"
    assert calls == 3
