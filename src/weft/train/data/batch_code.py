"""Batches as bytes: nested lists, tuples and dicts of tensors, numbers and text.

What comes from another worker is data and nothing else: a description in JSON, then the elements of
the tensors. So batches that travel cannot hold objects of classes that only the script knows.
"""

import json
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import torch
from torch import Tensor

from weft.model.errors import SpecError, WorldError

Portable: TypeAlias = Any  # what the code knows
PLAIN: Final = (str, int, float, bool, type(None))


def portable(data: object) -> Portable:
    """The same in types that can travel; all mappings are dicts."""
    if type(data) in PLAIN or isinstance(data, Tensor):
        return data
    if isinstance(data, Mapping):
        return {portable(key): portable(value) for key, value in data.items()}
    if type(data) is list:
        return [portable(part) for part in data]
    if type(data) is tuple:
        return tuple(portable(part) for part in data)
    raise SpecError(
        f"a batch of a stream has a {type(data).__name__} in it, which cannot be sent to another "
        "worker",
        hint="collate samples to tensors, numbers and text, in lists, tuples and dicts",
    )


def packed(data: Portable, **told: object) -> tuple[bytes, bytes]:
    """A description with what else is told, and the elements of all tensors."""
    tensors: list[Tensor] = []
    tree = _described(data, tensors)
    shapes = [[str(one.dtype).removeprefix("torch."), list(one.shape)] for one in tensors]
    head = json.dumps({**told, "tree": tree, "tensors": shapes}).encode()
    return head, b"".join(_elements(one) for one in tensors)


def unpacked(head: bytes, body: bytearray) -> tuple[Portable, dict[str, Any]]:
    """The batch, and what else was told."""
    told = json.loads(head)
    tensors, at = [], 0
    for name, shape in told.pop("tensors"):
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise WorldError(f"a batch came with elements of type {name!r}")
        size = dtype.itemsize * torch.Size(shape).numel()
        part = torch.frombuffer(body, dtype=torch.uint8, count=size, offset=at) if size else None
        tensors.append(
            torch.empty(shape, dtype=dtype)
            if part is None
            else part.clone().view(dtype).reshape(shape)
        )
        at += size
    return _rebuilt(told.pop("tree"), tensors), told


def _described(data: Portable, tensors: list[Tensor]) -> object:
    if isinstance(data, Tensor):
        tensors.append(data)
        return ["tensor", len(tensors) - 1]
    if isinstance(data, dict):
        pairs = [[_described(part, tensors) for part in pair] for pair in data.items()]
        return ["dict", pairs]
    if isinstance(data, list | tuple):
        return [type(data).__name__, [_described(part, tensors) for part in data]]
    return ["plain", data]


def _rebuilt(tree: Any, tensors: list[Tensor]) -> Portable:  # noqa: ANN401 - what JSON gives
    kind, held = tree
    if kind == "tensor":
        return tensors[held]
    if kind == "plain":
        return held
    if kind == "dict":
        return {_rebuilt(key, tensors): _rebuilt(value, tensors) for key, value in held}
    parts = [_rebuilt(part, tensors) for part in held]
    return tuple(parts) if kind == "tuple" else parts


def _elements(tensor: Tensor) -> bytes:
    flat = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""
