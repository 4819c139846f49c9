"""Many connections at once: nobody can shut the others out."""

import asyncio
from typing import Any

from tests.kube.reports.reporting import LLAMA, STEP, TOKENS, Vouching, Workers, vouched
from weft.kube.metrics import Metrics
from weft.kube.reports.limits import Limits
from weft.kube.reports.server import HEALTH, ReportServer, report_path
from weft.kube.reports.tokens import Tokens

LOOPBACK = ("127.0.0.1", 0)


class Door:
    """The operator's own server behind these limits, and raw connections to it."""

    def __init__(self, **limits: Any) -> None:
        vouching, workers = Vouching(), Workers()
        vouching.words[TOKENS["right"]] = vouched(LLAMA.namespace, "pod", "uid")
        workers.pods[LLAMA.namespace, "pod", "uid"] = LLAMA
        workers.epochs[LLAMA.namespace, LLAMA.job] = LLAMA.epoch
        self._server = ReportServer(
            Tokens(vouching),
            workers,
            lambda *_: None,
            lambda: True,
            metrics=Metrics(),
            limits=Limits(**limits),
        )
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> "Door":
        self._port = (await self._server.start(workers=LOOPBACK, metrics=LOOPBACK))[0].port
        return self

    async def __aexit__(self, *_: object) -> None:
        for writer in self._writers:
            writer.close()
        await self._server.stop()

    async def silent(self) -> asyncio.StreamReader:
        """A connection that says nothing."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._writers.append(writer)
        return reader

    async def says(self, request: str) -> tuple[bytes, asyncio.StreamReader]:
        """The first line of the answer, if there is one, and what may follow."""
        reader = await self.silent()
        try:
            self._writers[-1].write(request.encode())
            return await asyncio.wait_for(reader.readline(), 10), reader
        except ConnectionError:
            return b"", reader


WELL = b"HTTP/1.1 200 OK\r\n"
ASKS = f"GET {HEALTH} HTTP/1.1\r\nHost: weft\r\n\r\n"


def reports() -> str:
    lines = (
        f"POST {report_path(LLAMA.namespace, LLAMA.job)} HTTP/1.1",
        "Host: weft",
        f"Authorization: Bearer {TOKENS['right']}",
        "Content-Type: application/json",
        f"Content-Length: {len(STEP)}",
        "",
        STEP.decode(),
    )
    return "\r\n".join(lines)


def test_one_peer_cannot_take_every_connection(socket_enabled: None) -> None:
    async def crowd() -> list[bytes]:
        async with Door(connections_per_peer=2) as door:
            return [(await door.says(ASKS))[0] for _ in range(3)]

    assert asyncio.run(crowd()) == [WELL, WELL, b""]


def test_who_does_not_say_who_it_is_makes_room(socket_enabled: None) -> None:
    async def crowd() -> tuple[bytes, bytes]:
        async with Door(connections=3) as door:
            first, *_ = [await door.silent() for _ in range(3)]
            line, _ = await door.says(ASKS)
            return line, await asyncio.wait_for(_all_of(first), 10)

    assert asyncio.run(crowd()) == (WELL, b"")


def test_a_tenant_keeps_no_more_than_its_share_open(socket_enabled: None) -> None:
    async def crowd() -> tuple[list[bytes], list[bool]]:
        async with Door(connections_per_namespace=2) as door:
            said = [await door.says(reports()) for _ in range(4)]
            heads = [
                await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10) for _, reader in said
            ]
            return [line for line, _ in said], [b"Connection: close" in text for text in heads]

    lines, closed = asyncio.run(crowd())
    assert lines == [WELL] * 4
    assert closed == [False, False, True, True]


def test_connections_that_were_known_do_not_make_room(socket_enabled: None) -> None:
    async def crowd() -> list[bytes]:
        async with Door(connections=2) as door:
            return [(await door.says(reports()))[0] for _ in range(3)]

    assert asyncio.run(crowd()) == [WELL, WELL, b""]


async def _all_of(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionError:
        return b""
