"""Kueue's workloads as a sheet of our own: `kubectl get workloads -A -o json > workloads.json`.

A workload is a job of its queue and namespace. Its GPUs are those of all its pods, it came when it
was created, and it ran from its admission to its end; one that is not over has no length. Kueue
keeps the last admission only, so the wait of a workload that was evicted is not known.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from weft.model.errors import TraceFault
from weft.trace.cells import write_cell
from weft.trace.sheet import Sheet

HEADER = (
    *("job_id", "tenant", "submit_seconds", "gpus", "duration_seconds", "priority", "status"),
    "queue_seconds",
)
EVICTED = frozenset({"Evicted", "Requeued"})
GPU = "/gpu"


def load(path: Path) -> Sheet:
    """The list as rows, numbered from 1."""
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise TraceFault(f"{path}: is not JSON: {error}", hint="kubectl get … -o json") from error
    items = listed.get("items", [listed]) if isinstance(listed, dict) else None
    if not items or any(one.get("kind") != "Workload" for one in items):
        raise TraceFault(
            f"{path.name}: holds no workloads of Kueue", hint="kubectl get workloads -A -o json"
        )
    rows = [_row(one) for one in items]
    columns = dict(zip(HEADER, zip(*rows, strict=True), strict=True))
    return Sheet(path, HEADER, columns, range(1, len(rows) + 1))


def _row(workload: Mapping[str, Any]) -> tuple[str, ...]:
    metadata, spec = workload["metadata"], workload.get("spec", {})
    listed = workload.get("status", {}).get("conditions", ())
    conditions = {one["type"]: one for one in listed if one.get("status") == "True"}
    evicted = any(one["type"] in EVICTED for one in listed)
    created = metadata.get("creationTimestamp", "")
    return (
        f"{metadata.get('namespace', '')}/{metadata['name']}",
        spec.get("queueName") or metadata.get("namespace", ""),
        created,
        str(sum(map(_gpus, spec.get("podSets", ())))),
        _seconds(_moment(conditions, "Admitted"), _moment(conditions, "Finished")),
        str(spec.get("priority", 0)),
        next((name for name in ("Finished", "Evicted", "Admitted") if name in conditions), ""),
        "" if evicted else _seconds(created, _moment(conditions, "Admitted")),
    )


def _gpus(pods: Mapping[str, Any]) -> int:
    containers = pods.get("template", {}).get("spec", {}).get("containers", ())
    per_pod = 0
    for container in containers:
        resources = container.get("resources", {})
        asked = resources.get("requests") or resources.get("limits") or {}
        per_pod += sum(int(count) for name, count in asked.items() if name.endswith(GPU))
    return int(pods.get("count", 1)) * per_pod


def _moment(conditions: Mapping[str, Mapping[str, str]], name: str) -> str:
    return str(conditions.get(name, {}).get("lastTransitionTime") or "")


def _seconds(begin: str, end: str) -> str:
    """Seconds between two dates, nothing where one of them is missing."""
    if not (begin and end):
        return ""
    length = datetime.fromisoformat(end) - datetime.fromisoformat(begin)
    return write_cell(length.total_seconds())
