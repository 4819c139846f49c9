"""A copy of each shard's snapshot with a neighbour: what survives the loss of a machine.

Plain replicas hold the whole state many times over. A single sharded replica does not: when one of
its machines is lost with its shared memory, that part of the newest snapshot is lost too, and the
job falls back to the last durable checkpoint. So after each snapshot every worker sends its sealed
slot to the next one, which keeps it beside its own (Gemini, SOSP 2023, keeps checkpoints in peers'
memory for this). It runs beside the training, on a group of its own.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import torch
from torch import Tensor

from weft.agent.checkpoint.slot import Slot
from weft.train.groups.group import Group

CHUNK_BYTES: Final = 4 * 1024 * 1024
HEADER_TAG: Final = 1
FIRST_TAG: Final = 16


def peer_path(folder: Path, origin: int) -> Path:
    """Where the copy of another worker's slot is kept."""
    return folder / f"worker-{origin}.peer"


class PeerCopies:
    """Sends this worker's snapshots to the next one, and keeps those of the one before."""

    def __init__(self, group: Group, folder: Path, origin: int, *, epoch: int = 0) -> None:
        self._group, self._folder, self.origin, self.epoch = group, folder, origin, epoch
        self._thread: threading.Thread | None = None
        self.failure: Exception | None = None

    def exchange(self, slot: Path | None, then: Callable[[Path], None]) -> None:
        """In the background; `then` is told of a copy that has arrived. All take part at once."""
        self.wait()
        self._thread = threading.Thread(
            target=self._run, args=(slot, then), name="weft-peers", daemon=True
        )
        self._thread.start()

    def wait(self) -> None:
        """Until the exchange under way is over."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, slot: Path | None, then: Callable[[Path], None]) -> None:
        try:
            if slot is None:
                arrived = self._swap(None, 0)
            else:
                with Slot(slot) as held:
                    size = os.fstat(held.fileno()).st_size
                    arrived = self._swap(held.fileno(), size)
        except Exception as error:
            self.failure = error
            return
        if arrived is not None:
            then(arrived)

    def _swap(self, file: int | None, size: int) -> Path | None:
        """Chunk by chunk in both directions, so that neither waits for the other's end."""
        following = (self._group.rank + 1) % self._group.size
        before = (self._group.rank - 1) % self._group.size
        header, theirs = torch.tensor([size]), torch.zeros(1, dtype=torch.int64)
        sent = self._group.send(header, following, HEADER_TAG)
        self._group.receive(theirs, before, HEADER_TAG).wait()
        sent.wait()
        coming = int(theirs.item())
        path = peer_path(self._folder, self.origin)
        unfinished = path.with_suffix(".arriving")
        with unfinished.open("wb") as copy:
            for number, at in enumerate(range(0, max(size, coming), CHUNK_BYTES)):
                flight = None
                if file is not None and at < size:
                    flight = self._group.send(_chunk(file, at, size), following, FIRST_TAG + number)
                if at < coming:
                    chunk = torch.empty(min(CHUNK_BYTES, coming - at), dtype=torch.uint8)
                    self._group.receive(chunk, before, FIRST_TAG + number).wait()
                    copy.write(chunk.numpy().tobytes())
                if flight is not None:
                    flight.wait()
        if not coming:
            unfinished.unlink()
            return None
        unfinished.rename(path)
        return path


def _chunk(file: int, at: int, size: int) -> Tensor:
    block = bytearray(os.pread(file, min(CHUNK_BYTES, size - at), at))
    return torch.frombuffer(block, dtype=torch.uint8)
