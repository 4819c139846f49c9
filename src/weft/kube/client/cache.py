"""What we know of all objects of one kind: listed once, then followed change by change.

Everything is ordered by resourceVersion. `version` is how far the history was followed: at that
point the items are exactly the server's. An answer to a write of our own may be ahead of it; it is
taken in at once (`put`), so that nobody decides on what was there before. What is not newer than
`version` is never taken in: it was seen already, or it was seen to be deleted.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from random import Random
from typing import Any, Final, Generic, Protocol, TypeVar

from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.errors import ApiError, Gone

logger = logging.getLogger(__name__)

PAGE: Final = 500
LIST_SECONDS: Final = 60.0  # a consistent list of custom resources costs a server 1 ms per object
WATCH_SECONDS: Final = (300, 600)
MARK_SECONDS: Final = 5.0
MARK_POLL_SECONDS: Final = 0.01

Mark = Callable[[str], Awaitable[int]]
"""Changes the object of that key by a little; its version then."""
SHORT_WATCH_SECONDS: Final = 1.0


class Trimmed(Protocol):
    """What is kept of an object: at least its uid, and its resourceVersion as a number."""

    @property
    def uid(self) -> str: ...

    @property
    def version(self) -> int: ...


T = TypeVar("T", bound=Trimmed)


class Cache(Generic[T]):
    """All objects of one kind, trimmed; `on_change(key, old, new)` is told each change in order."""

    def __init__(
        self,
        api: Api,
        path: str,
        *,
        trim: Callable[[dict[str, Any]], T],
        on_change: Callable[[str, T | None, T | None], None],
        params: Mapping[str, str] | None = None,
        backoff: Backoff | None = None,
        name: str = "",
    ) -> None:
        self.items: dict[str, T] = {}
        self.version = 0
        self.synced = asyncio.Event()
        self.heard_at = float("-inf")  # on the monotonic clock: when the server last spoke
        self.trouble: ApiError | None = None  # why it is not followed just now
        self.unreadable: dict[str, str] = {}  # what is wrong with objects that cannot be trimmed
        self.kind = path.rsplit("/", 1)[-1].replace("trainingjobs", "jobs")
        self.name = name or path.rsplit("/", 1)[-1]
        self.restarted: Callable[[], None] = _nobody_counts
        self._api = api
        self._path = path
        self._params = dict(params or {})
        self._trim = trim
        self._on_change = on_change
        self._backoff = backoff or Backoff(Random())
        self._newest = 0

    async def sync(self) -> None:
        """List everything afresh, not from a server's cache that lags, and take it over."""
        known = max(self.version, self._newest)
        version, listed = await self._list()
        self.take_list(version, listed, rewound=version < known)
        self.heard_at = time.monotonic()

    async def catch_up(self, mark: Mark | None = None) -> None:
        """Rest on nothing older than the moment of asking, though it was followed since long.

        A short list is asked for anew. Of a long one `mark` changes an object: once that change is
        seen, everything before it has been. Without `mark` a long one is taken as it is followed.
        """
        await self.synced.wait()
        while True:
            try:
                is_long = len(self.items) > PAGE
                if not is_long or (mark is not None and not await self._sees(mark)):
                    await self.sync()
                return
            except ApiError as error:
                await self._pause(error)

    async def run(self) -> None:
        """Keep up for ever: list, follow, and list again where the history has a gap."""
        while True:
            try:
                await self.sync()
                self.synced.set()
                await self._follow()
            except ApiError as error:
                await self._pause(error)

    def put(self, raw: dict[str, Any]) -> T:
        """Take in the answer to a write of our own; what is known now, if that is newer."""
        item = self._trim(raw)
        key = key_of(raw)
        old = self.items.get(key)
        if item.version <= self.version or (old is not None and old.version >= item.version):
            return old if old is not None else item
        self._newest = max(self._newest, item.version)
        self._set(key, old, item)
        return item

    def take_list(self, version: int, listed: Mapping[str, T], *, rewound: bool = False) -> None:
        """Take over a list of the state at `version`.

        A fresh list is never older than what was known when it was asked for. If it is (`rewound`),
        the server was restored from a backup, and what we know is no longer history.
        """
        if rewound:
            self.version = self._newest = 0
        elif version <= self.version:
            return
        for key, old in list(self.items.items()):
            if key not in listed and (rewound or old.version <= version):
                self._drop(key, old)
        for key, item in listed.items():
            known = self.items.get(key)
            if known is None or rewound or known.version < item.version:
                self._set(key, known, item)
        self.version = version

    def take_event(self, kind: str, raw: dict[str, Any]) -> None:
        """Take in one event of a watch."""
        if kind == "BOOKMARK":
            self.version = max(self.version, int(raw["metadata"]["resourceVersion"]))
            return
        version, key = int(raw["metadata"]["resourceVersion"]), key_of(raw)
        if version <= self.version:
            return
        self.version = version
        old = self.items.get(key)
        if kind == "DELETED":
            self.unreadable.pop(key, None)
            if old is not None and old.version <= version:
                self._drop(key, old)
        elif old is None or old.version < version:
            item = self._trimmed(key, raw)
            if item is not None:
                self._set(key, old, item)

    async def _sees(self, mark: Mark) -> bool:
        """Whether the change may be made and arrives in time, and so all before it."""
        try:
            version = await mark(next(reversed(self.items)))
        except ApiError as error:
            logger.info("%s: no mark: %s", self.name, error)
            return False
        until = time.monotonic() + MARK_SECONDS
        while self.version < version and time.monotonic() < until:
            await asyncio.sleep(MARK_POLL_SECONDS)
        return self.version >= version

    async def _list(self) -> tuple[int, dict[str, T]]:
        try:
            return await self._pages(PAGE)
        except Gone:  # the list took longer than its history was kept: ask for it in one piece
            return await self._pages(None)

    async def _pages(self, size: int | None) -> tuple[int, dict[str, T]]:
        listed: dict[str, T] = {}
        there: set[str] = set()
        params = {**self._params, "limit": str(size)} if size else dict(self._params)
        while True:
            page = await self._api.get(self._path, params, timeout_seconds=LIST_SECONDS)
            for raw in page.get("items") or ():
                key = key_of(raw)
                there.add(key)
                item = self._trimmed(key, raw)
                if item is not None:
                    listed[key] = item
            about = page["metadata"]
            if not about.get("continue"):
                for gone in self.unreadable.keys() - there:
                    del self.unreadable[gone]
                return int(about["resourceVersion"]), listed
            params["continue"] = about["continue"]

    def _trimmed(self, key: str, raw: dict[str, Any]) -> T | None:
        """What is kept of it; of one that cannot be read, what was kept before, if anything.

        One object that nobody expected must not keep all others from being followed.
        """
        try:
            item = self._trim(raw)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if key not in self.unreadable:
                logger.error("%s: %s cannot be read: %r", self.name, key, error)
            self.unreadable[key] = repr(error)
            return self.items.get(key)
        self.unreadable.pop(key, None)
        return item

    async def _follow(self) -> None:
        """Watch from where we are, again and again; `Gone` ends it."""
        while True:
            started_at = time.monotonic()
            try:
                await self._watch()
                self.restarted()
            except Gone:
                self.restarted()
                raise
            except ApiError as error:
                self.restarted()
                await self._pause(error)
                continue
            if time.monotonic() - started_at < SHORT_WATCH_SECONDS:
                await asyncio.sleep(self._backoff.next_seconds())
            else:
                self._heard()

    async def _watch(self) -> None:
        params = {
            **self._params,
            "allowWatchBookmarks": "true",
            "resourceVersion": str(self.version),
            "timeoutSeconds": str(self._backoff.random.randint(*WATCH_SECONDS)),
        }
        async with aclosing(self._api.watch(self._path, params)) as events:
            async for kind, raw in events:
                self.take_event(kind, raw)
                self._heard()

    async def _pause(self, error: ApiError) -> None:
        wait = self._backoff.next_seconds(at_least=error.retry_after_seconds)
        if self.trouble is None:
            logger.warning("%s: not followed: %s", self.name, error)
        self.trouble = error
        await asyncio.sleep(wait)

    def _heard(self) -> None:
        """Only a watch that works ends the waits: a list alone does not."""
        self.heard_at = time.monotonic()
        if self.trouble is not None:
            logger.info("%s: followed again", self.name)
            self.trouble = None
        self._backoff.reset()

    def _set(self, key: str, old: T | None, new: T) -> None:
        self.items[key] = new
        self._on_change(key, old, new)

    def _drop(self, key: str, old: T) -> None:
        del self.items[key]
        self._on_change(key, old, None)


def _nobody_counts() -> None:
    """A watch was begun again."""


def key_of(raw: Mapping[str, Any]) -> str:
    """`<namespace>/<name>`, or `<name>` for what belongs to the whole cluster."""
    about = raw["metadata"]
    namespace = about.get("namespace")
    return f"{namespace}/{about['name']}" if namespace else str(about["name"])
