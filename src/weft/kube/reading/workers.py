"""The worker pods of a job, and what the cluster said about the job lately."""

from typing import TYPE_CHECKING, Any

from weft.kube.client.errors import Forbidden
from weft.kube.names import (
    EPOCH_LABEL,
    JOB_KIND,
    JOB_LABEL,
    PLACEHOLDER_LABEL,
    RANK_LABEL,
    pods_path,
)
from weft.kube.reading.fields import Plain, count, moment, part
from weft.kube.reading.paging import list_all
from weft.view.workers import EventLine, WorkerLine

if TYPE_CHECKING:
    from weft.kube.client.api import Api


async def list_workers(
    api: "Api", namespace: str, job: str, *, epoch: int | None = None
) -> tuple[WorkerLine, ...]:
    """A job's pods by epoch and rank; none where the reader may not see pods."""
    selector = f"{JOB_LABEL}={job},!{PLACEHOLDER_LABEL}"
    selector += "" if epoch is None else f",{EPOCH_LABEL}={epoch}"
    try:
        found = await list_all(api, pods_path(namespace), {"labelSelector": selector})
    except Forbidden:
        return ()
    return tuple(sorted(map(worker_line, found.items), key=lambda line: (line.epoch, line.rank)))


async def list_events(api: "Api", namespace: str, job: str) -> tuple[EventLine, ...]:
    """Events about the job, oldest first; none where the reader may not see them."""
    about = f"involvedObject.kind={JOB_KIND},involvedObject.name={job}"
    path = f"/api/v1/namespaces/{namespace}/events"
    try:
        found = await list_all(api, path, {"fieldSelector": about})
    except Forbidden:
        return ()
    lines = map(event_line, found.items)
    return tuple(sorted(lines, key=lambda line: line.at.timestamp() if line.at else 0.0))


def worker_line(pod: Plain) -> WorkerLine:
    meta, status = part(pod, "metadata"), part(pod, "status")
    labels = part(meta, "labels")
    states = status.get("containerStatuses") or [{}]
    container: Plain = part(states[0], "state")
    ended = part(container, "terminated")
    return WorkerLine(
        pod=meta["name"],
        uid=meta.get("uid", ""),
        version=int(meta.get("resourceVersion") or 0),
        epoch=count(labels.get(EPOCH_LABEL)),
        rank=count(labels.get(RANK_LABEL)),
        node=part(pod, "spec").get("nodeName"),
        phase=_phase(meta, status, container),
        started="running" in container or "terminated" in container,
        exit_code=ended.get("exitCode"),
        message=status.get("message") or part(container, "waiting").get("message"),
        created_at=moment(meta.get("creationTimestamp")),
    )


def event_line(event: dict[str, Any]) -> EventLine:
    """Old and new kinds of events keep their time in different places."""
    series = part(event, "series")
    at = series.get("lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return EventLine(
        at=moment(at or part(event, "metadata").get("creationTimestamp")),
        reason=event.get("reason") or "",
        message=event.get("message") or "",
        times=series.get("count") or event.get("count") or 1,
        warning=event.get("type") == "Warning",
    )


def _phase(meta: Plain, status: Plain, container: Plain) -> str:
    if meta.get("deletionTimestamp"):
        return "Terminating"
    waiting: str | None = part(container, "waiting").get("reason")
    return waiting or status.get("reason") or status.get("phase") or "Unknown"
