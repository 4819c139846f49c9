"""Elections in memory: a server that knows one lease, and lines to it that break as a test asks."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any, Self

import orjson

from weft.kube.client.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from weft.kube.client.lease import Leadership

SHORT = {"lease_seconds": 2.0, "renew_seconds": 1.2, "retry_seconds": 0.2}
PATH = "/apis/coordination.k8s.io/v1/namespaces/default/leases/weft"


class Store:
    """A server that knows one lease; each replica speaks to it by its own `Line`."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.version = 0
        self.lease: dict[str, Any] | None = None
        self.writes = 0

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    def edit(self, **spec: Any) -> None:
        """Somebody else writes to the lease."""
        with self.lock:
            self._store({**(self.lease or {"metadata": {}}), "spec": {**self.spec, **spec}})

    def call(self, method: str, body: bytes) -> dict[str, Any]:
        with self.lock:
            if method == "GET":
                return self._found()
            lease = orjson.loads(body)
            if method == "POST":
                if self.lease is not None:
                    raise AlreadyExists("taken", status=409)
            elif lease["metadata"].get("resourceVersion") != self._found()["metadata"].get(
                "resourceVersion"
            ):
                raise Conflict("changed", status=409)
            self.writes += 1
            return self._store(lease)

    def _found(self) -> dict[str, Any]:
        if self.lease is None:
            raise NotFound("no lease", status=404)
        return self.lease

    def _store(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        about = {**lease["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**lease, "metadata": about}
        return self.lease


class Line:
    """What one replica has instead of a connection; it can break, hang and freeze its thread."""

    def __init__(self, store: Store, random: Random | None = None) -> None:
        self.store = store
        self.random = random
        self.fault: Callable[[str], ApiError | None] = lambda _method: None
        self.lost_answers = False
        self.hangs = False
        self.delay_seconds = 0.0
        self.freezes = threading.Event()
        self.thawed = threading.Event()
        self.closed = False

    async def make(self) -> Any:  # noqa: ANN401
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.closed = True

    async def raw(
        self, method: str, path: str, *, body: bytes = b"", timeout_seconds: float = 5.0
    ) -> bytes:
        assert path in (PATH, PATH.rsplit("/", 1)[0])
        if self.freezes.is_set():
            self.thawed.wait()
        if self.hangs:
            await asyncio.sleep(timeout_seconds)
            raise Unavailable("no answer")
        await asyncio.sleep(self.delay_seconds)
        if self.random is not None:
            await self._bad_luck(timeout_seconds)
        error = self.fault(method)
        if error is not None:
            raise error
        answer = orjson.dumps(self.store.call(method, body))
        if self.lost_answers and method != "GET":
            raise Unavailable("the answer was lost", ambiguous=True)
        return answer

    async def _bad_luck(self, timeout_seconds: float) -> None:
        assert self.random is not None
        if self.random.random() < 0.3:
            await asyncio.sleep(self.random.uniform(0, timeout_seconds))
        if self.random.random() < 0.5:
            raise Unavailable("bad luck")


@contextmanager
def replica(
    make_api: Callable[[], Awaitable[Any]], identity: str = "one", **rest: Any
) -> Iterator[Leadership]:
    leadership = Leadership(
        make_api, namespace="default", name="weft", identity=identity, **{**SHORT, **rest}
    )
    leadership.start()
    try:
        yield leadership
    finally:
        leadership.stop()


def wait_for(done: Callable[[], object], seconds: float = 30.0) -> float:
    """How long it took."""
    started_at = time.monotonic()
    while not done():
        assert time.monotonic() - started_at < seconds, "it did not happen"
        time.sleep(0.005)
    return time.monotonic() - started_at
