"""Quota: who may take how much, who borrows, and what may be reclaimed from whom.

Rules, for a queue and every ancestor of it:
  * what its jobs hold never grows beyond its limit; without leave to borrow, nor beyond its
    guarantee; a job that may not be preempted counts only on guarantees, else it could keep
    for ever what was lent;
  * a queue whose use would stay within its guarantee may reclaim: below the place where its
    path and the victim's part, the claimant must stay within every guarantee and the victim's
    queues must all be over theirs.
Usage is given in from what is held; the ledger changes it only for the length of one round.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from weft.model.ids import QueueId
from weft.model.queue import QueueTree
from weft.model.snapshot import Bools, Ints

NO_LIMIT = 1 << 60


@dataclass(frozen=True, slots=True)
class QuotaTable:
    """The queue tree as rows: path to the root, cap and guarantee of each queue.

    A queue is `restricted` if something may be refused to it; `limited` says that some queue is.
    `steps` are the paths as columns, filled up with the row after the last queue's.
    """

    ids: tuple[QueueId, ...]
    paths: tuple[tuple[int, ...], ...]
    steps: Ints
    limits: tuple[int, ...]
    caps: tuple[int, ...]
    guaranteed: tuple[int, ...]
    divided: bool
    restricted: tuple[bool, ...]
    limited: bool

    @classmethod
    def of(cls, tree: QueueTree) -> "QuotaTable":
        ids = tuple(queue.id for queue in tree.queues)
        rows = {queue_id: row for row, queue_id in enumerate(ids)}
        paths = tuple(tuple(rows[step.id] for step in tree.path(queue_id)) for queue_id in ids)
        guaranteed = tuple(tree.guaranteed(queue_id) for queue_id in ids)
        limits = tuple(NO_LIMIT if q.limit_gpus is None else q.limit_gpus for q in tree.queues)
        caps = tuple(
            limit if queue.borrowing or not tree.divided else min(limit, promised)
            for queue, limit, promised in zip(tree.queues, limits, guaranteed, strict=True)
        )
        restricted = tuple(
            tree.divided or any(caps[step] < NO_LIMIT for step in path) for path in paths
        )
        return cls(
            ids=ids,
            paths=paths,
            steps=_columns(paths),
            limits=limits,
            caps=caps,
            guaranteed=guaranteed,
            divided=tree.divided,
            restricted=restricted,
            limited=any(restricted),
        )

    def sums(self, own: list[int]) -> list[int]:
        """Use of every queue, its descendants' included, from each queue's own."""
        total = [0] * len(self.ids)
        for row, gpus in enumerate(own):
            if gpus:
                for step in self.paths[row]:
                    total[step] += gpus
        return total


def _columns(paths: tuple[tuple[int, ...], ...]) -> Ints:
    deepest = max(map(len, paths), default=0)
    return np.array([(*path, *[len(paths)] * (deepest - len(path))) for path in paths], np.int64)


class QuotaLedger:
    """Use by queue during one round."""

    __slots__ = ("table", "used")

    def __init__(self, table: QuotaTable, own: list[int]) -> None:
        self.table = table
        self.used = table.sums(own)

    def take(self, queue: int, gpus: int) -> None:
        for step in self.table.paths[queue]:
            self.used[step] += gpus

    def give(self, queue: int, gpus: int) -> None:
        self.take(queue, -gpus)

    def refusing(self, queue: int, gpus: int, *, firm: bool = False) -> int | None:
        """The queue on the path that has no room for `gpus` more, nearest the leaf first."""
        table = self.table
        if not gpus or not table.restricted[queue]:
            return None
        caps = table.guaranteed if firm and table.divided else table.caps
        for step in table.paths[queue]:
            if self.used[step] + gpus > min(caps[step], table.caps[step]):
                return step
        return None

    def room(self, queue: int, *, firm: bool = False) -> int:
        """The most GPUs that the queue and its ancestors would let a job have now."""
        table = self.table
        if not table.restricted[queue]:
            return NO_LIMIT
        caps = table.guaranteed if firm and table.divided else table.caps
        return min(min(caps[s], table.caps[s]) - self.used[s] for s in table.paths[queue])

    def never(self, queue: int, gpus: int, *, firm: bool = False) -> int | None:
        """The queue on the path that could not hold `gpus` even if it were empty."""
        table = self.table
        caps = table.guaranteed if firm and table.divided else table.caps
        for step in table.paths[queue]:
            if gpus > min(caps[step], table.caps[step]):
                return step
        return None

    def within_guarantee(self, queue: int, gpus: int) -> bool:
        """Whether `gpus` more stay inside the guarantee of the queue and all its ancestors."""
        return all(
            self.used[step] + gpus <= self.table.guaranteed[step]
            for step in self.table.paths[queue]
        )

    def spares(self, queue: int, gpus: int) -> bool:
        """Whether the queue and its ancestors keep their guarantees without `gpus` of theirs."""
        return all(
            self.used[step] - gpus >= self.table.guaranteed[step] or not self.table.guaranteed[step]
            for step in self.table.paths[queue]
        )

    def borrows(self, queue: int, victim: int) -> bool:
        """Whether every queue of the victim below the common ancestor is over its guarantee."""
        mine, guaranteed = self.table.paths[queue], self.table.guaranteed
        return all(
            self.used[step] > guaranteed[step]
            for step in self.table.paths[victim]
            if step not in mine
        )

    def borrow_in_turn(self, queue: int, victims: Iterable[tuple[int, int]]) -> Iterator[bool]:
        """`borrows` of each (queue, GPUs), after those before it that do have given theirs back."""
        mine, paths = set(self.table.paths[queue]), self.table.paths
        over = [used - own for used, own in zip(self.used, self.table.guaranteed, strict=True)]
        steps: dict[int, list[int]] = {}
        for victim, gpus in victims:
            if victim not in steps:
                steps[victim] = [step for step in paths[victim] if step not in mine]
            lends = True
            for step in steps[victim]:
                lends = lends and over[step] > 0
            yield lends
            if lends:
                for step in steps[victim]:
                    over[step] -= gpus

    def borrowers(self, queue: int) -> Bools:
        """`borrows`, for every queue as the victim."""
        passed = np.ones(len(self.used) + 1, bool)
        passed[:-1] = np.array(self.used) > np.array(self.table.guaranteed)
        passed[list(self.table.paths[queue])] = True
        found: Bools = np.logical_and.reduce(passed[self.table.steps], axis=1)
        return found

    def reclaimable(self, queue: int, gpus: int) -> Bools:
        """By victim's queue, whether a job of `gpus` in `queue` may take back what it holds."""
        table, mine = self.table, self.table.paths[queue]
        found: Bools = self.borrowers(queue) & ~(table.steps == queue).any(axis=1)
        found[list(mine)] = False
        for step in mine:
            if self.used[step] + gpus > table.guaranteed[step]:
                found &= (table.steps == step).any(axis=1)
        return found
