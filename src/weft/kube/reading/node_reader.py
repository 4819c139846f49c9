"""Nodes: which GPUs they have, what Weft's jobs hold of them, and what others do.

What Weft holds is summed from the decisions of jobs that hold seats, because those are few and
small; of bound pods only those that are not Weft's are counted. Who may not read something gets the
rest, and is told what is missing.
"""

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from os import environ
from typing import TYPE_CHECKING, Any

from weft.failure.health import Health
from weft.kube.claims import SLICES, claim_name, claims_path
from weft.kube.client.errors import Forbidden, NotFound
from weft.kube.device_index import DeviceIndex
from weft.kube.devices import devices_on, read_claim, read_slice, tainted_on
from weft.kube.health_map import HealthMap, health_in
from weft.kube.names import (
    BOUND_PODS,
    GPU_RESOURCE,
    GPU_TYPE_LABEL,
    LEASE,
    NAMESPACE,
    POOL_LABEL,
    jobs_path,
    pods_path,
)
from weft.kube.node_rules import EVERYWHERE, NodeRules, gpu_memory_gib, gpu_type
from weft.kube.operator.observation.pod import ObservedPod, read_pod
from weft.kube.reading.fields import Plain, condition, count, part
from weft.kube.reading.jobs import selecting
from weft.kube.reading.paging import list_all
from weft.kube.reading.settings import NAMESPACE_VARIABLE, read_node_rules
from weft.kube.seat_runs import seats_of
from weft.kube.taint_rules import TaintRule, served_rules, with_rules
from weft.view.node_health import health_of
from weft.view.node_page import NodeLine, NodePage
from weft.view.states import HOLDING

if TYPE_CHECKING:
    from weft.kube.client.api import Api

NODES = "/api/v1/nodes"


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
    notes: list[str] = []
    rules = await read_node_rules(api, notes)
    things = (await list_all(api, NODES, selected(rules))).items
    held = held_by(await _jobs(api, namespace, notes))
    names = {thing["metadata"]["name"]: gpu_resource(thing, rules) for thing in things}
    foreign = await _foreign(api, names, notes)
    health = await read_health(api)
    lines = [node_line(thing, held, foreign, rules) for thing in things]
    if rules.gpu_class:
        published = await _published(api, rules.gpu_class, notes)
        lines = [published.on(line) for line in lines]
    return NodePage(tuple(with_health(line, health) for line in lines), tuple(notes))


async def read_health(api: "Api") -> Health | None:
    """What the operator remembers of nodes; None where the reader may not see it."""
    place = HealthMap.of(environ.get(NAMESPACE_VARIABLE, NAMESPACE), LEASE)
    try:
        return health_in(await api.get(place.path))
    except (NotFound, Forbidden):
        return None


def with_health(line: NodeLine, health: Health | None) -> NodeLine:
    """Who may read what is remembered may read the names of jobs in it."""
    known = None if health is None else health_of(health, line.name, time.time())
    return replace(line, health=known)


def selected(rules: NodeRules) -> dict[str, str]:
    """What to ask the API server for."""
    labels = ",".join(f"{key}={value}" for key, value in rules.selector)
    return {"labelSelector": labels} if labels else {}


def gpu_resource(thing: Plain, rules: NodeRules) -> str:
    return rules.gpu_resource(part(thing, "status", "allocatable"))


def node_line(
    thing: Plain, held: Held, foreign: Counter[str] | None, rules: NodeRules = EVERYWHERE
) -> NodeLine:
    name, labels = thing["metadata"]["name"], part(thing, "metadata", "labels")
    allocatable = part(thing, "status", "allocatable")
    resource = gpu_resource(thing, rules)
    return NodeLine(
        name=name,
        state=node_state(thing, rules),
        gpu_type=_type(labels, resource),
        gpu_memory_mib=_memory_mib(labels, resource),
        gpus=count(allocatable.get(resource)),
        used_gpus=held.gpus[name],
        foreign_gpus=None if foreign is None else foreign[name],
        rack=rules.rack(labels, "") or None,
        pool=labels.get(POOL_LABEL),
        cpus=str(allocatable.get("cpu", "")),
        memory=str(allocatable.get("memory", "")),
        jobs=tuple(held.jobs.get(name, ())),
    )


def node_size(thing: Plain, rules: NodeRules = EVERYWHERE) -> NodeSize:
    meta = part(thing, "metadata")
    gpus = count(part(thing, "status", "allocatable").get(gpu_resource(thing, rules)))
    ready = node_state(thing, rules) == "Ready"
    return NodeSize(meta["uid"], int(meta["resourceVersion"]), gpus, ready)


