"""How tensors lie in a file: one record per tensor that a worker holds, raw bytes 64 bytes apart.

A record names a tensor of the whole model by its global shape and says which box of it this worker
holds; the boxes of all workers tile the tensor. The same records describe shared memory, the disk
and a transfer between workers, so state that was saved under one plan can be read under any other.

Positions are a function of the records' order. A file may state them, but never choose them: what
it states is compared, so records cannot overlap however hostile the file is.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from weft.agent.checkpoint.document import MOST_COUNT, Fields, Json
from weft.agent.checkpoint.errors import Damaged

ALIGNMENT: Final = 64
MOST_DIMENSIONS: Final = 32
MOST_NAME: Final = 1024
MOST_RECORDS: Final = 1_000_000
ROOTS: Final = ("model", "optimizer", "extra")
ITEM_BYTES: Final[Mapping[str, int]] = {
    **dict.fromkeys(("bool", "uint8", "int8"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"), 1),
    **dict.fromkeys(("float16", "bfloat16", "int16", "uint16"), 2),
    **dict.fromkeys(("float32", "int32", "uint32"), 4),
    **dict.fromkeys(("float64", "int64", "uint64", "complex64"), 8),
    "complex128": 16,
}

Extents = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """A box of one tensor: what a worker holds of it."""

    name: str
    dtype: str
    shape: Extents
    offsets: Extents
    sizes: Extents

    @property
    def elements(self) -> int:
        return math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        return self.elements * ITEM_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Piece:
    """A record, and where its bytes begin."""

    record: TensorRecord
    at: int

    @property
    def end(self) -> int:
        return self.at + self.record.bytes


def whole(name: str, dtype: str, shape: Iterable[int]) -> TensorRecord:
    """The record of a worker that holds all of a tensor."""
    extents = tuple(shape)
    return TensorRecord(name, dtype, extents, (0,) * len(extents), extents)


def pack(records: Iterable[TensorRecord]) -> tuple[Piece, ...]:
    """One after the other, each at a multiple of 64 bytes."""
    pieces, at = [], 0
    for record in records:
        pieces.append(Piece(record, at))
        at = aligned(pieces[-1].end)
    return tuple(pieces)


def packed_bytes(pieces: Sequence[Piece]) -> int:
    """The length of a file that holds them."""
    return aligned(pieces[-1].end) if pieces else 0


def aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def parted(records: Sequence[TensorRecord], part: int, parts: int) -> tuple[TensorRecord, ...]:
    """What one of so many writers holds of state that all of them have: equal bytes, to a row.

    Rows of one tensor after the other go to the first writer until it has its share, then to the
    next. A single number is held by all, as by the members of a sharded replica.
    """
    total, at, found = sum(record.bytes for record in records), 0, []
    for record in records:
        first, beyond = (_row(record, at, total, Fraction(k, parts)) for k in (part, part + 1))
        found.append(_rows(record, first, beyond))
        at += record.bytes
    return tuple(found)


def _row(record: TensorRecord, at: int, total: int, share: Fraction) -> int:
    """The first row that begins beyond that share of all bytes, where the tensor begins at `at`."""
    if not record.elements or not record.sizes:
        return 0
    rows = record.sizes[0]
    return min(max(math.ceil((share * total - at) / (record.bytes // rows)), 0), rows)


def _rows(record: TensorRecord, first: int, beyond: int) -> TensorRecord:
    if not record.elements or not record.sizes:
        return record
    return replace(
        record,
        offsets=(record.offsets[0] + first, *record.offsets[1:]),
        sizes=(beyond - first, *record.sizes[1:]),
    )


def common_part(
    held: TensorRecord, wanted: TensorRecord
) -> tuple[tuple[slice, ...], tuple[slice, ...]] | None:
    """The box in both, as slices of the one and of the other; None where they do not meet."""
    of_held, of_wanted = [], []
    for at, size, to, length in zip(
        held.offsets, held.sizes, wanted.offsets, wanted.sizes, strict=True
    ):
        start, stop = max(at, to), min(at + size, to + length)
        if start >= stop:
            return None
        of_held.append(slice(start - at, stop - at))
        of_wanted.append(slice(start - to, stop - to))
    return tuple(of_held), tuple(of_wanted)


def check_record(record: TensorRecord) -> None:
    """Refuse what no worker of ours can hold."""
    check_name(record.name)
    if record.dtype not in ITEM_BYTES:
        raise Damaged(f"{record.name}: no number type is called {record.dtype[:32]!r}")
    extents = (record.shape, record.offsets, record.sizes)
    if len({len(extent) for extent in extents}) != 1 or len(record.shape) > MOST_DIMENSIONS:
        raise Damaged(f"{record.name}: shape, offsets and sizes do not go together")
    for length, offset, size in zip(*extents, strict=True):
        if min(length, offset, size) < 0 or offset + size > length:
            raise Damaged(f"{record.name}: {offset}+{size} lies outside of {length}")
    elements: int = math.prod(record.shape)
    if elements * ITEM_BYTES[record.dtype] > MOST_COUNT:
        raise Damaged(f"{record.name}: {record.shape} is larger than any tensor")


def check_name(name: str) -> None:
    """Names are no paths and are never used as such; those that look like a trick are refused."""
    parts = name.split("/")
    if not 0 < len(name) <= MOST_NAME or not name.isprintable() or "\\" in name:
        raise Damaged(f"{name[:64]!r} is no name of a tensor")
    if parts[0] not in ROOTS or len(parts) == 1 or {"", ".", ".."} & set(parts):
        raise Damaged(f"{name[:64]!r} is no name of a tensor")


def check_together(shards: Sequence[Sequence[Piece]], *, staged: bool) -> None:
    """Workers together hold each tensor whole, and name the same ones unless they are stages."""
    names = [[piece.record.name for piece in pieces] for pieces in shards]
    if not staged and any(other != names[0] for other in names):
        raise Damaged("workers do not hold parts of the same tensors")
    check_whole(piece.record for pieces in shards for piece in pieces)


def check_whole(records: Iterable[TensorRecord]) -> None:
    """The boxes of a tensor tile it; several workers may hold the same box."""
    parts: dict[str, list[TensorRecord]] = {}
    for record in records:
        parts.setdefault(record.name, []).append(record)
    for name, boxes in parts.items():
        if len({(box.dtype, box.shape) for box in boxes}) > 1:
            raise Damaged(f"{name}: workers disagree about its type or shape")
        filled = {(box.offsets, box.sizes) for box in boxes if box.elements}
        shape = boxes[0].shape
        if 0 not in shape and not _tiled(list(filled), shape):
            raise Damaged(f"{name}: its parts do not make up {shape}")


def _tiled(boxes: Sequence[tuple[Extents, Extents]], shape: Extents, dim: int = 0) -> bool:
    """Slabs along the first dimension, each tiled along the others: so cut all plans."""
    if dim == len(shape):
        return len(boxes) == 1
    slabs: dict[tuple[int, int], list[tuple[Extents, Extents]]] = {}
    for offsets, sizes in boxes:
        slabs.setdefault((offsets[dim], sizes[dim]), []).append((offsets, sizes))
    edge = 0
    for (offset, size), slab in sorted(slabs.items()):
        if offset != edge or not _tiled(slab, shape, dim + 1):
            return False
        edge += size
    return edge == shape[dim]


def to_json(pieces: Iterable[Piece]) -> list[Json]:
    return [
        {
            "name": piece.record.name,
            "dtype": piece.record.dtype,
            "shape": list(piece.record.shape),
            "offsets": list(piece.record.offsets),
            "sizes": list(piece.record.sizes),
            "at": piece.at,
        }
        for piece in pieces
    ]


def from_json(values: Sequence[object], where: str) -> tuple[Piece, ...]:
    """Pieces as stated, each where it must be."""
    pieces = pack(_record(value, where) for value in values)
    for piece, value in zip(pieces, values, strict=True):
        if Fields(value, where).count("at") != piece.at:
            raise Damaged(f"{where}: {piece.record.name} is said to lie elsewhere")
    if len({piece.record.name for piece in pieces}) != len(pieces):
        raise Damaged(f"{where}: a tensor is named twice")
    return pieces


def _record(value: object, where: str) -> TensorRecord:
    fields = Fields(value, where)
    fields.only("name", "dtype", "shape", "offsets", "sizes", "at")
    record = TensorRecord(
        name=fields.text("name", most=MOST_NAME),
        dtype=fields.text("dtype", most=32),
        shape=fields.counts("shape", most=MOST_DIMENSIONS),
        offsets=fields.counts("offsets", most=MOST_DIMENSIONS),
        sizes=fields.counts("sizes", most=MOST_DIMENSIONS),
    )
    check_record(record)
    return record
