"""A slot: one worker's state in shared memory, sealed so that a torn one is known.

A worker has two slots and writes them in turn, so that one whole state exists at every instant, and
outlives the process. A slot is a file on a memory file system:

    0      head: magic, version, sealed or not, where the text lies, checksums
    4096   the tensors' bytes, each 64 bytes apart
    …      text: a JSON object that says what the bytes are

The head says "not sealed" before the first byte changes and "sealed" after the last one, so a
process that is killed in between leaves a torn slot, and the other one is used. Whoever reads or
writes holds the file's lock: shared for reading, exclusive for writing, never waited for. The
kernel gives it back when the holder dies.

The agent reads with `pread` instead of mapping the file: a trainer that cuts its slot short costs
an error, not the agent's life.
"""

import contextlib
import fcntl
import mmap
import os
import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from weft.agent.checkpoint import beneath, layout
from weft.agent.checkpoint.document import Fields, Json, parse, plain
from weft.agent.checkpoint.errors import Damaged, SlotBusy, SlotError, SlotTorn
from weft.agent.checkpoint.layout import MOST_RECORDS, Piece, packed_bytes

PER_WORKER: Final = 2
DATA_AT: Final = 4096
VERSION: Final = 1
MOST_TEXT_BYTES: Final = 64 << 20
MOST_JOB: Final = 253
_MAGIC: Final = b"WEFTSLOT"
_HEAD: Final = struct.Struct("<8sIIQQQI")
_CHECKSUM: Final = struct.Struct("<I")
_BLOCK_BYTES: Final = 8 << 20
_POPULATE_WRITE: Final = 23  # MADV_POPULATE_WRITE of Linux 5.14; `mmap` has no name for it


