"""The socket that an application is served on, guarded against those who only hold it open.

Each connection has to bring a whole request in time; there are so many at once and so many per
peer. A tenant keeps so many open and no more, and where all are taken, whoever has not said yet who
it is makes room: nobody can shut the others out. Certificates are read again when their files
change. HTTP that cannot be parsed is answered without repeating any of it.
"""

import asyncio
import ssl
from collections import Counter
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from weft.kube.logs import Log
from weft.kube.reports.answers import refused
from weft.kube.reports.limits import Limits
from weft.kube.reports.refusal import Refusal
from weft.model.errors import WorldError

# Host and port, or the path of a Unix socket.
Address = tuple[str, int] | Path

LINGER_SECONDS: Final = 2.0
HANDSHAKE_SECONDS: Final = 5.0
STOP_SECONDS: Final = 5.0
CERTIFICATE_CHECK_SECONDS: Final = 60.0
SERVER_FAULT: Final = 500

log = Log("reports")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """A certificate and its key, as files that somebody else renews."""

    certificate: Path
    key: Path


class Listener:
    """Serves one application at one address."""

    def __init__(self, app: web.Application, limits: Limits) -> None:
        self._limits = limits
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=STOP_SECONDS)
        self._doorway = _Doorway(limits)
        self._server: asyncio.Server | None = None
        self._renewal: asyncio.Task[None] | None = None

    @property
    def port(self) -> int:
        """The port it got, where it was asked for any."""
        assert self._server is not None
        return int(self._server.sockets[0].getsockname()[1])

    async def start(self, address: Address, tls: TlsFiles | None = None) -> None:
        await self._runner.setup()
        context = _context(tls) if tls else None
        try:
            self._server = await self._listen(address, context)
        except OSError as error:
            raise WorldError(
                f"cannot listen at {address}: {error.strerror}",
                hint="Choose another port, or end the program that has this one.",
            ) from error
        if tls and context:
            self._renewal = asyncio.create_task(_renew(context, tls))

    async def stop(self) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
        if self._server is not None:
            self._server.close()
        await self._runner.cleanup()

    def _listen(self, address: Address, tls: ssl.SSLContext | None) -> Awaitable[asyncio.Server]:
        loop = asyncio.get_running_loop()
        handshake = HANDSHAKE_SECONDS if tls else None
        if isinstance(address, Path):
            return loop.create_unix_server(
                self._connection, str(address), ssl=tls, ssl_handshake_timeout=handshake
            )
        host, port = address
        return loop.create_server(
            self._connection, host, port, ssl=tls, ssl_handshake_timeout=handshake
        )

    def _connection(self) -> "Connection":
        assert self._runner.server is not None
        return Connection(
            self._runner.server,
            doorway=self._doorway,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=self._limits.idle_seconds,
            lingering_time=LINGER_SECONDS,
            access_log=None,
            auto_decompress=False,
        )


class _Doorway:
    """Who is inside: by peer, by tenant, and strangers in the order in which they came."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._peers: Counter[str] = Counter()
        self._tenants: Counter[str] = Counter()
        self._strangers: dict[Connection, None] = {}

    def lets_in(self, connection: "Connection", peer: str) -> bool:
        if peer and self._peers[peer] >= self._limits.connections_per_peer:
            return False
        if self._peers.total() >= self._limits.connections and not self._made_room():
            return False
        self._peers[peer] += 1
        self._strangers[connection] = None
        return True

    def knows(self, connection: "Connection", tenant: str) -> bool:
        """Count it as that tenant's; False where the tenant has enough open ones."""
        self._strangers.pop(connection, None)
        if self._tenants[tenant] >= self._limits.connections_per_namespace:
            return False
        self._tenants[tenant] += 1
        return True

    def leaves(self, connection: "Connection", peer: str, tenant: str | None) -> None:
        self._strangers.pop(connection, None)
        _one_less(self._peers, peer)
        if tenant is not None:
            _one_less(self._tenants, tenant)

    def _made_room(self) -> bool:
        """Whoever came first and has not said who it is goes."""
        first = next(iter(self._strangers), None)
        if first is None:
            return False
        first.drop()
        return True


def _one_less(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class Connection(web.RequestHandler):
    """One connection; closed at once where there are too many."""

    __slots__ = ("_doorway", "_entered", "_peer", "_tenant", "crowded")

    def __init__(self, server: web.Server, *, doorway: _Doorway, **settings: Any) -> None:
        super().__init__(server, **settings)
        self._doorway = doorway
        self._entered = False
        self._peer: str | None = None
        self._tenant: str | None = None
        self.crowded = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        name = transport.get_extra_info("peername")
        peer = str(name[0]) if isinstance(name, tuple) else ""
        if not self._doorway.lets_in(self, peer):
            transport.close()
            return
        self._entered, self._peer = True, peer
        super().connection_made(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._leave()
        if self._entered:
            super().connection_lost(exc)

    def is_of(self, tenant: str) -> None:
        """Its owner is known now; `crowded` tells whether it has to end with this request."""
        if self._tenant is None and self._doorway.knows(self, tenant):
            self._tenant = tenant
        self.crowded = self._tenant is None

    def drop(self) -> None:
        """At once: it does not count any more."""
        self._leave()
        if isinstance(self.transport, asyncio.Transport):
            self.transport.abort()

    def _leave(self) -> None:
        if self._peer is not None:
            self._doorway.leaves(self, self._peer, self._tenant)
        self._peer = self._tenant = None

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = SERVER_FAULT,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("part of an answer is sent already")
        if status >= SERVER_FAULT:
            log.error("request_failed", trace=exc)
            answer = refused(Refusal(status, "the operator failed", hint="See its log."))
        else:
            answer = refused(Refusal(status, "this is not HTTP", hint="Send HTTP/1.1."))
        answer.force_close()
        return answer


def _context(tls: TlsFiles) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(tls.certificate, tls.key)
    except (OSError, ssl.SSLError) as error:
        raise WorldError(
            f"cannot use {tls.certificate} and {tls.key}: {error}",
            hint="Give a certificate and its key in PEM, readable by the operator.",
        ) from error
    return context


async def _renew(context: ssl.SSLContext, tls: TlsFiles) -> None:
    """New connections get the certificate that the files hold now."""
    read = _changed_at(tls)
    while True:
        await asyncio.sleep(CERTIFICATE_CHECK_SECONDS)
        now = _changed_at(tls)
        if now == read:
            continue
        try:
            context.load_cert_chain(tls.certificate, tls.key)
        except (OSError, ssl.SSLError) as error:
            log.warning("certificate_not_read", error=error)
            continue
        read = now
        log.info("certificate_renewed")


def _changed_at(tls: TlsFiles) -> tuple[int, ...]:
    try:
        return tuple(file.stat().st_mtime_ns for file in (tls.certificate, tls.key))
    except OSError:
        return ()
