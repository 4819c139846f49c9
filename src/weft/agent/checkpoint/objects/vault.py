"""A job's durable checkpoints in an object store, with the promises of a folder.

    <prefix>/claims/inc-3                        an incarnation has come
    <prefix>/fence/inc-3.json                    and which checkpoints it has found
    <prefix>/step-1200.inc-3/shard-0-of-1.bin
    <prefix>/step-1200.inc-3/manifest.json       put last: with it the checkpoint is one

Shards are put first, each whole or not at all; the checkpoint exists from the instant in which its
manifest does. Deleting goes the other way round. To be read, a checkpoint is fetched into a folder
of files, every chunk compared with its digest on the way.
"""

import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from typing import Final

from weft.agent.checkpoint import beneath, chunks, inspection, manifest
from weft.agent.checkpoint.chunks import CHUNK_BYTES
from weft.agent.checkpoint.errors import Damaged, NotWritten, StepExists
from weft.agent.checkpoint.folders import Folder, Kind, folder_called
from weft.agent.checkpoint.manifest import Manifest, Shard, shard_file
from weft.agent.checkpoint.objects.bucket import Bucket
from weft.agent.checkpoint.objects.claims import Claims
from weft.agent.checkpoint.retention import LAST, kept
from weft.agent.checkpoint.saving import readable
from weft.agent.checkpoint.slot import Slot
from weft.agent.checkpoint.vault import Checkpoint, Newest, Refused, Run, head_of
from weft.crash import passing

POINTS: Final = ("put-begun", "put-half", "put-shards", "put-manifest", "put-durable")
STREAMS: Final = 8
Names = Mapping[str, int]


