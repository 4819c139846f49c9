"""The book: all jobs that are not over, in memory as they stand in the store, and the one pen.

A change is on disk before it is in the book, and in the book before whoever asked for it goes on.
All writing is done by one thread, one after the other, so that a slow disk delays those who wait
for it and nobody else. Whoever wants to be told of changes is.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from weft.local.record.entry import Entry, Happening
from weft.local.record.store import Changes, Store
from weft.local.record.usage import Usage
from weft.model.errors import WorldError

T = TypeVar("T")
Told = Callable[[Entry], None]


@dataclass(frozen=True, slots=True)
class Remark:
    """Something to be written down of an entry, worth it only while that is as it was seen."""

    seen: Entry
    changes: Changes
    happenings: tuple[Happening, ...] = ()


class Book:
    """Entries by uid; `told` hears of each one that has changed."""

    def __init__(self, store: Store, told: Told) -> None:
        self._store = store
        self._told = told
        self._pen = ThreadPoolExecutor(1, thread_name_prefix="weft-pen")
        self._entries = {entry.uid: entry for entry in store.active()}
        self._names = {entry.id: entry.uid for entry in self._entries.values()}
        self._version = store.newest_version()
        self._begun = {entry.uid: entry.version for entry in self._entries.values()}
        self._writing: set[asyncio.Task[Any]] = set()

    def __iter__(self) -> Iterator[Entry]:
        """In the order of submission."""
        return iter(list(self._entries.values()))

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, uid: str) -> Entry | None:
        return self._entries.get(uid)

    def named(self, id: str) -> Entry | None:
        """The job that is not over and has this name."""
        return self._entries.get(self._names.get(id, ""))  # type: ignore[call-overload]

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self._version

    async def add(self, entry: Entry, happening: Happening) -> Entry:
        return await self._to_the_end(self._add(entry, happening))

    async def _add(self, entry: Entry, happening: Happening) -> Entry:
        entry = entry.with_changes(version=self._next_version(entry.uid))
        await self._write(self._store.add, entry, happening)
        self._names[entry.id] = entry.uid
        self._take(entry)
        return entry

    async def revive(self, entry: Entry, happening: Happening, **changes: Any) -> Entry:
        """One that was over is in the book again."""
        return await self._to_the_end(self._revive(entry, happening, changes))

    async def _revive(self, entry: Entry, happening: Happening, changes: dict[str, Any]) -> Entry:
        if entry.uid in self._entries:
            raise WorldError(f"{entry.id} is about to end", hint="try again in a moment")
        changes["version"] = self._next_version(entry.uid)
        await self._write(self._store.revive, entry.uid, changes, happening)
        entry = entry.with_changes(**changes)
        self._names[entry.id] = entry.uid
        self._take(entry)
        return entry

    async def change(self, uid: str, *happenings: Happening, **changes: Any) -> Entry:
        """The entry with other values for these fields."""
        return await self._to_the_end(self._change(uid, happenings, changes))

    async def _change(
        self, uid: str, happenings: tuple[Happening, ...], changes: dict[str, Any]
    ) -> Entry:
        changes["version"] = self._next_version(uid)
        await self._write(self._store.change, uid, changes, *happenings)
        return self._changed(uid, changes)

    async def remark(self, remarks: Sequence[Remark]) -> None:
        """What is no matter of urgency, in one write; what others change meanwhile goes first."""
        await self._to_the_end(self._remark(remarks))

    async def _remark(self, remarks: Sequence[Remark]) -> None:
        fresh = [one for one in remarks if self._begun.get(one.seen.uid) == one.seen.version]
        changes = {
            one.seen.uid: {**one.changes, "version": self._next_version(one.seen.uid)}
            for one in fresh
        }
        happenings = {one.seen.uid: one.happenings for one in fresh}
        await self._write(self._store.change_all, changes, happenings)
        for uid, changed in changes.items():
            self._changed(uid, changed)

    async def write_usage(self, users: Mapping[str, Usage]) -> None:
        await self._to_the_end(self._write(self._store.write_usage, users))

    async def write_setting(self, key: str, value: str) -> None:
        await self._to_the_end(self._write(self._store.write_setting, key, value))

    def forget(self, uid: str) -> None:
        """It is over: from now on the store alone knows it."""
        self._begun.pop(uid, None)
        entry = self._entries.pop(uid, None)
        if entry is not None and self._names.get(entry.id) == uid:
            del self._names[entry.id]

    async def read(self, what: Callable[..., T], *given: Any, **named: Any) -> T:
        """Something of the store that takes a while."""
        return await asyncio.to_thread(what, *given, **named)

    async def close(self) -> None:
        """When all that is being written is on disk."""
        await asyncio.gather(*self._writing, return_exceptions=True)
        self._pen.shutdown()

    async def _to_the_end(self, writing: Coroutine[Any, Any, T]) -> T:
        """Also when whoever asked has gone: what is on disk must be in the book."""
        task = asyncio.create_task(writing)
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return await asyncio.shield(task)

    async def _write(self, what: Callable[..., None], *given: Any) -> None:
        await asyncio.get_running_loop().run_in_executor(self._pen, what, *given)

    def _changed(self, uid: str, changes: Changes) -> Entry:
        """One that has ended meanwhile is in the store alone."""
        known = self._entries.get(uid) or self._store.get(uid)
        assert known is not None, f"no entry {uid}"
        entry = known.with_changes(**changes)
        if uid in self._entries:
            self._take(entry)
        return entry

    def _take(self, entry: Entry) -> None:
        self._entries[entry.uid] = entry
        self._told(entry)

    def _next_version(self, uid: str) -> int:
        self._version += 1
        self._begun[uid] = self._version
        return self._version
