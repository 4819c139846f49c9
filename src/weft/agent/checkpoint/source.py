"""Where state is loaded from: a checkpoint's folder, or the sealed slots of one moment.

Both are shards of raw bytes with records. Shards are mapped, not read, so that a worker touches
only what it needs; the bytes of a checkpoint are compared with their digests before they are used,
also when an agent has verified all of it before.
"""

import mmap
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from weft.agent.checkpoint import beneath, chunks, inspection
from weft.agent.checkpoint.chunks import CHUNK_BYTES
from weft.agent.checkpoint.document import Json
from weft.agent.checkpoint.errors import Damaged
from weft.agent.checkpoint.facts import together
from weft.agent.checkpoint.layout import Piece, TensorRecord, check_together
from weft.agent.checkpoint.slot import DATA_AT, Slot


@dataclass(frozen=True, slots=True)
class MappedShard:
    """Pieces, the memory in which they lie, and the digests of its chunks if there are any."""

    name: str
    pieces: tuple[Piece, ...]
    memory: mmap.mmap | bytearray
    data_at: int
    digests: tuple[str, ...] = ()

    def check(self, pieces: Iterable[Piece], threads: int, but: Collection[int] = ()) -> None:
        """Compare the chunks in which these lie with their digests, but those that are known."""
        if not self.digests:
            return
        indices = sorted({index for piece in pieces for index in chunks_of(piece)} - set(but))
        view = memoryview(self.memory)[self.data_at :]
        chunks.check_some(view, indices, self.digests, self.name, threads=threads)


@dataclass(frozen=True, slots=True)
class Source:
    """All that was saved at one moment."""

    step: int
    cursor: int
    facts: Json
    shards: tuple[MappedShard, ...]

    def records(self) -> tuple[TensorRecord, ...]:
        """All boxes; several may be of one tensor, or the same."""
        return tuple(piece.record for shard in self.shards for piece in shard.pieces)


@contextmanager
def open_source(place: Path | Sequence[Path]) -> Iterator[Source]:
    """A checkpoint's folder, one slot, or the slots of all workers of a group."""
    if isinstance(place, Path) and place.is_dir():
        with _checkpoint(place) as source:
            yield source
        return
    with _slots([place] if isinstance(place, Path) else place) as source:
        yield source


@contextmanager
def _checkpoint(path: Path) -> Iterator[Source]:
    with ExitStack() as held:
        within = held.enter_context(beneath.folder(path))
        found = inspection.look(within)
        shards = []
        for shard in found.shards:
            file = held.enter_context(beneath.reading(shard.file, within))
            memory = _mapped(file, shard.bytes)
            shards.append(MappedShard(shard.file, shard.pieces, memory, 0, shard.chunks))
        yield Source(found.head.step, found.head.cursor, found.facts, tuple(shards))


@contextmanager
def _slots(paths: Sequence[Path]) -> Iterator[Source]:
    with ExitStack() as held:
        slots = [held.enter_context(Slot(path)) for path in paths]
        stamps = [slot.sealed.stamp for slot in slots]
        if len({(stamp.job, stamp.moment) for stamp in stamps}) != 1:
            raise Damaged("the slots are not of one moment", hint="name those of one snapshot")
        check_together([slot.sealed.pieces for slot in slots], staged=True)
        shards = [
            MappedShard(
                slot.path.name,
                slot.sealed.pieces,
                _mapped(slot.fileno(), DATA_AT + slot.data_bytes),
                DATA_AT,
            )
            for slot in slots
        ]
        facts = together([slot.sealed.facts for slot in slots])
        yield Source(stamps[0].step, stamps[0].cursor, facts, tuple(shards))


def _mapped(file: int, size: int) -> mmap.mmap | bytearray:
    """Private: nothing that is done to the memory reaches the file."""
    return mmap.mmap(file, size, access=mmap.ACCESS_COPY) if size else bytearray()


def chunks_of(piece: Piece) -> range:
    """The numbers of the chunks in which it lies."""
    if piece.end == piece.at:
        return range(0)
    return range(piece.at // CHUNK_BYTES, (piece.end - 1) // CHUNK_BYTES + 1)