class ObjectVault:
    """The checkpoints of one job, as seen by one of its incarnations."""

    local = False

    def __init__(
        self,
        url: str,
        job: str,
        incarnation: int,
        fetched: Path,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.job, self.incarnation = job, incarnation
        self._bucket = Bucket(url)
        self._claims = Claims(self._bucket, job, incarnation)
        self._fetched = fetched
        self._clock = clock
        self._written_seconds: dict[Folder, float | None] = {}

    def claim(self) -> None:
        """No older incarnation's checkpoint counts from now on, unless it is there already."""
        self._claims.make(_manifests)

    def write(
        self,
        step: int,
        cursor: int,
        slots: Sequence[Path],
        *,
        run: Run | None = None,
        replace: bool = False,
    ) -> Path | None:
        """Make sealed slots durable; None, because they are no files now."""
        names = self._bucket.list()
        self._claims.check(names)
        folder = Folder(step, self.incarnation)
        if not replace and any(f.step == step for f in self._own(names)):
            raise _exists(folder)
        with ExitStack() as held:
            opened = [held.enter_context(Slot(path)) for path in slots]
            head = head_of(
                self.job, self.incarnation, opened, step=step, cursor=cursor, run=run or Run()
            )
            if replace:
                self._bucket.delete(f"{folder.name}/{manifest.NAME}")
            shards = self._put_shards(folder, opened)
            made = Manifest(head, self._clock(), shards, opened[0].sealed.facts)
        self._put_manifest(folder, readable(manifest.encode(made)))
        return None

    def newest(self) -> Newest:
        """The newest sound checkpoint, fetched; those refused on the way are named."""
        names = self._bucket.list()
        refused: list[Refused] = []
        for folder in sorted(self._claims.counting(_manifests(names), names), reverse=True):
            try:
                path = self._fetch(folder, names)
            except Damaged as error:
                refused.append(Refused(folder.name, folder.step, str(error)))
                self._written_seconds[folder] = None
            else:
                with beneath.folder(path) as within:
                    return Newest(Checkpoint(path, inspection.look(within)), tuple(refused))
        return Newest(None, tuple(refused))

    def retain(self, now: float, *, last: int = LAST) -> tuple[str, ...]:
        """Delete what need not stay, and what crashes have left; returns the names."""
        names = self._bucket.list()
        self._claims.check(names)
        whole = self._claims.counting(_manifests(names), names)
        doomed = [*self._outdated(whole, last), *self._rubbish(names, whole)]
        for folder in doomed:
            self._delete(folder, names)
        return tuple(folder.name for folder in doomed)

    # ---------------------------------------------------------------------------------- writing

    def _put_shards(self, folder: Folder, slots: Sequence[Slot]) -> tuple[Shard, ...]:
        passing("put-begun")
        count = len(slots)
        with ThreadPoolExecutor(min(STREAMS, count), "weft-put") as pool:
            shards = tuple(
                pool.map(
                    lambda index: self._put_shard(folder, slots[index], index, count), range(count)
                )
            )
        passing("put-shards")
        return shards

    def _put_shard(self, folder: Folder, slot: Slot, index: int, count: int) -> Shard:
        """Each chunk is read once, hashed and handed over: what is stored is what was hashed."""
        name, total = shard_file(index, count), slot.data_bytes
        digests: list[str] = []

        def fill(write: Callable[[memoryview], None]) -> None:
            buffer = memoryview(bytearray(min(CHUNK_BYTES, total)))
            for at in range(0, total, CHUNK_BYTES):
                view = buffer[: min(CHUNK_BYTES, total - at)]
                slot.read_into(at, view)
                digests.append(sha256(view).hexdigest())
                write(view)
                if at * 2 <= total:
                    passing("put-half")

        self._bucket.upload(f"{folder.name}/{name}", total, fill)
        return Shard(name, tuple(digests), slot.sealed.pieces)

    def _put_manifest(self, folder: Folder, data: bytes) -> None:
        """The instant in which it becomes a checkpoint; then whether it still counts."""
        if not self._bucket.create(f"{folder.name}/{manifest.NAME}", data):
            raise _exists(folder)
        passing("put-manifest")
        self._claims.check(self._bucket.list())
        passing("put-durable")

    # ---------------------------------------------------------------------------------- reading

    def _fetch(self, folder: Folder, names: Names) -> Path:
        """As files, every chunk compared; a folder gets its name when all of it is there."""
        found = self._look(folder, names)
        inspection.check_origin(found, folder, self.job, max(self.incarnation, folder.incarnation))
        target = self._fetched / folder.name
        growing = self._fetched / Folder(folder.step, folder.incarnation, Kind.GROWING).name
        for path in (target, growing):
            shutil.rmtree(path, ignore_errors=True)
        growing.mkdir(parents=True, mode=0o700)
        try:
            for shard in found.shards:
                self._fetch_shard(folder, shard, growing)
            (growing / manifest.NAME).write_bytes(manifest.encode(found))
            os.rename(growing, target)
        except OSError as error:
            raise NotWritten(
                f"{folder.name} could not be fetched: {error.strerror}",
                hint=f"see whether {self._fetched} is full",
            ) from error
        finally:
            shutil.rmtree(growing, ignore_errors=True)
        return target

    def _look(self, folder: Folder, names: Names) -> Manifest:
        data = self._bucket.read(f"{folder.name}/{manifest.NAME}", most=manifest.MOST_BYTES)
        found = manifest.decode(data)
        for shard in found.shards:
            size = names.get(f"{folder.name}/{shard.file}")
            if size != shard.bytes:
                raise Damaged(f"{shard.file} has {size or 0:,} bytes instead of {shard.bytes:,}")
        return found

    def _fetch_shard(self, folder: Folder, shard: Shard, target: Path) -> None:
        name = f"{folder.name}/{shard.file}"
        with (target / shard.file).open("wb") as file:

            def read(at: int, view: memoryview) -> None:
                self._bucket.read_into(name, view, at)

            def write(at: int, view: memoryview) -> None:
                beneath.write_from(file.fileno(), view, at)

            found = chunks.digests(shard.bytes, read, write=write, threads=STREAMS)
        for index, (one, expected) in enumerate(zip(found, shard.chunks, strict=True)):
            if one != expected:
                raise Damaged(f"{shard.file} is not what was written: chunk {index} differs")

    # --------------------------------------------------------------------------------- deleting

    def _own(self, names: Names) -> list[Folder]:
        return [folder for folder in _manifests(names) if folder.incarnation == self.incarnation]

    def _outdated(self, whole: Sequence[Folder], last: int) -> list[Folder]:
        """Sound ones that retention lets go, and unsound ones once enough sound ones are newer."""
        sound = {folder: at for folder in whole if (at := self._written(folder)) is not None}
        newest = sorted(sound, reverse=True)[:last]
        if len(newest) < last:
            return []
        stay = kept(sound, last=last)
        return [folder for folder in whole if folder < newest[-1] and folder not in stay]

    def _written(self, folder: Folder) -> float | None:
        """When; looked up once, since it never changes."""
        if folder not in self._written_seconds:
            name = f"{folder.name}/{manifest.NAME}"
            try:
                found = manifest.decode(self._bucket.read(name, most=manifest.MOST_BYTES))
                self._written_seconds[folder] = found.written_seconds
            except Damaged:
                self._written_seconds[folder] = None
        return self._written_seconds[folder]

    def _rubbish(self, names: Names, whole: Sequence[Folder]) -> list[Folder]:
        """Shards that never got a manifest, and checkpoints that came too late to count."""
        newest = max(whole, default=None)
        return [
            folder
            for folder in sorted(set(_folders(names)) - set(whole))
            if folder.incarnation < self.incarnation
            or (folder.incarnation == self.incarnation and newest and folder.step < newest.step)
        ]

    def _delete(self, folder: Folder, names: Names) -> None:
        """The manifest first: what is half deleted is no checkpoint."""
        self._bucket.delete(f"{folder.name}/{manifest.NAME}")
        for name in names:
            if name.startswith(f"{folder.name}/"):
                self._bucket.delete(name)


def _folders(names: Names) -> list[Folder]:
    """All that begin like a checkpoint, with a manifest or without."""
    found = (folder_called(name.partition("/")[0]) for name in names)
    return [folder for folder in found if folder is not None and folder.kind is Kind.WHOLE]


def _manifests(names: Names) -> list[Folder]:
    return [folder for folder in set(_folders(names)) if f"{folder.name}/{manifest.NAME}" in names]


def _exists(folder: Folder) -> StepExists:
    return StepExists(f"{folder.name} exists already", hint="go on: that step is durable")
