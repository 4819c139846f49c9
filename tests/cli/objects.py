"""Objects as an API server answers them, with the few fields that a test is about."""

from collections.abc import Mapping
from typing import Any

from weft.kube.names import (
    API_VERSION,
    EPOCH_LABEL,
    GPU_RESOURCE,
    GPU_TYPE_LABEL,
    JOB_KIND,
    JOB_LABEL,
    RACK_LABEL,
    RANK_LABEL,
)

Thing = dict[str, Any]

BUSY: Thing = {
    "code": "Capacity.Busy",
    "cause": "capacity",
    "text": "29 of 64 suitable GPUs are free; this job needs 32.",
    "remedy": "wait for running jobs to end, or ask for no more than is free (29)",
    "anchor": "reasons.md#capacity-busy",
}
BEHIND: Thing = {
    "code": "Priority.Behind",
    "cause": "priority",
    "text": "Jobs that rank before it were served first (3 still wait): GPUs left 2, needed 32.",
    "remedy": "raise its priority if you may, or wait",
    "anchor": "reasons.md#priority-behind",
}


def a_job(
    name: str,
    *,
    namespace: str = "research",
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    annotations: Mapping[str, str] | None = None,
    created: str = "2026-01-01T08:00:00Z",
    version: int = 1,
) -> Thing:
    return {
        "apiVersion": API_VERSION,
        "kind": JOB_KIND,
        "metadata": {
            **_meta(name, version, created),
            "namespace": namespace,
            "annotations": dict(annotations or {}),
        },
        "spec": {"run": "torchrun train.py", "resources": {"gpus": 1}, **(spec or {})},
        "status": dict(status or {}),
    }


def a_running_job(name: str = "llama-sft", **more: Any) -> Thing:
    spec = {
        "image": "registry.example.com/team/train:1.4",
        "resources": {
            "gpus": "4..16",
            "gpu_type": ["H100", "A100"],
            "cpus_per_gpu": 8,
            "memory_per_gpu": "64GB",
        },
        "nodes": 2,
        "queue": "research",
        "priority": 10,
        "preemptible": False,
        "checkpoint": {"path": "/ckpt/llama", "every": "10m"},
        "env": {"WANDB_PROJECT": "sft"},
        "volumes": [{"claim": "ckpt-pvc", "path": "/ckpt"}],
        "keep_on_failure": "30m",
        "ttl": "7d",
    }
    status = {
        "state": "Running",
        "gpus": 16,
        "progress": "37%",
        "decision": {
            "epoch": 3,
            "width": 16,
            "seats": [
                {"node": "node-1", "gpus": 8, "cpus": 64, "memoryGib": 512},
                {"node": "node-2", "gpus": 8, "cpus": 64, "memoryGib": 512},
            ],
        },
        "work": {
            "done": 370,
            "total": 1000,
            "saved": 350,
            "unit": "steps",
            "remainingSeconds": 7500,
        },
        "metrics": {"loss": 1.87, "tokens_per_second": 48200},
        "past": {"attainedGpuSeconds": 403200, "failures": 1, "refusals": 0, "preemptions": 2},
        "queuedAt": "2026-01-01T08:00:00Z",
        "startedAt": "2026-01-01T08:12:00Z",
    }
    return a_job(name, spec=spec, status=status, **more)


def a_waiting_job(name: str = "bert-ft", **more: Any) -> Thing:
    spec = {"resources": {"gpus": 32}, "queue": "research"}
    status = {
        "state": "Queued",
        "gpus": 0,
        "reason": BUSY["code"],
        "message": BUSY["text"],
        "reasons": [BUSY, BEHIND],
        "queuedAt": "2026-01-01T11:48:00Z",
    }
    created = more.pop("created", "2026-01-01T11:48:00Z")
    return a_job(name, spec=spec, status=status, created=created, **more)


def a_failed_job(name: str = "vit-l", **more: Any) -> Thing:
    status = {
        "state": "Failed",
        "gpus": 0,
        "message": "Rank 0 ended with status 1, and no try is left.",
        "decision": {"epoch": 2, "width": 1, "seats": [{"node": "node-1", "gpus": 1}]},
        "queuedAt": "2025-12-31T08:00:00Z",
        "startedAt": "2025-12-31T08:00:30Z",
        "endedAt": "2025-12-31T10:00:30Z",
    }
    return a_job(name, status=status, created="2025-12-31T08:00:00Z", **more)


def a_queue(
    name: str,
    *,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    version: int = 1,
) -> Thing:
    return {
        "metadata": _meta(name, version, "2025-12-01T00:00:00Z"),
        "spec": dict(spec or {}),
        "status": dict(status or {}),
    }


def ready(true: bool = True, message: str = "") -> Thing:
    """The conditions of something that is ready, or is not."""
    status = "True" if true else "False"
    return {"conditions": [{"type": "Ready", "status": status, "message": message}]}


def a_node(
    name: str,
    *,
    gpus: int = 8,
    gpu_type: str = "H100",
    rack: str | None = None,
    spec: Mapping[str, Any] | None = None,
    is_ready: bool = True,
) -> Thing:
    labels = {GPU_TYPE_LABEL: gpu_type} if gpus else {}
    room = {"cpu": "96", "memory": "1000Gi"} | ({GPU_RESOURCE: str(gpus)} if gpus else {})
    return {
        "metadata": {
            **_meta(name, 1, "2025-12-01T00:00:00Z"),
            "labels": labels | ({RACK_LABEL: rack} if rack else {}),
        },
        "spec": dict(spec or {}),
        "status": {"allocatable": room, **ready(is_ready)},
    }


def a_worker(
    job: str,
    *,
    rank: int = 0,
    epoch: int = 3,
    node: str = "node-1",
    state: Mapping[str, Any] | None = None,
    phase: str = "Running",
    namespace: str = "research",
    version: int = 1,
) -> Thing:
    labels = {JOB_LABEL: job, EPOCH_LABEL: str(epoch), RANK_LABEL: str(rank)}
    return {
        "metadata": {
            **_meta(f"{job}-{epoch}-{rank}", version, "2026-01-01T08:12:00Z"),
            "namespace": namespace,
            "labels": labels,
        },
        "spec": {"nodeName": node, "containers": [{"name": "worker"}]},
        "status": {
            "phase": phase,
            "containerStatuses": [{"state": dict(state or {"running": {}})}],
        },
    }


def a_foreign_pod(name: str, *, node: str, gpus: int) -> Thing:
    asked = {"limits": {GPU_RESOURCE: str(gpus)}}
    return {
        "metadata": {**_meta(name, 1, "2026-01-01T00:00:00Z"), "namespace": "other"},
        "spec": {"nodeName": node, "containers": [{"name": "x", "resources": asked}]},
        "status": {"phase": "Running"},
    }


def an_event(job: str, reason: str, message: str, *, at: str, times: int = 1) -> Thing:
    return {
        "metadata": {**_meta(f"{job}.{reason}", 1, at), "namespace": "research"},
        "involvedObject": {"kind": JOB_KIND, "name": job},
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "count": times,
        "type": "Warning" if reason == "Failed" else "Normal",
    }


def _meta(name: str, version: int, created: str) -> Thing:
    return {
        "name": name,
        "uid": f"uid-of-{name}",
        "resourceVersion": str(version),
        "creationTimestamp": created,
    }
