"""An epoch's group in the form in which torch's own code takes one, so that DDP can sum over it.

It carries nothing by itself: each sum is begun on the epoch's group, and so is cut with it. Whoever
waits in torch's C++ for a sum of a group that was cut, or of one that has failed, goes on as if it
were there. The error is kept, and the vote tells everybody that the step does not count: a pass of
DDP's that was begun always comes to its end, and no thread is left in it.
"""

import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.distributed_c10d import Work

from weft.crash import passing
from weft.train.groups.flight import Flight, Pending
from weft.train.groups.group import Group

Sums = torch.futures.Future[list[Tensor]]


class ManagedWork(Work):
    """A sum as torch waits for it."""

    def __init__(self, sums: Sums) -> None:
        super().__init__()
        self._sums = sums

    def wait(self, timeout: object = None) -> bool:
        self._sums.wait()
        return True

    def get_future(self) -> Any:  # noqa: ANN401 - torch's stubs know two kinds of futures
        return self._sums


class ManagedGroup(dist.ProcessGroup):
    """What DDP takes for a process group; it lives as long as the epoch's group."""

    def __init__(self, group: Group, amend: Callable[[Tensor], None]) -> None:
        """`amend` sees each tensor just before it is summed, and may change it."""
        super().__init__(group.rank, group.size)
        self._group, self._amend = group, amend
        self._under_way: list[Pending] = []
        self.failure: BaseException | None = None
        self.began_seconds = 0.0  # the first sum of the step

    def getBackendName(self) -> str:  # noqa: N802 - torch's name
        """As DDP's own records call it."""
        return "weft"

    def open(self) -> None:
        """A step begins."""
        self.failure, self.began_seconds = None, 0.0
        self._under_way = []

    def allreduce(self, tensors: list[Tensor], options: object = None) -> ManagedWork:  # type: ignore[override]
        """Begin a sum; torch calls this whenever one of DDP's buckets is full."""
        (tensor,) = tensors
        self.began_seconds = self.began_seconds or time.perf_counter()
        self._amend(tensor)
        return ManagedWork(self._begun(tensor))

    def wait(self) -> None:
        """Until all sums of the step are there, or one is known to have failed."""
        for flight in self._under_way:
            self._await(flight)
        self._under_way = []

    def _begun(self, tensor: Tensor) -> Sums:
        if self.failure is not None:
            return _there(tensor)
        try:
            flight = self._group.sum(tensor)
            passing("bucket-sent")
        except Exception as error:
            self.failure = error
            return _there(tensor)
        if isinstance(flight, Flight):
            self._under_way.append(flight)
            return flight.promise(tensor)
        self._await(flight)
        return _there(tensor)

    def _await(self, flight: Pending) -> None:
        try:
            flight.wait()
        except Exception as error:
            self.failure = self.failure or error


def _there(tensor: Tensor) -> Sums:
    sums: Sums = torch.futures.Future()
    sums.set_result([tensor])
    return sums
