"""The agent's door: a stream socket on which workers, their stores and drivers speak.

Nothing is taken from a connection before its first line has proved to know the job's token. A line
of another job, of another incarnation or out of order is dropped and counted; a line that is no
message closes the connection. On one machine the socket is a Unix socket in a folder that only the
owner may enter; between machines it is TCP inside the job's own network.
"""

import asyncio
import hmac
import logging
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol

from weft.agent.messages import (
    MOST_LINE_BYTES,
    Answer,
    Ask,
    Envelope,
    Hello,
    Message,
    decode,
    encode,
)
from weft.agent.store import ControlStore
from weft.model.errors import ProtocolError, WorldError

log = logging.getLogger(__name__)

HELLO_SECONDS: Final = 10.0
WORKER, STORE, DRIVER = ROLES = ("worker", "store", "driver")


class Listener(Protocol):
    """Who hears what came in at the door."""

    def worker_said(self, worker: int, message: Message) -> None: ...

    def worker_silent(self, worker: int) -> None: ...

    def driver_asked(self, message: Message) -> Answer: ...


class Server:
    """The door of one job's agent."""

    def __init__(
        self, job: str, incarnation: int, token: str, store: ControlStore, listener: Listener
    ) -> None:
        self.job, self.incarnation, self.token = job, incarnation, token
        self.store, self.listener = store, listener
        self.dropped: Counter[str] = Counter()
        self._workers: dict[int, _Line] = {}
        self._servers: list[asyncio.Server] = []

    async def open(self, path: Path) -> None:
        """Listen on a Unix socket: the folder's mode, then the token, decide who may enter."""
        try:
            server = await asyncio.start_unix_server(self._met, path, limit=MOST_LINE_BYTES)
        except OSError as error:
            hint = "a socket's path has at most 107 bytes: choose a shorter folder"
            raise WorldError(f"cannot listen at {path}: {error}", hint=hint) from error
        self._servers.append(server)

    async def open_tcp(self, host: str, port: int) -> int:
        """Listen for workers of other machines; gives the port."""
        server = await asyncio.start_server(self._met, host, port, limit=MOST_LINE_BYTES)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for line in list(self._workers.values()):
            line.close()

    def send(self, worker: int, message: Message) -> None:
        """Say it, if the worker is there to hear; if it is not, its end will be noticed."""
        line = self._workers.get(worker)
        if line is not None:
            line.say(message)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = _Line(self.job, self.incarnation, reader, writer, self._drop)
        try:
            hello = await asyncio.wait_for(line.hear(), HELLO_SECONDS)
            if not isinstance(hello, Hello) or hello.role not in ROLES:
                self._drop("hello")
            elif self._admitted(hello):
                await self._serve(line, hello)
        except (ProtocolError, TimeoutError, ValueError) as error:
            self._drop(type(error).__name__)
            log.warning("a connection was closed: %s", error)
        finally:
            line.close()

    def _admitted(self, hello: Hello) -> bool:
        if hmac.compare_digest(hello.token.encode(), self.token.encode()):
            return True
        self._drop("token")
        return False

    async def _serve(self, line: "_Line", hello: Hello) -> None:
        if hello.role == WORKER:
            await self._serve_worker(line, hello)
        elif hello.role == STORE:
            await self._serve_store(line)
        else:
            await self._serve_driver(line)

    async def _serve_worker(self, line: "_Line", hello: Hello) -> None:
        self._workers[hello.worker] = line
        self.listener.worker_said(hello.worker, hello)
        try:
            while (message := await line.hear()) is not None:
                self.listener.worker_said(hello.worker, message)
        finally:
            if self._workers.get(hello.worker) is line:
                del self._workers[hello.worker]
                self.listener.worker_silent(hello.worker)

    async def _serve_store(self, line: "_Line") -> None:
        while isinstance(ask := await line.hear(), Ask):
            line.say(await self.store.answer(ask))

    async def _serve_driver(self, line: "_Line") -> None:
        while (message := await line.hear()) is not None:
            line.say(self.listener.driver_asked(message))

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1


class _Line:
    """One connection: messages in their order, in both directions."""

    def __init__(
        self,
        job: str,
        incarnation: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        drop: Callable[[str], None],
    ) -> None:
        self.job, self.incarnation = job, incarnation
        self._reader, self._writer, self._drop = reader, writer, drop
        self._heard = self._said = 0

    async def hear(self) -> Message | None:
        """The next message that counts; None when the other side has gone, however it went."""
        while raw := await self._line():
            envelope = decode(raw, strict=True)
            why = self._stale(envelope)
            if not why:
                self._heard = envelope.seq
                return envelope.message
            self._drop(why)
        return None

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except ConnectionError:
            return b""

    def say(self, message: Message) -> None:
        if self._writer.is_closing():
            return
        self._said += 1
        self._writer.write(encode(Envelope(self.job, self.incarnation, self._said, message)))

    def close(self) -> None:
        self._writer.close()

    def _stale(self, envelope: Envelope) -> str:
        if envelope.job != self.job:
            return "job"
        if envelope.incarnation != self.incarnation:
            return "incarnation"
        return "" if envelope.seq > self._heard else "seq"
