"""One connection pool to one API server: JSON in, JSON out, and every refusal as an error.

Nothing is repeated here: only the caller knows whether a call may be made twice. Each call ends
within its time-out, five seconds unless told otherwise, and a write asks `write_gate` at the last
moment before it is sent. So a leader that may no longer write has nothing under way five seconds
later, which is before anybody else can lead (see `lease`).
"""

import asyncio
import socket
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from enum import StrEnum
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from weft.kube.client.credentials import Credentials, load_credentials
from weft.kube.client.errors import ApiError, Unavailable, refusal, refusal_of
from weft.kube.client.pool import Pool
from weft.kube.names import FIELD_MANAGER, USER_AGENT

POOL: Final = 64
TIMEOUT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 150.0  # a watch that is alive has a bookmark about once a minute
KEPT_SECONDS: Final = 60.0  # less than the 90 s after which an API server closes a connection

VERBS: Final = {
    "GET": "get",
    "POST": "create",
    "PATCH": "patch",
    "PUT": "replace",
    "DELETE": "delete",
}
# Questions that are asked by POST: they change nothing, so a replica that does not lead may ask.
REVIEWS: Final = ("/apis/authentication.k8s.io/", "/apis/authorization.k8s.io/")


class PatchKind(StrEnum):
    """How a patch is meant: merged field by field, lists by the keys of their items as well (only
    objects of Kubernetes' own have such), or server-side apply."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


MERGE: Final = PatchKind.MERGE
APPLY: Final = PatchKind.APPLY


class Api:
    """Calls to one API server, as one user; belongs to the event loop that connected it."""

    def __init__(self, credentials: Credentials, *, user_agent: str = USER_AGENT) -> None:
        self.namespace = credentials.namespace
        self.context = credentials.context
        self.write_gate: Callable[[], None] | None = None
        self.calls: Counter[tuple[str, str]] = Counter()
        self.took: Callable[[str, float], None] | None = None  # told of each answer: verb, seconds
        self._credentials = credentials
        self._free = asyncio.Semaphore(POOL)
        self._session = _session(user_agent)

    @classmethod
    async def connect(
        cls,
        *,
        kubeconfig: str | None = None,
        context: str | None = None,
        user_agent: str = USER_AGENT,
    ) -> Self:
        """By this kubeconfig, else $KUBECONFIG, else ~/.kube/config, else the pod's own account."""
        return cls(await load_credentials(kubeconfig, context), user_agent=user_agent)

    async def close(self) -> None:
        """Close the connections; a call under way fails."""
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def get(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> dict[str, Any]:
        """One object, or a list of them; a long list may take its time."""
        return _object(await self.raw("GET", path, params=params, timeout_seconds=timeout_seconds))

    async def create(self, path: str, body: Mapping[str, Any] | bytes) -> dict[str, Any]:
        """A new object in the collection at `path`."""
        return _object(await self.raw("POST", path, body=_bytes(body)))

    async def patch(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        *,
        kind: PatchKind = MERGE,
        params: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Change some fields; a `resourceVersion` in the body makes it a precondition."""
        if kind is APPLY:
            params = {"fieldManager": FIELD_MANAGER, **(params or {})}
        return _object(
            await self.raw("PATCH", path, body=_bytes(body), content_type=kind, params=params)
        )

    async def delete(
        self,
        path: str,
        *,
        uid: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
    ) -> dict[str, Any] | None:
        """Ask for the end of one object, and of no other that took its name since.

        The object, as long as it is ending. Of one that somebody else ended meanwhile, the server
        answers a copy without a version, which says nothing of what exists.
        """
        wishes = {
            "preconditions": _present(uid=uid) or None,
            "gracePeriodSeconds": grace_seconds,
            "propagationPolicy": propagation,
        }
        body = {"kind": "DeleteOptions", "apiVersion": "v1", **_present(**wishes)}
        answer = _object(await self.raw("DELETE", path, body=orjson.dumps(body)))
        return answer if "resourceVersion" in answer.get("metadata", {}) else None

    async def raw(
        self,
        method: str,
        path: str,
        *,
        body: bytes = b"",
        content_type: str = "application/json",
        params: Mapping[str, str] | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> bytes:
        """One call; the body of its answer, or the error that the answer means."""
        verb = VERBS[method]
        writes = method != "GET" and not path.startswith(REVIEWS)
        if writes:  # the server gives up as well: it must not do it later
            params = {"timeout": f"{timeout_seconds:g}s", **(params or {})}
        try:
            async with self._free:
                headers = await self._headers(content_type if body else "")
                if writes and self.write_gate is not None:
                    self.write_gate()
                began = time.monotonic()
                answer = await self._call(
                    method,
                    self._url(path, params),
                    body=body,
                    headers=headers,
                    writes=writes,
                    timeout_seconds=timeout_seconds,
                )
                if self.took is not None:
                    self.took(verb, time.monotonic() - began)
        except ApiError as error:
            self._count(verb, error)
            raise
        self.calls[verb, "ok"] += 1
        return answer

    async def watch(
        self, path: str, params: Mapping[str, str]
    ) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """Changes as they come: ADDED, MODIFIED, DELETED, BOOKMARK, each with its object.

        Ends when the server ends it; raises `Gone` where the history no longer reaches back so far.
        """
        rest: list[bytes] = []
        async with aclosing(self.stream(path, {"watch": "true", **params}, verb="watch")) as chunks:
            async for chunk in chunks:
                lines = chunk.split(b"\n")
                rest.append(lines[0])
                if len(lines) == 1:
                    continue
                lines[0] = b"".join(rest)
                rest = [lines.pop()]
                for line in lines:
                    event = _object(line)
                    if event["type"] == "ERROR":
                        raise self._told_in_watch(path, event["object"])
                    yield event["type"], event["object"]

    async def stream(
        self,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        idle_seconds: float | None = IDLE_SECONDS,
        verb: str = "stream",
    ) -> AsyncGenerator[bytes, None]:
        """The pieces of an answer without a set end, such as a followed log, as they arrive."""
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=TIMEOUT_SECONDS, sock_read=idle_seconds
        )
        try:
            headers = await self._headers("")
            async with self._request("GET", self._url(path, params), headers, timeout) as response:
                if not response.ok:
                    raise await self._refused(response, writes=False)
                self.calls[verb, "ok"] += 1
                _keep_alive(response)
                async for chunk in response.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            broken = Unavailable(f"GET {path}: {error or type(error).__name__}")
            self._count(verb, broken)
            raise broken from error
        except ApiError as error:
            self._count(verb, error)
            raise

    async def _call(
        self,
        method: str,
        url: URL,
        *,
        body: bytes,
        headers: Mapping[str, str],
        writes: bool,
        timeout_seconds: float,
    ) -> bytes:
        timeout = aiohttp.ClientTimeout(total=timeout_seconds)
        try:
            async with self._request(method, url, headers, timeout, body) as response:
                if not response.ok:
                    raise await self._refused(response, writes=writes)
                return await response.read()
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise Unavailable(f"{method} {url.path}: {error}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            what = str(error) or f"no answer in {timeout_seconds:g} s"
            raise Unavailable(f"{method} {url.path}: {what}", ambiguous=writes) from error

    def _request(
        self,
        method: str,
        url: URL,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,
        body: bytes = b"",
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        known = self._credentials
        return self._session.request(
            method,
            url,
            data=body or None,
            headers=headers,
            timeout=timeout,
            ssl=known.tls if known.tls is not None else True,
            server_hostname=known.server_name,
            proxy=known.proxy,
            allow_redirects=False,
        )

    async def _headers(self, content_type: str) -> dict[str, str]:
        await self._credentials.refresh()
        headers = {}
        if self._credentials.authorization:
            headers["Authorization"] = self._credentials.authorization
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def _url(self, path: str, params: Mapping[str, str] | None) -> URL:
        query = f"?{urlencode(params)}" if params else ""
        return URL(f"{self._credentials.url}{path}{query}", encoded=True)

    async def _refused(self, response: aiohttp.ClientResponse, *, writes: bool) -> ApiError:
        error = refusal(
            response.status,
            await response.read(),
            retry_after=response.headers.get("Retry-After", ""),
            wrote=writes,
            what=f"{response.method} {response.url.path}",
        )
        if response.status == HTTPStatus.UNAUTHORIZED:
            self._credentials.distrust()
        return error

    def _told_in_watch(self, path: str, status: Mapping[str, Any]) -> ApiError:
        code = int(status.get("code") or 500)
        error = refusal_of(status, status=code, wrote=False, what=f"watch {path}")
        self._count("watch", error)
        return error

    def _count(self, verb: str, error: ApiError) -> None:
        self.calls[verb, type(error).__name__] += 1


def _session(user_agent: str) -> aiohttp.ClientSession:
    session = aiohttp.ClientSession(
        connector=Pool(keepalive_timeout=KEPT_SECONDS),
        # An API server compresses large lists, which costs it more than a cluster's network saves.
        headers={
            "User-Agent": user_agent,
            "Accept": "application/json, */*",
            "Accept-Encoding": "identity",
        },
        cookie_jar=aiohttp.DummyCookieJar(),
        read_bufsize=1 << 18,
    )
    # It would repeat a PUT or DELETE whose connection broke, and so hide that it may be done.
    session._retry_connection = False
    return session


def _keep_alive(response: aiohttp.ClientResponse) -> None:
    """A watch may be silent for long: let the kernel find out within 30 s that nobody is there."""
    transport = response.connection.transport if response.connection else None
    link = transport.get_extra_info("socket") if transport else None
    if link is None or not hasattr(socket, "TCP_KEEPIDLE"):
        return
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)


def _object(answer: bytes) -> dict[str, Any]:
    try:
        told: dict[str, Any] = orjson.loads(answer)
    except orjson.JSONDecodeError as error:
        raise Unavailable(f"this is no API server's answer: {answer[:80]!r}") from error
    return told


def _bytes(body: Mapping[str, Any] | bytes) -> bytes:
    return body if isinstance(body, bytes) else orjson.dumps(body)


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
