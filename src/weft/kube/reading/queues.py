"""Queues, read from a cluster."""

from typing import TYPE_CHECKING

from weft.kube.names import queues_path
from weft.kube.reading.fields import Plain, condition, part
from weft.kube.reading.paging import list_all
from weft.view.queues import QueueLine

if TYPE_CHECKING:
    from weft.kube.client.api import Api


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
