"""Serving an app on a Unix socket, in the event loop of whoever owns the world.

uvicorn speaks HTTP. It does not tell an application who is at the other end of a Unix socket, so
the protocol here asks the kernel when a connection is made. Signals are left to the owner.
"""

import asyncio
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.api.peer import peer_of

MOST_CONNECTIONS: Final = 64  # of one user
AT_ONCE: Final = 64  # are accepted before any of them is looked at
AT_THE_DOOR: Final = 2048  # wait in the kernel until they are
REQUEST_SECONDS: Final = 10.0
IDLE_SECONDS: Final = 30
FAREWELL_SECONDS: Final = 2


async def serve_on(app: FastAPI, listening: socket.socket, stop: asyncio.Event) -> None:
    """Answer on that socket until `stop` is set and what is under way has been answered."""
    config = uvicorn.Config(
        app,
        http=PeerProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        backlog=AT_ONCE,
        timeout_graceful_shutdown=FAREWELL_SECONDS,
    )
    server = _Server(config)

    async def end() -> None:
        await stop.wait()
        app.state.streams.stop()
        server.should_exit = True

    ending = asyncio.create_task(end())
    try:
        await server.serve(sockets=[listening])
    finally:
        ending.cancel()


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """One number bounds both who is accepted at once and who may wait; the second is set anew.

        A full queue in the kernel refuses whoever comes, and so lets a crowd keep others out.
        """
        await super().startup(sockets)
        for listening in sockets or ():
            listening.listen(AT_THE_DOOR)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PeerProtocol(H11Protocol):
    """A connection whose requests carry, in their `state`, who is at its other end."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.uid = -1
        self._overdue: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        peer = peer_of(transport.get_extra_info("socket"))
        self.uid = -1 if peer is None else peer.uid
        same = sum(getattr(other, "uid", None) == self.uid for other in self.connections)
        self.app_state = {**self.app_state, "peer": peer, "crowded": same > MOST_CONNECTIONS}
        if same > self._most():
            transport.abort()
        else:
            self._expect_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._answering:
            self._forget_request()
        else:
            self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_request()
        super().connection_lost(exc)

    def _most(self) -> int:
        """Up to so many of one user are answered, if only with a refusal; beyond, none is kept.

        A process without handles can neither be asked by anybody nor look after what it started. So
        while all together have a quarter of its handles, each user is kept to a fair part of
        another quarter, and three quarters are never passed.
        """
        quarter, all_together = _handles() // 4, len(self.connections)
        if all_together <= quarter:
            return 2 * MOST_CONNECTIONS
        if all_together > 3 * quarter:
            return 0
        users = {getattr(other, "uid", -1) for other in self.connections}
        return max(quarter // len(users), 1)

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _expect_request(self) -> None:
        """Whoever begins a request comes to the end of its head within a time, or is let go."""
        if self._overdue is None:
            self._overdue = self.loop.call_later(REQUEST_SECONDS, self._let_go)

    def _forget_request(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None

    def _let_go(self) -> None:
        self._overdue = None
        if not self._answering:
            self.transport.close()


def _handles() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
