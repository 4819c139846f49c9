"""The line: waiting jobs in rank order, asked kind by kind.

What fails for a job fails for all of its kind behind it, so a kind leaves the line at its first
failure and the others of it are told the same. Only the first of each kind that is still in the
line is ever looked at; which of these is next, a heap says.
"""

from heapq import heapify, heappop, heappush

import numpy as np

from weft.model.snapshot import Bools, Ints

UNASKED = -1
FEW = 24
"""Up to here a loop is faster than the sorting of columns."""


class Line:
    """`rows` are rows of reasons as they are found; 0 means that seats were granted."""

    def __init__(self, slots: Ints, keys: Ints, widths: Ints, begin: int = 0) -> None:
        """`keys` are equal for jobs of one kind and width; `begin` is the rank of the first."""
        self.slots = slots
        self.widths = widths
        self.begin = begin
        self.rows: Ints = np.full(len(slots), UNASKED)
        self._keys = keys
        self._waiting: dict[int, Ints] = {}
        self._gone: dict[int, Ints] = {}
        self._heads: list[tuple[int, int]] = []

    def form(self) -> None:
        """Line up all who were not asked yet."""
        unasked = np.flatnonzero(self.rows == UNASKED)
        self._waiting = _by_key(unasked, self._keys[unasked])
        self._gone = {}
        self._heads = [(int(group[0]), key) for key, group in self._waiting.items()]
        heapify(self._heads)

    def next(self) -> tuple[int, int] | None:
        """Index and key of the first in line; None when nobody is left."""
        return heappop(self._heads) if self._heads else None

    def stay(self, index: int, key: int, row: int) -> None:
        """This one is told; the others of its kind are still to be asked."""
        self.rows[index] = row
        self._advance(key, self._waiting[key][1:])

    def leave(self, index: int, key: int, row: int) -> None:
        """This one and all of its kind behind it are told the same."""
        self._gone[key] = self._waiting.pop(key)
        self.rows[self._gone[key]] = row
        self.rows[index] = row

    def leave_but(self, index: int, key: int, row: int, stays: Bools) -> None:
        """The same, but for those of its kind, over all slots, who are still to be asked."""
        self.rows[index] = row
        rest = self._waiting[key][1:]
        may = stays[self.slots[rest]]
        self.rows[rest[~may]] = row
        self._advance(key, rest[may])

    def step_aside(self, key: int) -> None:
        """The kind is not asked in this pass."""
        del self._waiting[key]

    def come_back(self, index: int) -> None:
        """Something was given back: those behind `index` whose kind had left are asked again."""
        for key, group in self._gone.items():
            later = group[np.searchsorted(group, index, side="right") :]
            self.rows[later] = UNASKED
            self._advance(key, later)
        self._gone = {}

    def _advance(self, key: int, rest: Ints) -> None:
        self._waiting[key] = rest
        if len(rest):
            heappush(self._heads, (int(rest[0]), key))


def _by_key(indexes: Ints, keys: Ints) -> dict[int, Ints]:
    """The indexes of each key, rising."""
    if len(indexes) <= FEW:
        lists: dict[int, list[int]] = {}
        for index, key in zip(indexes.tolist(), keys.tolist(), strict=True):
            lists.setdefault(key, []).append(index)
        return {key: np.array(group) for key, group in lists.items()}
    order = np.argsort(keys, kind="stable")
    keys, indexes = keys[order], indexes[order]
    cuts = np.flatnonzero(keys[1:] != keys[:-1]) + 1
    firsts = keys[np.append(0, cuts)].tolist()
    return dict(zip(firsts, np.split(indexes, cuts), strict=True))
