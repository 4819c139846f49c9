"""From a training program's memory to shared memory and back.

Taking a snapshot stops the training for one copy: the memory was reserved and touched before, the
records are described once, and the agent does the slow part from its own copy. Loading is by name
and by box: what two shards saved can be loaded by one replica or by three, bit for bit. It is
refused before anything has changed unless all of it fits and every byte is the one that was saved.
"""

import ctypes
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from weft.agent.checkpoint import chunks, layout, slot
from weft.agent.checkpoint.document import plain
from weft.agent.checkpoint.errors import CheckpointError
from weft.agent.checkpoint.layout import (
    Piece,
    TensorRecord,
    common_part,
    pack,
    packed_bytes,
    parted,
)
from weft.agent.checkpoint.slot import DATA_AT, PER_WORKER, SlotWriter, Stamp, slot_path
from weft.agent.checkpoint.source import MappedShard, Source, open_source
from weft.crash import passing
from weft.train.state.adoption import adopted
from weft.train.state.book import HeldState, StateBook
from weft.train.state.intake import Intake
from weft.train.state.writing import Part, held_part

log = logging.getLogger(__name__)

PAGE_BYTES: Final = 4096
ALL: Final = (0, 1)
POINTS: Final = ("snapshot-begun", "snapshot-copied", "snapshot-described", "snapshot-sealed")


@dataclass(frozen=True, slots=True)
class Taken:
    """A sealed slot, and how long the training stood still for it."""

    path: Path
    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """Where the training goes on."""

    step: int
    cursor: int
    bytes: int
    seconds: float


class Snapshots:
    """One worker's two slots, written in turn."""

    def __init__(
        self, folder: Path, worker: int, book: StateBook, *, job: str = "", incarnation: int = 0
    ) -> None:
        self.book = book
        self.skipped = 0
        self._stamp = (job, incarnation)
        self._worker = worker
        self._pads = [_Pad(slot_path(folder, worker, index)) for index in range(PER_WORKER)]
        self._preparing: threading.Thread | None = None
        self._pool = ThreadPoolExecutor(chunks.default_threads(), "weft-copy")

    def prepare(self, part: Part = ALL) -> None:
        """Reserve and touch the memory, in the background.

        To be called when the optimizer has its state; if the state grows later, so do the slots.
        """
        if self._preparing is not None:
            self._preparing.join()
        records = parted(self.book.records(), *part)
        self._preparing = threading.Thread(
            target=self._prepare, args=(records,), name="weft-slots", daemon=True
        )
        self._preparing.start()

    def take(self, step: int, cursor: int, *, epoch: int = 0, part: Part = ALL) -> Taken | None:
        """Copy the state into the older slot and seal it; None if the agent still reads both."""
        started = time.perf_counter()
        if self._preparing is not None:
            self._preparing.join()
        held = held_part(self.book.look(), part)
        pad = self._free_pad(held.records)
        if pad is None:
            self.skipped += 1
            log.warning("no snapshot of step %d: both slots are being read", step)
            return None
        try:
            job, incarnation = self._stamp
            stamp = Stamp(job, incarnation, epoch, self._worker, step, cursor)
            self._write(pad, stamp, held)
        finally:
            pad.writer.release()
        self._pads.sort(key=lambda each: each is pad)
        return Taken(pad.writer.path, pad.bytes, time.perf_counter() - started)

    def close(self) -> None:
        if self._preparing is not None:
            self._preparing.join()
        self._pool.shutdown()
        for pad in self._pads:
            pad.close()

    def _prepare(self, records: tuple[TensorRecord, ...]) -> None:
        try:
            for pad in self._pads:
                pad.lay_out(records)
                pad.touch()
        except CheckpointError as error:
            log.warning("shared memory is not prepared: %s", error)

    def _free_pad(self, records: tuple[TensorRecord, ...]) -> "_Pad | None":
        """The older slot if nobody reads it, else the newer one; laid out and taken."""
        for pad in self._pads:
            pad.lay_out(records)
            if pad.writer.begin():
                return pad
        return None

    def _write(self, pad: "_Pad", stamp: Stamp, held: HeldState) -> None:
        passing("snapshot-begun")
        pad.copy(held.tensors, self._pool)
        passing("snapshot-copied")
        head = pad.writer.describe(slot.describe(stamp, pad.described, held.facts))
        passing("snapshot-described")
        pad.writer.seal(head)
        passing("snapshot-sealed")


