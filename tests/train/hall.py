"""A group of threads that sum tensors as processes do: of what stood there when the sum began."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from torch import Tensor

from tests.waiting import HANG_SECONDS
from weft.train.groups.group import Alone

Made = TypeVar("Made")


class Hall:
    """Where the members meet; the n-th sum of one is the n-th of all."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.brought: dict[int, dict[int, Tensor]] = {}
        self.changed = threading.Condition()

    def run(self, member: Callable[["Together"], Made]) -> list[Made]:
        """What each member comes to, by rank."""
        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(member, [Together(self, rank) for rank in range(self.size)]))


class Sum:
    """One that was begun, or the handing out of what one of them has."""

    def __init__(self, hall: Hall, number: int, tensor: Tensor, root: int | None) -> None:
        self._hall, self._number, self._tensor, self._root = hall, number, tensor, root

    def wait(self) -> None:
        hall = self._hall
        with hall.changed:
            there = hall.brought[self._number]
            assert hall.changed.wait_for(lambda: len(there) == hall.size, HANG_SECONDS)
        parts = [there[rank] for rank in range(hall.size)]
        assert len({part.shape for part in parts}) == 1, "they sum different things"
        self._tensor.copy_(sum(parts[1:], parts[0]) if self._root is None else parts[self._root])


class Together(Alone):
    """A member's view of it."""

    def __init__(self, hall: Hall, rank: int) -> None:
        self.rank, self.size = rank, hall.size
        self._hall, self._sums = hall, 0

    def sum(self, tensor: Tensor) -> Sum:
        return self._begin(tensor, None)

    def broadcast(self, tensor: Tensor, root: int) -> Sum:
        return self._begin(tensor, root)

    def _begin(self, tensor: Tensor, root: int | None) -> Sum:
        number, self._sums = self._sums, self._sums + 1
        with self._hall.changed:
            self._hall.brought.setdefault(number, {})[self.rank] = tensor.detach().clone()
            self._hall.changed.notify_all()
        return Sum(self._hall, number, tensor, root)
