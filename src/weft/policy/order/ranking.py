"""A ranking: the keys by which active jobs are ordered, smallest first.

Priority stands before every order and the sequence of submission behind it: ties never depend on
where a job happens to be stored. An order may sort jobs into feedback levels, which the brain
remembers between rounds, and may ask for a round at the moment its own order would change. Inside a
level it is first come, first served, with running jobs before waiting ones, as in Tiresias.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot

Key = Floats | Ints

ONE_KEY_AND_SEQUENCE = 2
"""Up to here two stable sorts are several times faster than a lexicographic one."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Keys over the given slots, most significant first."""

    keys: tuple[Key, ...]
    levels: Ints | None = None
    promoted: Bools | None = None
    wake: float | None = None

    def sorted(self, snapshot: Snapshot, slots: Ints) -> Ints:
        """Positions into `slots`, first job first."""
        jobs = snapshot.jobs
        priority = jobs.priority[slots]
        keys: list[Key] = [jobs.seq[slots], *reversed(self.keys)]
        if len(priority) and priority.max() != priority.min():
            keys.append(-priority)
        if len(keys) > ONE_KEY_AND_SEQUENCE:
            return np.lexsort(keys)
        order = np.argsort(keys[0], kind="stable")
        for key in keys[1:]:
            order = order[np.argsort(key[order], kind="stable")]
        return order

    def leading(self, snapshot: Snapshot, slots: Ints, count: int) -> Ints:
        """Positions of at least the first `count`, in order; much cheaper than sorting all."""
        priority = snapshot.jobs.priority[slots]
        if len(slots) <= count or len(self.keys) != 1 or priority.max() != priority.min():
            return self.sorted(snapshot, slots)
        key = self.keys[0]
        some = np.flatnonzero(key <= np.partition(key, count)[count])
        return some[np.lexsort((snapshot.jobs.seq[slots[some]], key[some]))]


def by_level(snapshot: Snapshot, slots: Ints, levels: Ints) -> tuple[Key, ...]:
    """Keys of feedback levels: a job new to its level goes to its end, the others keep their order.

    Those are as in the last round, which the brain remembers.
    """
    jobs = snapshot.jobs
    moved = (levels != jobs.level[slots]) | (jobs.rank[slots] < 0)
    waiting = jobs.gpu_rate[slots] <= 0
    return levels, moved, waiting & ~moved, np.where(moved, 0, jobs.rank[slots])


class Order(Protocol):
    """Ranks active jobs."""

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking: ...
