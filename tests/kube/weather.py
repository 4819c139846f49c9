"""Bad weather between a client and a real API server: a proxy that answers wrongly on purpose.

It speaks plain HTTP to the client and passes its token on, so that a kubeconfig with the proxy's
address is all that changes. Chance comes from a seed; the order of calls that run at the same time
does not, so two runs of one seed are alike, not equal.
"""

import asyncio
import json
import random
import socket
import ssl
import struct
import threading
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Self

import aiohttp
from aiohttp import web
from yarl import URL

from tests.waiting import HANG_SECONDS
from weft.kube.client.pool import Pool


class Fault(StrEnum):
    """What may befall a call."""

    CONFLICT = "conflict"  # 409, not passed on; writes only
    GONE = "gone"  # 410, as status or inside the watch; lists and watches only
    BUSY = "busy"  # 429 with Retry-After
    BROKEN = "broken"  # 500
    RESET_BEFORE = "reset_before"  # the connection breaks and nothing was done
    RESET_AFTER = "reset_after"  # the connection breaks, and it was done
    DELAY = "delay"  # late by up to `delay_seconds`


@dataclass(frozen=True, slots=True)
class Climate:
    """How many calls go wrong and in which ways, and how late and short-lived watches are."""

    rate: float = 0.0  # the share of calls that go wrong, each possible way as often as the others
    faults: tuple[Fault, ...] = tuple(Fault)
    delay_seconds: float = 1.0
    retry_after_seconds: int = 1
    event_delay_seconds: float = 0.0  # each event of a watch is late by up to this, in order
    cut: float = 0.0  # how likely a watch breaks at an event


CALM: Final = Climate()

_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "content-length"}
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "replace", "DELETE": "delete"}
_READS = {"get", "list", "watch"}


