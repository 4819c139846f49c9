"""Failed tries of training jobs, as the operator has written them into their statuses."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from weft.kube.names import jobs_path
from weft.kube.reading.fields import Plain, moment, part
from weft.kube.reading.paging import list_all
from weft.view.failures import FailureLine, FailurePage

if TYPE_CHECKING:
    from weft.kube.client.api import Api


async def list_failures(api: "Api", namespace: str | None, days: float) -> FailurePage:
    """Of the last days, in a namespace or in all, the latest first."""
    found = await list_all(api, jobs_path(namespace))
    since = datetime.now(UTC) - timedelta(days=days)
    lines = [line for thing in found.items for line in failures_of(thing)]
    recent = [line for line in lines if line.at is None or line.at >= since]
    recent.sort(key=lambda line: line.at or since, reverse=True)
    return FailurePage(tuple(recent), found.left)


def failures_of(thing: Plain) -> Iterator[FailureLine]:
    """All that its status remembers, the oldest first."""
    meta, spec, status = part(thing, "metadata"), part(thing, "spec"), part(thing, "status")
    if not status.get("failures"):
        return
    from weft.view.diagnosed import told_failure  # whoever lists jobs need not load rules

    last = len(status["failures"]) - 1
    for number, told in enumerate(status["failures"]):
        line = told_failure(
            _plain(told),
            namespace=meta.get("namespace", ""),
            job=meta["name"],
            queue=spec.get("queue") or "default",
            epoch=told.get("epoch") or 0,
            at=moment(told.get("at")),
            given_up=number == last and status.get("state") == "Failed",
            did=told.get("did") or "",
            lost_gpu_seconds=float(told.get("lostGpuSeconds") or 0.0),
        )
        if line is not None:
            yield line


def last_failure(thing: Plain) -> FailureLine | None:
    """The one that it ended with or waits after."""
    state = part(thing, "status").get("state")
    *_, last = (None, *failures_of(thing))
    return None if state in ("Succeeded", "Running") else last


def _plain(told: Plain) -> Plain:
    """Named as a diagnosis names it; `class` is no name in Python."""
    action = told.get("nodeAction")
    return {**told, "kind": told.get("class"), "node_action": action or "none"}
