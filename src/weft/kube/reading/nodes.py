"""Nodes: which GPUs they have, what Weft's jobs hold of them, and what others do.

What Weft holds is summed from the decisions of jobs that hold seats, because those are few and
small; only pods that are not Weft's are read. Who may not read something gets the rest, and is
told what is missing.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from weft.kube.client.errors import Forbidden
from weft.kube.names import (
    GPU_MEMORY_LABEL,
    GPU_RESOURCE,
    GPU_TYPE_LABEL,
    JOB_LABEL,
    POOL_LABEL,
    RACK_LABEL,
    jobs_path,
    pods_path,
)
from weft.kube.reading.fields import Plain, condition, count, part
from weft.kube.reading.jobs import selecting
from weft.kube.reading.paging import list_all
from weft.view.nodes import NodeLine, NodePage
from weft.view.states import HOLDING

if TYPE_CHECKING:
    from weft.kube.client.api import Api

NODES = "/api/v1/nodes"
FOREIGN = {
    "labelSelector": f"!{JOB_LABEL}",
    "fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
}
BARRING = frozenset({"NoSchedule", "NoExecute"})


@dataclass(frozen=True, slots=True)
class NodeSize:
    """The little of a node that a sum over all of them needs."""

    uid: str
    version: int
    gpus: int
    ready: bool


@dataclass(frozen=True, slots=True)
class Held:
    """GPUs by node, and the jobs that hold them."""

    gpus: Counter[str]
    jobs: dict[str, list[str]]


async def list_nodes(api: "Api", namespace: str) -> NodePage:
    """Nodes with their use; `namespace` is counted where the reader may not see all of them."""
    things = (await list_all(api, NODES)).items
    notes: list[str] = []
    held = held_by(await _jobs(api, namespace, notes))
    foreign = await _foreign(api, notes)
    return NodePage(tuple(node_line(thing, held, foreign) for thing in things), tuple(notes))


def node_line(thing: Plain, held: Held, foreign: Counter[str] | None) -> NodeLine:
    name, labels = thing["metadata"]["name"], part(thing, "metadata", "labels")
    allocatable = part(thing, "status", "allocatable")
    memory = count(labels.get(GPU_MEMORY_LABEL))
    return NodeLine(
        name=name,
        state=node_state(thing),
        gpu_type=labels.get(GPU_TYPE_LABEL),
        gpu_memory_mib=memory or None,
        gpus=count(allocatable.get(GPU_RESOURCE)),
        used_gpus=held.gpus[name],
        foreign_gpus=None if foreign is None else foreign[name],
        rack=labels.get(RACK_LABEL),
        pool=labels.get(POOL_LABEL),
        cpus=str(allocatable.get("cpu", "")),
        memory=str(allocatable.get("memory", "")),
        jobs=tuple(held.jobs.get(name, ())),
    )


def node_size(thing: Plain) -> NodeSize:
    meta = part(thing, "metadata")
    gpus = count(part(thing, "status", "allocatable").get(GPU_RESOURCE))
    return NodeSize(meta["uid"], int(meta["resourceVersion"]), gpus, node_state(thing) == "Ready")


def node_state(thing: Plain) -> str:
    """`Ready`, or the first thing that keeps new work away."""
    ready = condition(part(thing, "status").get("conditions"), "Ready")
    if ready is None or ready.get("status") != "True":
        return "NotReady"
    if part(thing, "spec").get("unschedulable"):
        return "Cordoned"
    taints = part(thing, "spec").get("taints") or []
    barred = [t for t in taints if t.get("effect") in BARRING and t.get("key") != GPU_RESOURCE]
    return "Tainted" if barred else "Ready"


def held_by(jobs: Iterable[Plain]) -> Held:
    """GPUs by node of the jobs that hold seats now."""
    held = Held(Counter(), {})
    for job in jobs:
        status = part(job, "status")
        if status.get("state") not in HOLDING:
            continue
        name = f"{job['metadata']['namespace']}/{job['metadata']['name']}"
        for seat in part(status, "decision").get("seats") or ():
            held.gpus[seat["node"]] += seat.get("gpus") or 0
            held.jobs.setdefault(seat["node"], []).append(name)
    return held


def requested_gpus(pod: Plain) -> int:
    """GPUs that a pod holds: its containers' together, or the most that one initial step asks."""
    spec = part(pod, "spec")
    steady = sum(map(_gpus, spec.get("containers") or ()))
    return max([steady, *map(_gpus, spec.get("initContainers") or ())])


async def _jobs(api: "Api", namespace: str, notes: list[str]) -> tuple[dict[str, Any], ...]:
    try:
        return (await list_all(api, jobs_path(), selecting(HOLDING))).items
    except Forbidden:
        notes.append(f"you may not list the jobs of all namespaces: used counts '{namespace}' only")
    return (await list_all(api, jobs_path(namespace), selecting(HOLDING))).items


async def _foreign(api: "Api", notes: list[str]) -> Counter[str] | None:
    try:
        pods = (await list_all(api, pods_path(), FOREIGN)).items
    except Forbidden:
        notes.append("you may not list the pods of all namespaces: foreign use is not counted")
        return None
    foreign: Counter[str] = Counter()
    for pod in pods:
        foreign[pod["spec"]["nodeName"]] += requested_gpus(pod)
    return foreign


def _gpus(container: Plain) -> int:
    asked = part(container, "resources")
    return count(
        part(asked, "requests").get(GPU_RESOURCE) or part(asked, "limits").get(GPU_RESOURCE)
    )
