"""The tensors of a checkpoint put together from the parts that its workers have saved."""

from collections.abc import Sequence

import torch
from torch import Tensor

from weft.agent.checkpoint import chunks, layout
from weft.agent.checkpoint.layout import TensorRecord, common_part
from weft.agent.checkpoint.source import MappedShard, Source, chunks_of


class Wholes:
    """Each tensor by name; one that a single worker held is a view of the file."""

    def __init__(self, source: Source) -> None:
        self._parts: dict[str, list[tuple[MappedShard, layout.Piece]]] = {}
        self._known: dict[str, set[int]] = {}
        for shard in source.shards:
            for piece in shard.pieces:
                self._parts.setdefault(piece.record.name, []).append((shard, piece))

    @property
    def names(self) -> Sequence[str]:
        return sorted(self._parts)

    def record(self, name: str) -> TensorRecord:
        """What all of it is."""
        first = self._parts[name][0][1].record
        return layout.whole(name, first.dtype, first.shape)

    def bytes(self, name: str) -> int:
        return self.record(name).bytes

    def check(self, name: str) -> None:
        """Compare what was written of it with its digests; many tensors may share a chunk."""
        for shard, piece in self._parts[name]:
            known = self._known.setdefault(shard.name, set())
            shard.check([piece], threads=chunks.default_threads(), but=known)
            known.update(chunks_of(piece))

    def tensor(self, name: str) -> Tensor:
        """All of it, every byte compared with its digest before."""
        self.check(name)
        wanted = self.record(name)
        for shard, piece in self._parts[name]:
            if piece.record == wanted:
                return tensor_at(shard.memory, shard.data_at + piece.at, piece.record)
        whole = torch.empty(wanted.shape, dtype=getattr(torch, wanted.dtype))
        for shard, piece in self._parts[name]:
            part = common_part(piece.record, wanted) if piece.record.elements else None
            if part is not None:
                held = tensor_at(shard.memory, shard.data_at + piece.at, piece.record)
                whole[part[1]] = held[part[0]]
        return whole


def tensor_at(memory: object, at: int, record: TensorRecord) -> Tensor:
    """The bytes of a record as a tensor, without a copy."""
    dtype = getattr(torch, record.dtype)
    if not record.elements:
        return torch.empty(record.sizes, dtype=dtype)
    flat = torch.frombuffer(memory, dtype=dtype, count=record.elements, offset=at)
    return flat.view(record.sizes)
