"""The agent's door: a stream socket on which workers, their stores, drivers and followers speak.

Nothing is taken from a connection before its first line has proved to know the job's token. A line
of another job, of another incarnation or out of order is dropped and counted; a line that is no
message closes the connection. On one machine the socket is a Unix socket in a folder that only the
owner may enter; between machines it is TCP inside the job's own network.
"""

import asyncio
import hmac
import logging
from collections import Counter
from contextlib import suppress
from pathlib import Path
from socket import socket
from typing import Final, Protocol

from weft.agent.messages import MOST_LINE_BYTES, Answer, Ask, Hello, Message, Over
from weft.agent.outcome import INFRASTRUCTURE
from weft.agent.wire.control_store import ControlStore
from weft.agent.wire.line import Line
from weft.model.errors import ProtocolError, WorldError

log = logging.getLogger(__name__)

HELLO_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 2.0
WORKER, STORE, DRIVER, FOLLOWER = ROLES = (
    "worker",
    "store",
    "driver",
    "outpost",  # said by every version, so it stays though it is called a follower elsewhere
)


class Listener(Protocol):
    """Who hears what came in."""

    def worker_said(self, worker: int, message: Message) -> None: ...

    def worker_silent(self, worker: int) -> None: ...

    def driver_asked(self, message: Message) -> Answer: ...

    def follower_said(self, seat: int, message: Message) -> None: ...

    def follower_silent(self, seat: int) -> None: ...


class Server:
    """The door of one job's agent."""

    def __init__(
        self, job: str, incarnation: int, token: str, store: ControlStore, listener: Listener
    ) -> None:
        self.job, self.incarnation, self.token = job, incarnation, token
        self.store, self.listener = store, listener
        self.dropped: Counter[str] = Counter()
        self._workers: dict[int, Line] = {}
        self._stores: dict[int, set[Line]] = {}
        self._followers: dict[int, Line] = {}
        self._servers: list[asyncio.Server] = []
        self._leaves = False

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

    async def open_on(self, listening: socket) -> None:
        """Listen where others have been told to come to."""
        server = await asyncio.start_server(self._met, sock=listening, limit=MOST_LINE_BYTES)
        self._servers.append(server)

    def leave(self) -> None:
        """Another head takes over: whoever is here is not sent away, but finds the other."""
        self._leaves = True

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        followers, self._followers = self._followers, {}
        with suppress(TimeoutError):
            async with asyncio.timeout(GOODBYE_SECONDS):
                for line in followers.values():
                    await line.said_all()
        for worker in list(self._workers):
            self.cut(worker)

    def send(self, worker: int, message: Message) -> None:
        """Say it, if the worker is there to hear; if it is not, its end will be noticed."""
        line = self._workers.get(worker)
        if line is not None:
            line.say(message)

    def hears(self, worker: int) -> bool:
        """Whether more may come from that worker."""
        return worker in self._workers

    def order(self, seat: int, message: Message) -> None:
        """Say it to a follower, if it is there."""
        line = self._followers.get(seat)
        if line is not None:
            line.say(message)

    def cut(self, worker: int, *, sent_away: bool = True) -> None:
        """Hear nothing more of a worker, nor its store; one that is sent away ends itself."""
        if worker in self._workers and sent_away and not self._leaves:
            self._workers[worker].say(Over(INFRASTRUCTURE, "the others go on without it"))
        for line in (self._workers.pop(worker, None), *self._stores.pop(worker, ())):
            if line is not None:
                line.close()

    def dismiss(self, seat: int) -> None:
        """Hear nothing more of a follower; what was said to it last still reaches it."""
        line = self._followers.pop(seat, None)
        if line is not None:
            line.close()

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = Line(self.job, self.incarnation, reader, writer, self._drop)
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

    async def _serve(self, line: Line, hello: Hello) -> None:
        if hello.role == WORKER:
            await self._serve_worker(line, hello)
        elif hello.role == STORE:
            await self._serve_store(line, hello)
        elif hello.role == FOLLOWER:
            await self._serve_follower(line, hello)
        else:
            await self._serve_driver(line)

    async def _serve_worker(self, line: Line, hello: Hello) -> None:
        self._workers[hello.worker] = line
        self.listener.worker_said(hello.worker, hello)
        try:
            while (message := await line.hear()) is not None:
                self.listener.worker_said(hello.worker, message)
        finally:
            if self._workers.get(hello.worker) is line:
                del self._workers[hello.worker]
                self.listener.worker_silent(hello.worker)

    async def _serve_store(self, line: Line, hello: Hello) -> None:
        lines = self._stores.setdefault(hello.worker, set())
        lines.add(line)
        try:
            while isinstance(ask := await line.hear(), Ask):
                line.say(await self.store.answer(ask))
        finally:
            lines.discard(line)

    async def _serve_follower(self, line: Line, hello: Hello) -> None:
        seat = hello.worker
        if seat in self._followers:
            self.dismiss(seat)
            self.listener.follower_silent(seat)
        self._followers[seat] = line
        try:
            while (message := await line.hear()) is not None:
                self.listener.follower_said(seat, message)
        finally:
            if self._followers.get(seat) is line:
                del self._followers[seat]
                self.listener.follower_silent(seat)

    async def _serve_driver(self, line: Line) -> None:
        while (message := await line.hear()) is not None:
            line.say(self.listener.driver_asked(message))

    def _drop(self, why: str) -> None:
        self.dropped[why] += 1
