"""Queues: a tree of tenants' shares, each with a guarantee, a limit, and leave to borrow.

A guarantee is what a queue gets back within one round however much others have borrowed; a limit
is what it may never exceed. A tree in which nobody states a guarantee is *undivided*: nothing is
lent, so nothing is reclaimed.
"""

from dataclasses import dataclass, field

from weft.model.errors import SpecError, UnknownName
from weft.model.ids import DEFAULT_QUEUE, QueueId


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """One node of the tree. `guaranteed_gpus` None: 0 for a leaf, the children's sum inside.

    No job of it is slowed more than `max_slowdown` times by others on its GPUs; None: as in the
    queue above, and at the top as the recipe has it.
    """

    id: QueueId
    parent: QueueId | None = None
    guaranteed_gpus: int | None = None
    limit_gpus: int | None = None
    borrowing: bool = True
    weight: float = 1.0
    max_slowdown: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("guaranteed", self.guaranteed_gpus), ("limit", self.limit_gpus)):
            if value is not None and value < 0:
                raise SpecError(f"queue {self.id}: {name} is {value}", hint="write 0 or more")
        if self.max_slowdown is not None and not self.max_slowdown >= 1.0:
            raise SpecError(
                f"queue {self.id}: jobs cannot be slowed {self.max_slowdown:g} times",
                hint="write 1 or more; with 1 nobody is slowed",
            )


@dataclass(frozen=True, slots=True)
class QueueTree:
    """All queues; parents exist, there is no cycle, children promise no more than their parent."""

    queues: tuple[Queue, ...] = (Queue(id=DEFAULT_QUEUE),)
    _by_id: dict[QueueId, Queue] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        by_id = {queue.id: queue for queue in self.queues}
        object.__setattr__(self, "_by_id", by_id)
        if len(by_id) != len(self.queues):
            raise SpecError("a queue is listed twice", hint="queue names are unique")
        for queue in self.queues:
            self.path(queue.id)
        for queue in self.queues:
            self._check_promises(queue)

    @property
    def divided(self) -> bool:
        """Whether anybody states a guarantee."""
        return any(queue.guaranteed_gpus is not None for queue in self.queues)

    def get(self, queue_id: QueueId) -> Queue:
        try:
            return self._by_id[queue_id]
        except KeyError:
            known = ", ".join(sorted(self._by_id))
            raise UnknownName(f"no queue '{queue_id}'", hint=f"queues: {known}") from None

    def __contains__(self, queue_id: QueueId) -> bool:
        return queue_id in self._by_id

    def path(self, queue_id: QueueId) -> tuple[Queue, ...]:
        """The queue and its ancestors, leaf first."""
        path = [self.get(queue_id)]
        while (parent := path[-1].parent) is not None:
            path.append(self.get(parent))
            if len(path) > len(self.queues):
                raise SpecError(f"queue {queue_id} is its own ancestor", hint="break the cycle")
        return tuple(path)

    def children(self, queue_id: QueueId) -> tuple[Queue, ...]:
        return tuple(queue for queue in self.queues if queue.parent == queue_id)

    def guaranteed(self, queue_id: QueueId) -> int:
        """What the queue is promised, as stated or as the sum of its children."""
        stated = self.get(queue_id).guaranteed_gpus
        if stated is not None:
            return stated
        return sum(self.guaranteed(child.id) for child in self.children(queue_id))

    def max_slowdown(self, queue_id: QueueId, otherwise: float) -> float:
        """How many times slower company may make its jobs, as the nearest queue above says."""
        if queue_id not in self:
            return otherwise
        said = (queue.max_slowdown for queue in self.path(queue_id))
        return next((cap for cap in said if cap is not None), otherwise)

    def with_queue(self, queue: Queue) -> "QueueTree":
        """The tree with that queue added or replaced."""
        if queue.id not in self._by_id:
            return QueueTree((*self.queues, queue))
        return QueueTree(tuple(queue if old.id == queue.id else old for old in self.queues))

    def _check_promises(self, queue: Queue) -> None:
        if queue.guaranteed_gpus is None:
            return
        promised = sum(self.guaranteed(child.id) for child in self.children(queue.id))
        if promised > queue.guaranteed_gpus:
            raise SpecError(
                f"queue {queue.id} is guaranteed {queue.guaranteed_gpus} GPUs and its children "
                f"{promised}",
                hint="children may not be promised more than their parent",
            )
