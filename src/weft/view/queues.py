"""Queues, and the order of their tree."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue. What nobody has reported yet is None; no limit is None as well.

    `gpu_hours` is what its jobs have had, `owed_gpu_hours` what their fair part was meanwhile.
    """

    name: str
    uid: str
    version: int
    parent: str | None
    guaranteed: int | None
    limit: int | None
    borrowing: bool
    weight: float
    namespaces: tuple[str, ...]
    recipe: str | None
    used: int | None
    running: int | None
    waiting: int | None
    ready: bool | None
    message: str | None
    gpu_hours: float | None = None
    owed_gpu_hours: float | None = None

    def serves(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces


def in_tree_order(queues: Iterable[QueueLine]) -> list[tuple[int, QueueLine]]:
    """Each queue with its depth, children after their parent.

    A queue whose parent is missing stands at the top, and so does one of a cycle: nothing that
    exists is left out of the list.
    """
    left = {queue.name: queue for queue in sorted(queues, key=lambda queue: queue.name)}
    roots = [queue for queue in left.values() if queue.parent not in left]
    order = [line for root in roots for line in _walk(root, left, 0)]
    while left:
        order.extend(_walk(next(iter(left.values())), left, 0))
    return order


def _walk(
    queue: QueueLine, left: dict[str, QueueLine], depth: int
) -> Iterator[tuple[int, QueueLine]]:
    if left.pop(queue.name, None) is None:
        return
    yield depth, queue
    for child in [each for each in left.values() if each.parent == queue.name]:
        yield from _walk(child, left, depth + 1)
