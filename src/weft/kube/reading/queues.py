"""Queues in the order of their tree."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.kube.names import queues_path
from weft.kube.reading.fields import Plain, condition, part
from weft.kube.reading.paging import list_all

if TYPE_CHECKING:
    from weft.kube.client.api import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLine:
    """A queue. What the operator has not yet reported is None; no limit is None as well."""

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

    def serves(self, namespace: str) -> bool:
        return not self.namespaces or namespace in self.namespaces


async def list_queues(api: "Api") -> tuple[QueueLine, ...]:
    return tuple(map(queue_line, (await list_all(api, queues_path())).items))


def queue_line(thing: Plain) -> QueueLine:
    meta, spec, status = part(thing, "metadata"), part(thing, "spec"), part(thing, "status")
    ready = condition(status.get("conditions"), "Ready")
    return QueueLine(
        name=meta["name"],
        uid=meta.get("uid", ""),
        version=int(meta.get("resourceVersion") or 0),
        parent=spec.get("parent"),
        guaranteed=status.get("guaranteed", spec.get("guaranteed")),
        limit=status.get("limit", spec.get("limit")),
        borrowing=spec.get("borrowing", True),
        weight=spec.get("weight", 1.0),
        namespaces=tuple(spec.get("namespaces") or ()),
        recipe=spec.get("recipe"),
        used=status.get("used"),
        running=status.get("running"),
        waiting=status.get("waiting"),
        ready=None if ready is None else ready.get("status") == "True",
        message=None if ready is None else ready.get("message"),
    )


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
