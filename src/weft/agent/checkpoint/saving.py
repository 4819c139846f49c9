"""One checkpoint on its way to the disk.

Bytes go from slots to shard files in a folder that is not yet called a checkpoint; then the
manifest, then everything is flushed, then the folder gets its name and that is flushed too. Death
at any point leaves the old state or the new one. The points have names, so that tests can die at
each of them.

Several agents may write one checkpoint on a shared disk, each its own shards. Each leaves an entry
beside its shards, and whoever finds the set complete, under the root's lock, makes the manifest.
Shards of different epochs never mix: entries that differ in anything but the shard do not count.

A writer keeps its shard files locked until it is done, so that nobody takes its folder for rubbish.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Final

from weft.agent.checkpoint import beneath, chunks, manifest
from weft.agent.checkpoint.errors import Damaged, NotWritten
from weft.agent.checkpoint.facts import together
from weft.agent.checkpoint.folders import Folder, Kind
from weft.agent.checkpoint.manifest import (
    Entry,
    Head,
    Manifest,
    Shard,
    decode_entry,
    encode_entry,
    entry_file,
    shard_file,
)
from weft.agent.checkpoint.slot import Slot
from weft.crash import passing

POINTS: Final = (
    "save-claimed",
    "save-begun",
    "save-half",
    "save-written",
    "save-synced",
    "save-manifest-half",
    "save-manifest",
    "save-renamed",
    "save-durable",
)


class Saving:
    """The shards `first`, `first + 1`, … of `count`, one for each slot."""

    def __init__(self, head: Head, slots: Sequence[Slot], *, first: int, count: int) -> None:
        self.head = head
        self.folder = Folder(head.step, head.incarnation, Kind.GROWING)
        self._slots = dict(enumerate(slots, first))
        self._count = count
        self._held = ExitStack()
        self._files: dict[int, int] = {}
        self._begun = False

    @property
    def alone(self) -> bool:
        return len(self._slots) == self._count

    def begin(self, root: int) -> None:
        """Under the lock: make the folder and take the files."""
        if self.alone and being_written(self.folder, root):
            raise NotWritten(
                f"step {self.head.step} is being written by another", hint="one write is enough"
            )
        self._begun = True
        if self.alone:
            self.folder.remove(root)
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder.name, 0o700, dir_fd=root)
        self._within = self._held.enter_context(beneath.folder(self.folder.name, within=root))
        for index in self._slots:
            beneath.remove(entry_file(index, self._count), self._within)
            file = beneath.create(shard_file(index, self._count), self._within)
            self._held.callback(os.close, file)
            fcntl.flock(file, fcntl.LOCK_EX)
            self._files[index] = file
        passing("save-begun")

    def fill(self, threads: int) -> None:
        """Write and flush the shards; this is the long part, and needs no lock."""
        self._entries = {
            index: Entry(self.head, self._shard(index, threads), slot.sealed.facts)
            for index, slot in self._slots.items()
        }
        passing("save-written")
        for file in self._files.values():
            os.fsync(file)
        passing("save-synced")

    def complete(self) -> bool:
        """Under the lock: whether all shards are there, those of other agents too."""
        gathered = self._entries if self.alone else self._gather()
        self._entries = gathered or self._entries
        return gathered is not None

    def finish(self, root: int, written_seconds: float) -> Folder:
        """Under the lock: make it a checkpoint, and the folder hold nothing else."""
        entries = self._entries
        shards = tuple(entries[index].shard for index in range(self._count))
        facts = together([entries[index].facts for index in range(self._count)])
        made = Manifest(self.head, written_seconds, shards, facts)
        self._describe(readable(manifest.encode(made)))
        known = {manifest.NAME, *(shard.file for shard in shards)}
        for name in set(os.listdir(self._within)) - known:
            beneath.remove(name, self._within)
        os.fsync(self._within)
        passing("save-manifest")
        folder = self.folder.become(Kind.WHOLE, root)
        passing("save-renamed")
        os.fsync(root)
        passing("save-durable")
        return folder

    def give_up(self, root: int) -> None:
        """Leave nothing of ours behind."""
        if not self._begun:
            return
        if self.alone:
            self.folder.remove(root)
            return
        for index in self._files:
            for name in (shard_file(index, self._count), entry_file(index, self._count)):
                with contextlib.suppress(OSError):
                    beneath.remove(name, self._within)

    def close(self) -> None:
        self._held.close()

    def _shard(self, index: int, threads: int) -> Shard:
        slot, file = self._slots[index], self._files[index]
        half = slot.data_bytes // 2

        def write(at: int, view: memoryview) -> None:
            beneath.write_from(file, view[: len(view) // 2], at)
            if at + len(view) > half:
                passing("save-half")
            beneath.write_from(file, view[len(view) // 2 :], at + len(view) // 2)

        digests = chunks.digests(slot.data_bytes, slot.read_into, write=write, threads=threads)
        return Shard(shard_file(index, self._count), digests, slot.sealed.pieces)

    def _gather(self) -> dict[int, Entry] | None:
        """Our entries for the others, and all of them if the set is complete."""
        for index, entry in self._entries.items():
            beneath.write(entry_file(index, self._count), self._within, encode_entry(entry))
        entries = {}
        for index in range(self._count):
            try:
                data = beneath.read(
                    entry_file(index, self._count), self._within, most=manifest.MOST_BYTES
                )
                entries[index] = decode_entry(data, index, self._count)
            except Damaged:
                return None
            if entries[index].head != self.head:
                return None
        return entries

    def _describe(self, data: bytes) -> None:
        file = beneath.create(manifest.NAME, self._within)
        self._held.callback(os.close, file)
        half = len(data) // 2
        beneath.write_from(file, data[:half], 0)
        passing("save-manifest-half")
        beneath.write_from(file, data[half:], half)
        os.fsync(file)


def readable(data: bytes) -> bytes:
    """What could not be read again is not written."""
    try:
        if len(data) > manifest.MOST_BYTES:
            raise Damaged(f"its manifest has {len(data):,} bytes")
        manifest.decode(data)
    except Damaged as error:
        raise NotWritten(
            f"it would not be read again: {error}", hint="give the slots of all workers, in order"
        ) from error
    return data


def being_written(folder: Folder, root: int) -> bool:
    """Whether a living process holds one of its files."""
    return any(_held(name, within) for name, within in _files(folder, root))


def awaits_others(folder: Folder, root: int) -> bool:
    """Whether an agent has left its part for others to complete."""
    return any(name.startswith("entry-") for name, _ in _files(folder, root))


def _files(folder: Folder, root: int) -> Iterator[tuple[str, int]]:
    with contextlib.suppress(Damaged), beneath.folder(folder.name, within=root) as within:
        for name in os.listdir(within):
            yield name, within


def _held(name: str, within: int) -> bool:
    try:
        with beneath.reading(name, within) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except Damaged:
        return False
    except BlockingIOError:
        return True
    return False
