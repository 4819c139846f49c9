"""One leader among the replicas, by a Lease that its holder keeps renewing.

The holder renews in a thread of its own, with its own event loop and connection, so that neither a
long solve nor a full pool can cost it the lease. Two rules keep two leaders apart. A holder whose
last renewal began more than `renew_seconds` ago does not lead, and finds that out from the clock
alone, even if its thread is stuck; what it has under way then ends before `lease_seconds` are over
(see `api`). And a candidate takes the lease only after it has itself seen it unchanged for as long
as the holder's lease lasts: the clocks of two machines are never compared.

A term that is lost stays lost. Its work may rest on what was true before, so this replica stands
again only once its main loop asks for it (`wait_until_leading`). `transitions` grows with each term
and tells later readers which leader wrote something.
"""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from weft.kube.client.api import Api
from weft.kube.client.errors import Conflict, NotFound
from weft.model.errors import NotLeading, WorldError

logger = logging.getLogger(__name__)

LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
NEVER: Final = float("-inf")
POLL_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTiming:
    """How long a lease lasts, and how often it is renewed and tried for."""

    lease_seconds: float = 13.0
    #: A leader that has not renewed for so long gives up, before others may take over.
    renew_seconds: float = 8.0
    retry_seconds: float = 1.0

    def __post_init__(self) -> None:
        if not self.lease_seconds > self.renew_seconds > self.retry_seconds > 0:
            raise ValueError("a lease must outlast a renewal, and a renewal several tries")