@dataclass(frozen=True, slots=True)
class Stamp:
    """Whose state it is, and of when."""

    job: str
    incarnation: int
    epoch: int
    worker: int
    step: int
    cursor: int

    @property
    def moment(self) -> tuple[int, int, int]:
        """Later is larger; an epoch may begin again at a smaller step."""
        return self.incarnation, self.epoch, self.step


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a sealed slot says about itself."""

    stamp: Stamp
    pieces: tuple[Piece, ...]
    facts: Json


def slot_path(folder: Path, worker: int, index: int) -> Path:
    return folder / f"worker-{worker}.{index}"


class SlotWriter:
    """The trainer's side of one slot."""

    def __init__(self, path: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self.path = path
        self.capacity = 0
        self.mapping: mmap.mmap | None = None
        self._file = os.open(path, flags, 0o600)

    def reserve(self, data_bytes: int) -> mmap.mmap:
        """Memory for that many bytes, as a mapping whose data begin at `DATA_AT`.

        The memory is taken now, because a full file system would later kill the trainer.
        """
        if self.mapping is not None and data_bytes <= self.capacity:
            return self.mapping
        self.capacity = -(-data_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        try:
            os.posix_fallocate(self._file, 0, DATA_AT + self.capacity)
        except OSError as error:
            raise SlotError(
                f"no {self.capacity / 2**20:,.0f} MiB of shared memory: {error.strerror}",
                hint=f"make {self.path.parent} larger; a worker needs twice its state",
            ) from error
        self.mapping = mmap.mmap(self._file, DATA_AT + self.capacity)
        return self.mapping

    def populate(self) -> bool:
        """Enter all pages into the page table, so that the first copy does not have to.

        By blocks, since the interpreter stands still during each. False: this kernel cannot.
        """
        assert self.mapping is not None
        try:
            for at in range(0, len(self.mapping), _BLOCK_BYTES):
                self.mapping.madvise(_POPULATE_WRITE, at, min(_BLOCK_BYTES, len(self.mapping) - at))
        except OSError:
            return False
        return True

    def begin(self) -> bool:
        """Take the slot for writing; False while somebody reads it."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        beneath.write_from(self._file, _head(sealed=False), 0)
        return True

    def describe(self, text: bytes) -> bytes:
        """Write the text behind the data; returns the head that will seal it."""
        at = DATA_AT + self.capacity
        beneath.write_from(self._file, text, at)
        return _head(sealed=True, data=self.capacity, at=at, text=text)

    def seal(self, head: bytes) -> None:
        beneath.write_from(self._file, head, 0)

    def release(self) -> None:
        """Give the lock back; a slot that was not sealed stays torn."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        self.mapping = None
        os.close(self._file)


class Slot:
    """A sealed slot, held against being overwritten until it is closed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._held = contextlib.ExitStack()
        with contextlib.ExitStack() as opening:
            parent = opening.enter_context(beneath.folder(path.parent))
            self._file = opening.enter_context(beneath.reading(path.name, parent))
            self._lock()
            self.sealed = _read(self._file, path.name)
            self._held = opening.pop_all()

    @property
    def data_bytes(self) -> int:
        return packed_bytes(self.sealed.pieces)

    def read_into(self, at: int, view: memoryview) -> None:
        beneath.read_into(self._file, view, DATA_AT + at, self.path.name)

    def fileno(self) -> int:
        return self._file

    def close(self) -> None:
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise SlotBusy(
                f"{self.path.name} is being written", hint="use the worker's other slot"
            ) from error


def describe(stamp: Stamp, records: bytes, facts: Json) -> bytes:
    """The text of a slot; `records` is JSON already, since it seldom changes."""
    return b'{"version":%d,"stamp":%b,"records":%b,"facts":%b}' % (
        VERSION,
        plain({name: getattr(stamp, name) for name in Stamp.__slots__}),
        records,
        plain(facts),
    )


def _head(*, sealed: bool, data: int = 0, at: int = 0, text: bytes = b"") -> bytes:
    packed = _HEAD.pack(_MAGIC, VERSION, sealed, data, at, len(text), zlib.crc32(text))
    return packed + _CHECKSUM.pack(zlib.crc32(packed))


def _read(file: int, name: str) -> Sealed:
    size = os.fstat(file).st_size
    head = _bytes(file, 0, _HEAD.size + _CHECKSUM.size, name)
    packed, checksum = head[: _HEAD.size], head[_HEAD.size :]
    magic, version, sealed, data, at, length, crc = _HEAD.unpack(packed)
    if magic != _MAGIC or checksum != _CHECKSUM.pack(zlib.crc32(packed)) or sealed != 1:
        raise SlotTorn(f"{name} is not sealed", hint="use the worker's other slot")
    if version != VERSION:
        raise Damaged(f"{name} is of version {version}", hint="use one version of Weft per job")
    if at != DATA_AT + data or at + length > size or length > MOST_TEXT_BYTES:
        raise Damaged(f"{name} is shorter than it says")
    text = _bytes(file, at, length, name)
    if zlib.crc32(text) != crc:
        raise Damaged(f"{name}: its text is not what was sealed")
    found = _parsed(text, name)
    if packed_bytes(found.pieces) > data:
        raise Damaged(f"{name} holds less than it says")
    return found


def _parsed(text: bytes, name: str) -> Sealed:
    fields = Fields(parse(text, name), name)
    fields.only("version", "stamp", "records", "facts")
    stamp = Fields(fields.value("stamp"), name)
    stamp.only(*Stamp.__slots__)
    counts: Iterable[str] = (each for each in Stamp.__slots__ if each != "job")
    return Sealed(
        Stamp(stamp.text("job", most=MOST_JOB), **{each: stamp.count(each) for each in counts}),
        layout.from_json(fields.items("records", most=MOST_RECORDS), name),
        fields.value("facts"),
    )


def _bytes(file: int, at: int, length: int, name: str) -> bytes:
    data = bytearray(length)
    try:
        beneath.read_into(file, memoryview(data), at, name)
    except Damaged as error:
        raise SlotTorn(f"{name} is not sealed", hint="use the worker's other slot") from error
    return bytes(data)