def node_state(thing: Plain, rules: NodeRules = EVERYWHERE) -> str:
    """`Ready`, or the first thing that keeps new work away."""
    ready = condition(part(thing, "status").get("conditions"), "Ready")
    if ready is None or ready.get("status") != "True":
        return "NotReady"
    if part(thing, "spec").get("unschedulable"):
        return "Cordoned"
    barring = rules.barring(part(thing, "spec").get("taints") or [])
    return "Ready" if {*barring} <= {*rules.job_tolerations} else "Tainted"


def held_by(jobs: Iterable[Plain]) -> Held:
    """GPUs by node of the jobs that hold seats now; those of one claim count once."""
    held, claimed = Held(Counter(), {}), set()
    for job in jobs:
        status = part(job, "status")
        if status.get("state") not in HOLDING:
            continue
        namespace, short = job["metadata"]["namespace"], job["metadata"]["name"]
        name, decision = f"{namespace}/{short}", part(status, "decision")
        for place, seat in enumerate(seats_of(decision)):
            number, epoch = seat.get("number", place), decision.get("epoch") or 0
            claim = namespace, claim_name(short, epoch, number, decision.get("party") or "")
            held.gpus[seat["node"]] += 0 if claim in claimed else seat.get("gpus") or 0
            claimed.add(claim)
            held.jobs.setdefault(seat["node"], []).append(name)
    return held


async def _jobs(api: "Api", namespace: str, notes: list[str]) -> tuple[dict[str, Any], ...]:
    try:
        return (await list_all(api, jobs_path(), selecting(HOLDING))).items
    except Forbidden:
        notes.append(f"you may not list the jobs of all namespaces: used counts '{namespace}' only")
    return (await list_all(api, jobs_path(namespace), selecting(HOLDING))).items


async def _foreign(
    api: "Api", resources: Mapping[str, str], notes: list[str]
) -> Counter[str] | None:
    """GPUs that others hold, of the kind that each of these nodes counts with."""
    try:
        pods = (await list_all(api, pods_path(), BOUND_PODS)).items
    except Forbidden:
        notes.append("you may not list the pods of all namespaces: foreign use is not counted")
        return None
    foreign: Counter[str] = Counter()
    for pod in pods:
        observed = read_pod(pod)
        node = observed.node
        if node in resources and not observed.job:
            notes += _failed_probe(observed)
            foreign[node] += int(observed.takes.of(resources[node]))
    return foreign


def _failed_probe(pod: ObservedPod) -> list[str]:
    """Why nothing starts there, where a probe of the node says so."""
    ours = pod.namespace == environ.get(NAMESPACE_VARIABLE, NAMESPACE)
    if not ours or pod.probed is None or not pod.probed.unfit:
        return []
    return [f"nothing starts on {pod.node} while a probe fails: {pod.probed.unfit}"]


@dataclass(frozen=True, slots=True)
class Published:
    """What a driver publishes, and what claims of others were given of it; None if not known."""

    driver: str
    devices: DeviceIndex
    knows_claims: bool = False

    def on(self, line: NodeLine) -> NodeLine:
        slices, claims = self.devices.slices_on(line.name), self.devices.claims_on(line.name)
        found = devices_on(line.name, self.driver, slices, claims)
        tainted = tainted_on(line.name, self.driver, slices)
        return replace(
            line,
            gpus=found.while_held(line.used_gpus).gpus + found.foreign,
            foreign_gpus=found.foreign if self.knows_claims else None,
            tainted_gpus=found.kept_away,
            taints=tuple(trouble.message for trouble in tainted),
        )


async def _published(api: "Api", driver: str, notes: list[str]) -> Published:
    devices = DeviceIndex()
    try:
        slices = [read_slice(one) for one in (await list_all(api, SLICES)).items]
    except Forbidden:
        notes.append("you may not list resourceslices: GPUs are not counted")
        return Published(driver, devices)
    rules = await _taint_rules(api, driver, notes)
    for one in slices:
        devices.slice_changed(None, with_rules(one, rules))
    try:
        claims = (await list_all(api, claims_path())).items
    except Forbidden:
        notes.append("you may not list the claims of all namespaces: foreign use is not counted")
        return Published(driver, devices)
    for raw in claims:
        devices.claim_changed(None, read_claim(raw))
    return Published(driver, devices, knows_claims=True)


async def _taint_rules(api: "Api", driver: str, notes: list[str]) -> tuple[TaintRule, ...]:
    try:
        found = await served_rules(api, driver)
    except Forbidden:
        notes.append("you may not list devicetaintrules: GPUs that one taints are counted")
        return ()
    return () if found is None else found.rules


def _type(labels: Mapping[str, str], resource: str) -> str | None:
    """As NVIDIA's label has it, which tells more than the model."""
    whole = labels.get(GPU_TYPE_LABEL)
    if resource == GPU_RESOURCE:
        return whole
    return gpu_type(labels, resource)


def _memory_mib(labels: Mapping[str, str], resource: str) -> int | None:
    gib = gpu_memory_gib(labels, resource)
    return None if gib is None else int(gib * 1024)