class Leadership:
    """Whether this replica leads; everything here may be asked from any thread."""

    def __init__(
        self,
        make_api: Callable[[], Awaitable[Api]],
        *,
        namespace: str,
        name: str,
        identity: str,
        timing: LeaseTiming = LeaseTiming(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.identity = identity
        self.transitions = 0
        self.timing = timing
        self._make_api = make_api
        self._clock = clock
        self._folder = LEASES.format(namespace=namespace)
        self._name = name
        self._renewed_at = NEVER
        self._stands = True
        self._seen: dict[str, Any] = {}
        self._seen_at = NEVER
        self._stopping = False
        self._release = False
        self._woken = asyncio.Event()
        self._runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        self._thread = threading.Thread(target=self._run, name="lease", daemon=True)

    @property
    def leading(self) -> bool:
        """While it is true, nobody else leads."""
        return not self._stopping and self._clock() - self._renewed_at <= self.timing.renew_seconds

    def check(self) -> None:
        """The gate before every write: raises `NotLeading`."""
        if not self.leading:
            raise NotLeading(
                f"{self.identity} does not lead",
                hint="Nothing to do: the replica that leads does the work.",
            )

    def start(self) -> None:
        """Stand for election."""
        self._runner.get_loop()  # made here, so that `stop` can always reach it
        self._thread.start()

    def stop(self, release: bool = True) -> None:
        """Lead no more; `release` lets another replica lead at once. Blocks for up to seconds.

        Who releases must have no write under way any more.
        """
        self._release = release
        self._stopping = True
        if not self._thread.is_alive():
            return
        with suppress(RuntimeError):  # the election may have ended just now
            self._runner.get_loop().call_soon_threadsafe(self._woken.set)
        self._thread.join(timeout=self.timing.renew_seconds)

    def stand(self) -> None:
        """Stand again after a lost term: nothing that was decided in it is still under way."""
        self._stands = True

    async def wait_until_leading(self) -> None:
        """Stand again, if a term was lost, and wait until elected."""
        while not self.leading:
            self.stand()
            if not self._thread.is_alive():
                raise NotLeading(
                    "the election is over", hint="Start the operator again; its log says why."
                )
            await asyncio.sleep(POLL_SECONDS)

    async def wait_until_lost(self) -> None:
        """Wait until this term is over."""
        while self.leading:
            await asyncio.sleep(POLL_SECONDS)

    def _run(self) -> None:
        try:
            with self._runner as runner:
                runner.run(self._campaign())
        except Exception:
            logger.exception("lease %s: the election ends", self._name)
        finally:
            self._renewed_at = NEVER

    async def _campaign(self) -> None:
        api = await self._connect()
        if api is None:
            return
        async with api:
            while not self._stopping:
                await self._rest(await self._step(api))
            if self._release:
                await self._give_back(api)

    async def _connect(self) -> Api | None:
        while not self._stopping:
            try:
                return await self._make_api()
            except WorldError as error:
                logger.warning("lease %s: no connection: %s", self._name, error)
                await self._rest(self.timing.retry_seconds)
        return None

    async def _rest(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._woken.wait(), seconds)
        except TimeoutError:
            return

    async def _step(self, api: Api) -> float:
        """Renew, or stand; how long to rest then."""
        try:
            if self._renewed_at > NEVER:
                await self._renew(api)
            elif self._stands:
                await self._stand(api)
        except WorldError as error:
            logger.warning("lease %s: %s", self._name, error)
            return self.timing.retry_seconds / 2
        return self.timing.retry_seconds

    async def _renew(self, api: Api) -> None:
        """Only what was begun in time counts, and only if it was also answered in time."""
        began_at = self._clock()
        if self._lapsed():
            return
        try:
            written = await self._write(api, self._term())
        except NotFound:
            self._lose("the lease was deleted")
            return
        except Conflict:
            self._look(await self._read(api))
            if self._holder() != self.identity:
                self._lose(f"taken by {self._holder() or 'nobody'}")
                return
            written = await self._write(api, self._term())
        self._look(written)
        if not self._lapsed():
            self._renewed_at = began_at

    async def _stand(self, api: Api) -> None:
        """Take the lease if it is free: new, released, our own, or seen unchanged for too long."""
        began_at = self._clock()
        try:
            self._look(await self._read(api))
        except NotFound:
            self._seen = {}
        if self._taken():
            return
        try:
            self._look(await self._write(api, self._new_term()))
        except Conflict:  # another candidate was faster
            return
        self.transitions = int(self._seen["spec"]["leaseTransitions"])
        self._renewed_at = began_at
        logger.info("lease %s: %s leads, term %d", self._name, self.identity, self.transitions)

    async def _give_back(self, api: Api) -> None:
        if self._holder() != self.identity:
            return
        free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": _now()}
        try:
            await self._write(api, {**self._seen["spec"], **free})
        except WorldError as error:
            logger.warning("lease %s: not released, it will expire: %s", self._name, error)

    def _lapsed(self) -> bool:
        if self._clock() - self._renewed_at <= self.timing.renew_seconds:
            return False
        self._lose(f"not renewed for {self.timing.renew_seconds:g} s")
        return True

    def _lose(self, why: str) -> None:
        self._stands = False
        self._renewed_at = NEVER
        logger.warning("lease %s: %s leads no more: %s", self._name, self.identity, why)

    def _look(self, lease: dict[str, Any]) -> None:
        """Remember the lease, and since when it stands as it does."""
        if lease["spec"] != self._seen.get("spec"):
            self._seen_at = self._clock()
        self._seen = lease

    def _taken(self) -> bool:
        if self._holder() in ("", self.identity):
            return False
        lasts = self._seen["spec"].get("leaseDurationSeconds") or self.timing.lease_seconds
        return self._clock() < self._seen_at + lasts

    def _holder(self) -> str:
        return self._seen.get("spec", {}).get("holderIdentity") or ""

    def _term(self) -> dict[str, Any]:
        return {**self._seen["spec"], "renewTime": _now()}

    def _new_term(self) -> dict[str, Any]:
        spec = self._seen.get("spec", {})
        before = max(spec.get("leaseTransitions") or 0, self.transitions)
        now = _now()
        return {
            **spec,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.timing.lease_seconds),
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": before + 1,
        }

    async def _read(self, api: Api) -> dict[str, Any]:
        return await self._call(api, "GET", self._path())

    async def _write(self, api: Api, spec: Mapping[str, Any]) -> dict[str, Any]:
        """Only over what was seen: the resourceVersion goes back with it."""
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._name},
            **self._seen,
            "spec": spec,
        }
        if not self._seen:
            return await self._call(api, "POST", self._folder, lease)
        return await self._call(api, "PUT", self._path(), lease)

    async def _call(
        self, api: Api, method: str, path: str, lease: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        body = orjson.dumps(lease) if lease is not None else b""
        # A third, so that there is time for a second try before the term lapses.
        seconds = self.timing.renew_seconds / 3
        answer = await api.raw(method, path, body=body, timeout_seconds=seconds)
        told: dict[str, Any] = orjson.loads(answer)
        return told

    def _path(self) -> str:
        return f"{self._folder}/{self._name}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
