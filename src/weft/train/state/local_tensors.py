"""A tensor as this worker holds it: its name, its part of the whole, and its bytes.

A tensor that is sharded (FSDP2) appears as the part that lies here, with the box that the part is
of the whole; any other one is its own whole.
"""

from functools import lru_cache
from typing import Any, Final

import torch
from torch import Tensor

from weft.agent.checkpoint.errors import Damaged, UnsavableState
from weft.agent.checkpoint.layout import Extents, TensorRecord, check_record

# Wrappers that put themselves into the names of what they wrap.
_WRAPPERS: Final = frozenset(
    {"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_weft_net"}
)


def clean(name: str) -> str:
    """The name that a parameter has without wrappers around its module."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)


def local_part(tensor: Tensor) -> Tensor:
    """What this worker holds: the same memory, outside of autograd."""
    if not is_sharded(tensor):
        return tensor.detach()
    sharded: Any = tensor
    with torch.no_grad():
        held: Tensor = sharded.to_local()
    return held.detach()


def record_of(name: str, tensor: Tensor) -> TensorRecord:
    if tensor.layout is not torch.strided or tensor.device.type == "meta":
        raise UnsavableState(
            f"{name} is no dense tensor with memory", hint="keep it out of the state"
        )
    shape = tuple(tensor.shape)
    offsets, sizes = _box(name, tensor) if is_sharded(tensor) else ((0,) * len(shape), shape)
    return _checked(name, tensor.dtype, shape, offsets, sizes)


def bytes_of(tensor: Tensor) -> memoryview:
    """The elements in order, as raw bytes on the host."""
    flat = tensor.cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().data


def is_sharded(tensor: Tensor) -> bool:
    """A DTensor; asked without the import, which would cost all others half a second."""
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


@lru_cache(maxsize=1 << 17)
def _checked(
    name: str, dtype: torch.dtype, shape: Extents, offsets: Extents, sizes: Extents
) -> TensorRecord:
    """Made once for each tensor: a snapshot describes the same ones again and again."""
    record = TensorRecord(name, str(dtype).removeprefix("torch."), shape, offsets, sizes)
    try:
        check_record(record)
    except Damaged as error:
        raise UnsavableState(f"{name} cannot be saved: {error}", hint="rename it") from error
    return record


def _box(name: str, tensor: Tensor) -> tuple[Extents, Extents]:
    """Where the part that is held begins in the whole, and its size, as torch cuts tensors."""
    offsets, sizes = [0] * tensor.ndim, list(tensor.shape)
    sharded: Any = tensor
    mesh = sharded.device_mesh
    cuts = zip(mesh.shape, mesh.get_coordinate(), sharded.placements, strict=True)
    for count, place, placement in sorted(cuts, key=lambda cut: _is_strided(cut[2])):
        if placement.is_replicate():
            continue
        if type(placement).__name__ != "Shard" and not _is_strided(placement):
            raise UnsavableState(
                f"{name} is laid out as {placement}", hint="use plans of plain shards"
            )
        length = sizes[placement.dim]
        part = -(-length // count)
        start = min(length, part * place)
        offsets[placement.dim] += start
        sizes[placement.dim] = min(part, length - start)
    if tuple(sizes) != tuple(local_part(tensor).shape):
        raise UnsavableState(
            f"{name} does not hold the part that its mesh says", hint="make the mesh anew"
        )
    return tuple(offsets), tuple(sizes)


def _is_strided(placement: object) -> bool:
    """FSDP2 over what is split by tensors already: a part of the part that lies here."""
    return type(placement).__name__ == "_StridedShard"
