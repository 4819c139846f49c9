"""Small tensors from each worker to all, by way of the agent's store.

Not by the groups of the epoch: a script that asks for a mean on one worker only would meet another
one's gradients there. Here it waits for a key of which it knows whose it is, and can say so. What a
worker has told stays told when it is lost.
"""

import json
import struct
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

import torch
from torch import Tensor

from weft.model.errors import SpecError, WorldError
from weft.train.groups.agent_store import AgentStore
from weft.train.membership.contact import Contact

PREFIX: Final = "figures/"
PIECE_BYTES: Final = 512 * 1024
MOST_BYTES: Final = 64 * 1024 * 1024
_SIZES: Final = struct.Struct("<II")  # of the description, and the number of pieces


class StoreGather:
    """One meeting after the other; whoever has come to one has heard all of those before it."""

    def __init__(self, contact: Contact) -> None:
        self._me, self._contact = contact.worker, contact
        self._store = AgentStore(contact, PREFIX, timedelta(), follows=True)
        self._told: dict[str, bytes] = {}
        self._old: dict[str, bytes] = {}
        if contact.heads is not None:
            contact.heads.moved.append(self._tell_again)

    def tell(self, meeting: str, value: Tensor) -> None:
        """Let the others have it; if the head is lost meanwhile, the next one will be told."""
        pieces = enumerate(_pieces(_packed(value)))
        told = {f"{meeting}/{self._me}/{number}": piece for number, piece in pieces}
        self._old, self._told = self._told, told
        try:
            self._store.follow()
            _set(self._store, told)
        except WorldError:
            if not self._store.follows:
                raise

    def _tell_again(self) -> None:
        """Another head's store knows nothing, and whoever is behind still waits for it."""
        with suppress(WorldError):
            store = AgentStore(self._contact, PREFIX, timedelta())
            _set(store, {**self._old, **self._told})
            store.close()

    def hear(self, meeting: str, worker: int, seconds: float) -> Tensor | None:
        """What it has told; None if it has not within that time."""
        first = self._get(f"{meeting}/{worker}/0", seconds)
        if first is None:
            return None
        _, pieces = _SIZES.unpack_from(first)
        found = [first]
        for number in range(1, pieces):
            piece = self._get(f"{meeting}/{worker}/{number}", seconds)
            if piece is None:
                return None
            found.append(piece)
        return _unpacked(b"".join(found))

    def close(self) -> None:
        """All have been heard, so nobody wants what was told before."""
        old, self._old = self._old, {}
        try:
            for key in old:
                self._store.delete_key(key)
        except WorldError:
            if not self._store.follows:
                raise

    def _get(self, key: str, seconds: float) -> bytes | None:
        self._store.set_timeout(timedelta(seconds=seconds))
        try:
            self._store.follow()
            return self._store.get(key)
        except WorldError:
            return None
        finally:
            self._store.told.clear()


def _set(store: AgentStore, told: Mapping[str, bytes]) -> None:
    for key, piece in told.items():
        store.set(key, piece)
    store.told.clear()


def _packed(value: Tensor) -> bytes:
    flat = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
    raw = flat.reshape(-1).view(torch.uint8).numpy().tobytes()
    if len(raw) > MOST_BYTES:
        raise SpecError(
            f"{len(raw) >> 20} MiB are too much for weft.gather",
            hint="gather figures and predictions, and keep large tensors where they are",
        )
    told = {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
    description = json.dumps(told).encode()
    size = _SIZES.size + len(description) + len(raw)
    return _SIZES.pack(len(description), max(1, -(-size // PIECE_BYTES))) + description + raw


def _unpacked(text: bytes) -> Tensor:
    length, _ = _SIZES.unpack_from(text)
    start = _SIZES.size + length
    told = json.loads(text[_SIZES.size : start])
    dtype, shape = getattr(torch, told["dtype"]), told["shape"]
    if start == len(text):
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(text[start:]), dtype=dtype).reshape(shape)


def _pieces(text: bytes) -> Iterator[bytes]:
    for start in range(0, len(text), PIECE_BYTES):
        yield text[start : start + PIECE_BYTES]
