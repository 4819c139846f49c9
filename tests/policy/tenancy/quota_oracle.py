"""Quota by brute force: the rules read literally, over a flat list of what is held.

Written apart from `weft.policy.tenancy.quota` and from its rules alone. Nothing is counted up or
down: every answer goes through the whole list of held jobs again and asks of each whether its
queue lies under the one in question. What follows from the tree alone, by recursion over its
parent links, is kept until somebody edits the tree.
"""

from dataclasses import dataclass, field
from functools import cached_property

from weft.model.ids import JobId, QueueId
from weft.model.queue import Queue


@dataclass(frozen=True)
class Held:
    """One job and the GPUs it has."""

    job: JobId
    queue: QueueId
    gpus: int


@dataclass(frozen=True)
class Rules:
    """The tree as parent links, and what each queue was told."""

    queues: dict[QueueId, Queue]

    def with_queue(self, queue: Queue) -> "Rules":
        return Rules({**self.queues, queue.id: queue})

    @cached_property
    def divided(self) -> bool:
        return [q for q in self.queues.values() if q.guaranteed_gpus is not None] != []

    @property
    def consistent(self) -> bool:
        """Nobody's children are promised more than it was told."""
        return not any(
            queue.guaranteed_gpus is not None
            and self._promised_below(queue.id) > queue.guaranteed_gpus
            for queue in self.queues.values()
        )

    @cached_property
    def promised(self) -> dict[QueueId, int]:
        return {queue: self._promised_to(queue) for queue in self.queues}

    @cached_property
    def lineage(self) -> dict[QueueId, list[QueueId]]:
        """Of each queue: itself, then its parent, and so on to the root."""
        return {queue: self._line_of(queue) for queue in self.queues}

    def _promised_to(self, queue: QueueId) -> int:
        told = self.queues[queue].guaranteed_gpus
        return self._promised_below(queue) if told is None else told

    def _promised_below(self, queue: QueueId) -> int:
        return sum(self._promised_to(q.id) for q in self.queues.values() if q.parent == queue)

    def _line_of(self, queue: QueueId) -> list[QueueId]:
        parent = self.queues[queue].parent
        return [queue] if parent is None else [queue, *self._line_of(parent)]


@dataclass
class QuotaOracle:
    """Who may have how much, answered from the list of what is held."""

    rules: Rules
    held: list[Held] = field(default_factory=list)

    def use(self, queue: QueueId) -> int:
        lineage = self.rules.lineage
        return sum([held.gpus for held in self.held if queue in lineage[held.queue]])

    def ceiling(self, queue: QueueId, *, firm: bool) -> int | None:
        """The most that the queue's jobs may come to hold; None: as much as there is."""
        told, promise = self.rules.queues[queue], self.rules.promised[queue]
        on_guarantee_only = self.rules.divided and (firm or not told.borrowing)
        if told.limit_gpus is None:
            return promise if on_guarantee_only else None
        if on_guarantee_only and promise < told.limit_gpus:
            return promise
        return told.limit_gpus

    def refuses(self, queue: QueueId, gpus: int, *, firm: bool) -> QueueId | None:
        """The queue nearest the leaf that would grow beyond what it may hold."""
        for step in self.rules.lineage[queue]:
            ceiling = self.ceiling(step, firm=firm)
            if ceiling is not None and self.use(step) + gpus > ceiling:
                return step
        return None

    def never_admits(self, queue: QueueId, gpus: int, *, firm: bool) -> QueueId | None:
        return QuotaOracle(self.rules).refuses(queue, gpus, firm=firm)

    def is_within_guarantee(self, queue: QueueId, gpus: int) -> bool:
        return all(self._stays_within(step, gpus) for step in self.rules.lineage[queue])

    def may_reclaim(self, queue: QueueId, gpus: int, victim: QueueId) -> bool:
        """Two branches of the tree only: nobody reclaims from its own line."""
        mine, theirs = self._branches(queue, victim)
        if mine == [] or theirs == []:
            return False
        return all(self._stays_within(step, gpus) for step in mine) and self.is_lent(queue, victim)

    def is_lent(self, queue: QueueId, victim: QueueId) -> bool:
        """Whether all of the victim's branch has more than it was promised."""
        _, theirs = self._branches(queue, victim)
        return not [step for step in theirs if self.use(step) <= self.rules.promised[step]]

    def _stays_within(self, queue: QueueId, gpus: int) -> bool:
        return self.use(queue) + gpus <= self.rules.promised[queue]

    def _branches(self, one: QueueId, other: QueueId) -> tuple[list[QueueId], list[QueueId]]:
        line, other_line = self.rules.lineage[one], self.rules.lineage[other]
        mine = [step for step in line if step not in other_line]
        theirs = [step for step in other_line if step not in line]
        return mine, theirs
