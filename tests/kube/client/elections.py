"""Elections in memory: a server that knows one lease, and lines to it that break as a test asks.

A `candidate` stands on the event loop of the test, whose time (`tests.virtual_time`) is also the
clock of the election. A `replica` stands in a thread of its own by the clock of the machine.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from random import Random
from types import SimpleNamespace
from typing import Any, Self

import orjson

from tests import waiting
from tests.virtual_time import pass_time
from weft.kube.client.errors import AlreadyExists, ApiError, Conflict, NotFound, Unavailable
from weft.kube.client.lease import Leadership, LeaseTiming

SHORT = {"lease_seconds": 2.0, "renew_seconds": 1.2, "retry_seconds": 0.2}
LOOK_SECONDS = 0.005
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
    """What one replica has instead of a connection; it can break, hang and freeze."""

    def __init__(self, store: Store, random: Random | None = None) -> None:
        self.store = store
        self.random = random
        self.fault: Callable[[str], ApiError | None] = lambda _method: None
        self.lost_answers = False
        self.hangs = False
        self.delay_seconds = 0.0
        self.frozen = False
        self.thawed = asyncio.Event()
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
        if self.frozen:
            await self.thawed.wait()
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


@asynccontextmanager
async def candidate(
    make_api: Callable[[], Awaitable[Any]], identity: str = "one", **options: Any
) -> AsyncIterator[Leadership]:
    """Stand for election as a task of this event loop, by the loop's time."""
    loop = asyncio.get_running_loop()
    leadership = Leadership(
        make_api,
        namespace="default",
        name="weft",
        identity=identity,
        clock=loop.time,
        timing=LeaseTiming(**{**SHORT, **options}),
    )
    task = loop.create_task(leadership._campaign())
    leadership._thread = SimpleNamespace(  # type: ignore[assignment]
        is_alive=lambda: not task.done(), join=lambda timeout: None
    )
    leadership._runner = SimpleNamespace(get_loop=lambda: loop)  # type: ignore[assignment]
    try:
        yield leadership
    finally:
        leadership.stop()
        await asyncio.wait([task])


async def until(done: Callable[[], object], *, seconds: float = 600.0) -> float:
    """Let the loop's time pass until it is so; how much of it passed."""
    began = asyncio.get_running_loop().time()
    while not done():
        passed = asyncio.get_running_loop().time() - began
        assert passed < seconds, f"the condition did not hold within {seconds:g} s of virtual time"
        await pass_time(LOOK_SECONDS)
    return asyncio.get_running_loop().time() - began


@contextmanager
def replica(
    make_api: Callable[[], Awaitable[Any]], identity: str = "one", **rest: Any
) -> Iterator[Leadership]:
    leadership = Leadership(
        make_api,
        namespace="default",
        name="weft",
        identity=identity,
        timing=LeaseTiming(**{**SHORT, **rest}),
    )
    leadership.start()
    try:
        yield leadership
    finally:
        leadership.stop()


def wait_for(done: Callable[[], object], what: str = "a change of the lease") -> None:
    """Wait while another thread runs."""
    waiting.until(done, what)
