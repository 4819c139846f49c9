"""A backend that behaves as NCCL does, over gloo: so the branch for GPUs is executed code.

It is one of torch's process groups, written in Python. `wait` returns at once, as a stream's does,
and the sum is there a while later; its connections are made by its first operation; what is under
way ends by `abort` and by nothing else. Of tensors it takes floating ones only, in place of those
on a device: a vote, or bytes of the state, must never come its way.
"""

import threading
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from weft.train.backend import Kind, gloo
from weft.train.store import AgentStore

LATE_SECONDS = 0.02


class Later:
    """An operation on its way."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.failure = ""

    def wait(self) -> bool:
        """It lets a stream wait, not the caller."""
        if self.failure:
            raise RuntimeError(self.failure)
        return True

    def is_completed(self) -> bool:
        return self.there.is_set()


class Dawdling(dist.ProcessGroup):
    """Sums that come late."""

    def __init__(
        self, store: AgentStore, rank: int, size: int, host: str, limit: timedelta
    ) -> None:
        super().__init__(rank, size)
        self._ends = (store, rank, size, host, limit)
        self.connected = self.aborted = False
        self._inner: object = None
        self._lock = threading.Lock()

    def allreduce(self, tensors: list[Tensor], options: object = None) -> Later:  # type: ignore[override]
        if not all(tensor.is_floating_point() for tensor in tensors):
            raise RuntimeError("no tensors on a device")
        later = Later()
        held = [tensor.detach().clone() for tensor in tensors]
        threading.Thread(target=self._sum, args=(tensors, held, later), daemon=True).start()
        return later

    def abort(self) -> None:
        self.aborted = True

    def _sum(self, tensors: list[Tensor], held: list[Tensor], later: Later) -> None:
        try:
            with self._lock:
                if self._inner is None:
                    self._inner = gloo(*self._ends)
                    self.connected = True
                self._inner.allreduce(held).wait()  # type: ignore[attr-defined]
            time.sleep(LATE_SECONDS)
            with torch.no_grad():
                for tensor, summed in zip(tensors, held, strict=True):
                    if not self.aborted:
                        tensor.copy_(summed)
        except RuntimeError as error:
            later.failure = str(error)
        if not self.aborted:
            later.there.set()


DAWDLING = Kind("dawdling", Dawdling, streams=True)
