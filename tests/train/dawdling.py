"""A backend that behaves as NCCL does, over gloo: so the branch for GPUs is executed code.

It is one of torch's process groups, written in Python. `wait` returns at once, as a stream's does,
and the sum is there a while later; its connections are made by its first operation; what is under
way ends by `abort` and by nothing else. An abort completes works as if they had succeeded, and
their tensors are not summed. Of tensors it takes floating ones only, in place of those on a device,
and DDP's map of many parameters: a vote, or bytes of the state, must never come.

`latency`, `before_abort` and `after_abort` are hooks: a test replaces them, on the class or on one
backend, to force an order of events.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor

from weft.train.groups.agent_store import AgentStore
from weft.train.groups.backend import Kind, gloo

LATE_SECONDS = 0.02


class Later:
    """An operation on its way."""

    def __init__(self) -> None:
        self.there = threading.Event()
        self.failure = ""
        self.future: torch.futures.Future[list[Tensor]] = torch.futures.Future()

    def wait(self) -> bool:
        """It lets a stream wait, not the caller."""
        if self.failure:
            raise RuntimeError(self.failure)
        return True

    def is_completed(self) -> bool:
        return self.there.is_set()

    def get_future(self) -> "torch.futures.Future[list[Tensor]]":
        """What code of torch's waits for: on a device the stream would, and so would its copies."""
        return self.future

    def complete(self, tensors: list[Tensor]) -> None:
        """A stream goes on when the sum is there, and when all is aborted."""
        self.there.set()
        with suppress(RuntimeError):  # it has been told
            self.future.set_result(tensors)


class Dawdling(dist.ProcessGroup):
    """Sums that come late."""

    #: Passes between the sum on the processors and its appearance in the tensors.
    latency: Callable[[], object] = staticmethod(lambda: time.sleep(LATE_SECONDS))
    #: Called by `abort` before it completes the works, and after it.
    before_abort: Callable[[], object] = staticmethod(lambda: None)
    after_abort: Callable[[], object] = staticmethod(lambda: None)

    def __init__(
        self, store: AgentStore, rank: int, size: int, host: str, limit: timedelta
    ) -> None:
        super().__init__(rank, size)
        self._ends = (store, rank, size, host, limit)
        self.connected = self.aborted = False
        self._inner: object = None
        self._begun: list[Later] = []
        self._lock = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a sum is under way."""
        return not all(later.is_completed() for later in self._begun)

    def allreduce(self, tensors: list[Tensor], options: object = None) -> Later:  # type: ignore[override]
        if not all(_lies_on_a_device(tensor) for tensor in tensors):
            raise RuntimeError("no tensors on a device")
        if self.aborted:
            raise RuntimeError("the communicator was aborted")
        later = Later()
        self._begun.append(later)
        held = [tensor.detach().clone() for tensor in tensors]
        threading.Thread(target=self._sum, args=(tensors, held, later), daemon=True).start()
        return later

    def abort(self) -> None:
        """Complete what is under way, unsummed, and block for as long as the hooks do."""
        self.before_abort()
        self.aborted = True
        for later in list(self._begun):
            later.complete([])
        self.after_abort()

    def _sum(self, tensors: list[Tensor], held: list[Tensor], later: Later) -> None:
        try:
            with self._lock:
                if self._inner is None:
                    self._inner = gloo(*self._ends)
                    self.connected = True
                self._inner.allreduce(held).wait()  # type: ignore[attr-defined]
            self.latency()
            with torch.no_grad():
                for tensor, summed in zip(tensors, held, strict=True):
                    if not self.aborted:
                        tensor.copy_(summed)
        except RuntimeError as error:
            later.failure = str(error)
        later.complete(tensors)


def _lies_on_a_device(tensor: Tensor) -> bool:
    """As far as its kind tells."""
    return tensor.is_floating_point() or (tensor.dtype is torch.int32 and tensor.numel() > 1)


DAWDLING = Kind("dawdling", Dawdling, streams=True)