class Weather:
    """The proxy, in a thread of its own; `with Weather(...) as weather:`."""

    def __init__(
        self,
        upstream: str,
        *,
        ca: Path | None = None,
        climate: Climate = CALM,
        seed: int = 0,
        spared: tuple[str, ...] = (),
    ) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.climate = climate
        self._upstream = upstream.rstrip("/")
        self._tls = ssl.create_default_context(cafile=ca) if ca else None
        self._random = random.Random(seed)
        self._spared = spared
        self._port = 0
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._loop = self._runner.get_loop()
        self._ready = threading.Event()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="weather", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(HANG_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(HANG_SECONDS)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def calm(self) -> None:
        """No more faults from now on, and no more delays."""
        self.climate = CALM

    def kubeconfig(self, folder: Path, token: str, *, namespace: str = "default") -> Path:
        """A file that leads through the weather as the owner of this token."""
        body = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "weather", "cluster": {"server": self.url}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [
                {
                    "name": "weather",
                    "context": {"cluster": "weather", "user": "user", "namespace": namespace},
                }
            ],
            "current-context": "weather",
        }
        owner = zlib.crc32(f"{token} {namespace}".encode())
        path = folder / f"weather-{self._port}-{owner:08x}.json"
        path.write_text(json.dumps(body))
        return path

    def faults(self) -> int:
        """How many calls went wrong."""
        return sum(count for (_, outcome), count in self.calls.items() if outcome in set(Fault))

    def _run(self) -> None:
        with self._runner as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = web.Server(self._handle, handler_cancellation=True, access_log=None)
        runner = web.ServerRunner(server, shutdown_timeout=0.1)
        self._session = aiohttp.ClientSession(
            connector=Pool(ssl=self._tls or True),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        async with self._session:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._port = runner.addresses[0][1]
            self._ready.set()
            await self._over.wait()
            await runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        verb = _verb(request)
        fault = self._draw(verb, request.path)
        if fault is None:
            return await self._forward(request, verb)
        self.calls[verb, fault] += 1
        match fault:
            case Fault.DELAY:
                await asyncio.sleep(self._random.uniform(0, self.climate.delay_seconds))
                return await self._forward(request, verb, counted=True)
            case Fault.RESET_AFTER if verb != "watch":
                await self._forward(request, verb, counted=True)
                return _reset(request)
            case Fault.RESET_AFTER | Fault.RESET_BEFORE:
                return _reset(request)
            case Fault.GONE if verb == "watch" and self._random.random() < 0.5:
                return web.Response(
                    body=json.dumps({"type": "ERROR", "object": _status(fault)}) + "\n"
                )
        return _answer(fault, self.climate.retry_after_seconds)

    def _draw(self, verb: str, path: str) -> Fault | None:
        if any(part in path for part in self._spared):
            return None
        if self._random.random() >= self.climate.rate:
            return None
        ways = [fault for fault in self.climate.faults if _befalls(fault, verb)]
        return self._random.choice(ways) if ways else None

    async def _forward(
        self, request: web.BaseRequest, verb: str, *, counted: bool = False
    ) -> web.StreamResponse:
        try:
            async with self._session.request(
                request.method,
                URL(self._upstream + request.raw_path, encoded=True),
                headers=_passed_on(request.headers),
                data=await request.content.read() or None,
                allow_redirects=False,
            ) as answer:
                if not counted:
                    self.calls[verb, str(answer.status)] += 1
                if verb == "watch" and answer.ok:
                    return await self._forward_watch(request, answer)
                return web.Response(
                    status=answer.status,
                    headers=_passed_on(answer.headers),
                    body=await answer.read(),
                )
        except aiohttp.ClientError:  # the API server is away: so are we
            return _reset(request)

    async def _forward_watch(
        self, request: web.BaseRequest, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
        await response.prepare(request)
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        reading = asyncio.create_task(self._read_events(answer, queue))
        try:
            while True:
                due, lines = await queue.get()
                if not lines:
                    return response
                await self._until(due)
                if self._random.random() < self.climate.cut:
                    self.calls["watch", "cut"] += 1
                    return _reset(request)
                await response.write(lines)
        except ConnectionError:  # the client went away
            return response
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)

    async def _read_events(
        self, answer: aiohttp.ClientResponse, queue: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        """Events with the time when each may arrive; an empty one at the end."""
        rest = b""
        try:
            async for chunk in answer.content.iter_any():
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                for event in whole.split(b"\n") if newline else ():
                    late = self._random.uniform(0, self.climate.event_delay_seconds)
                    queue.put_nowait((self._loop.time() + late, event + b"\n"))
                    self.calls["watch", "event"] += 1
        except aiohttp.ClientError:
            pass
        finally:
            queue.put_nowait((0.0, b""))

    async def _until(self, due: float) -> None:
        """Wait for the time, or for calm."""
        while self.climate.event_delay_seconds and (left := due - self._loop.time()) > 0:
            await asyncio.sleep(min(left, 0.1))


def _verb(request: web.BaseRequest) -> str:
    if request.method != "GET":
        return _VERBS.get(request.method, request.method)
    if request.query.get("watch") in ("true", "1"):
        return "watch"
    return "list" if "limit" in request.query or "continue" in request.query else "get"


def _befalls(fault: Fault, verb: str) -> bool:
    if fault is Fault.CONFLICT:
        return verb not in _READS
    if fault is Fault.GONE:
        return verb in ("list", "watch")
    return True


def _passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}


def _answer(fault: Fault, retry_after_seconds: int) -> web.Response:
    status = _status(fault)
    headers = {"Retry-After": str(retry_after_seconds)} if fault is Fault.BUSY else {}
    return web.json_response(status, status=status["code"], headers=headers)


def _status(fault: Fault) -> dict[str, Any]:
    code, reason = {
        Fault.CONFLICT: (409, "Conflict"),
        Fault.GONE: (410, "Expired"),
        Fault.BUSY: (429, "TooManyRequests"),
        Fault.BROKEN: (500, "InternalError"),
    }[fault]
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"bad weather: {fault}",
        "reason": reason,
        "code": code,
    }


def _reset(request: web.BaseRequest) -> web.Response:
    """Break the connection so that the client sees it at once."""
    transport = request.transport
    if transport is not None:
        link = transport.get_extra_info("socket")
        link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return web.Response()