class _Pad:
    """A slot's memory as tensors, laid out once for as long as the records stay the same."""

    def __init__(self, path: Path) -> None:
        self.writer = SlotWriter(path)
        self.described = b"[]"
        self.bytes = 0
        self._records: tuple[TensorRecord, ...] | None = None
        self._targets: dict[str, tuple[Tensor, int, int, int]] = {}

    def lay_out(self, records: tuple[TensorRecord, ...]) -> None:
        if records == self._records:
            return
        pieces = pack(records)
        self.bytes = packed_bytes(pieces)
        self._targets = {}
        memory = self.writer.reserve(self.bytes)
        hands = _dealt([piece.record.bytes for piece in pieces])
        for piece, hand in zip(pieces, hands, strict=True):
            if piece.record.elements:
                target = _tensor_at(memory, DATA_AT + piece.at, piece.record)
                size, name = piece.record.bytes, piece.record.name
                self._targets[name] = (target, target.data_ptr(), size, hand)
        self.described = plain(layout.to_json(pieces))
        self._records = records

    def touch(self) -> None:
        """The first write to a page costs more than the copy of it."""
        memory = self.writer.mapping
        if memory is not None and not self.writer.populate():
            torch.frombuffer(memory, dtype=torch.uint8)[::PAGE_BYTES].add_(0)

    def copy(self, tensors: Mapping[str, Tensor], pool: ThreadPoolExecutor) -> None:
        hands: list[list[tuple[int, int, int]]] = [[] for _ in range(chunks.default_threads())]
        devices = set()
        for name, (target, address, size, hand) in self._targets.items():
            source = tensors[name]
            if _is_raw(source):
                assert source.nbytes == size
                hands[hand].append((address, source.data_ptr(), size))
            else:
                target.copy_(source, non_blocking=True)
                devices.add(source.device)
        for _ in pool.map(_move_bytes, hands):
            pass
        for device in devices:
            if device.type == "cuda":
                torch.cuda.synchronize(device)

    def close(self) -> None:
        self._targets = {}
        self.writer.close()


def _is_raw(tensor: Tensor) -> bool:
    """Whether its elements lie in host memory as they will lie in the slot."""
    flipped = tensor.is_conj() or tensor.is_neg()
    return tensor.device.type == "cpu" and tensor.is_contiguous() and not flipped


def _dealt(sizes: Sequence[int]) -> list[int]:
    """To which hand each goes, so that all have about the same to carry."""
    loads = [0] * chunks.default_threads()
    hands = [0] * len(sizes)
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        hands[index] = loads.index(min(loads))
        loads[hands[index]] += sizes[index]
    return hands


def _move_bytes(moves: Sequence[tuple[int, int, int]]) -> None:
    """By hand: the threads of torch spin while they wait for each other, which on a busy machine
    made the same copy ten times as long.
    """
    for target, source, size in moves:
        ctypes.memmove(target, source, size)


def load(book: StateBook, place: Path | Sequence[Path]) -> Loaded:
    """Take over the state of a checkpoint, of a slot, or of the slots of one moment."""
    started = time.perf_counter()
    with open_source(place) as opened:
        adoption = adopted(opened, book)
        source = adoption.source
        intake = Intake(book, source.records(), source.facts, lacking=adoption.lacking)
        pieces = _pieces(source, intake.wanted)
        for shard in source.shards:
            mine = [piece for of, piece in pieces if of is shard]
            shard.check(mine, threads=chunks.default_threads())
        intake.make_room()
        for shard, piece in pieces:
            held = _tensor_at(shard.memory, shard.data_at + piece.at, piece.record)
            intake.put(piece.record, held)
        intake.finish()
    seconds = time.perf_counter() - started
    size = sum(record.bytes for record in intake.wanted.values())
    return Loaded(source.step, source.cursor, size, seconds)


def _pieces(source: Source, wanted: Mapping[str, TensorRecord]) -> list[tuple[MappedShard, Piece]]:
    """Those that meet what this worker holds, each box once."""
    seen: set[tuple[str, layout.Extents]] = set()
    found = []
    for shard in source.shards:
        for piece in shard.pieces:
            record = piece.record
            box = (record.name, record.offsets)
            mine = wanted.get(record.name)
            if mine and record.elements and box not in seen and common_part(record, mine):
                seen.add(box)
                found.append((shard, piece))
    return found


def _tensor_at(memory: object, at: int, record: TensorRecord) -> Tensor:
    """The bytes of a record as a tensor, without a copy."""
    dtype = getattr(torch, record.dtype)
    flat = torch.frombuffer(memory, dtype=dtype, count=record.elements, offset=at)
    return flat.view(record.sizes)
