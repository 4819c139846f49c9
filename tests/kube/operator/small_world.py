"""A cluster in memory: the operator's own steps, actions and patches, a real brain, and no network.

Objects are kept as the API server would keep them; pods start, end and vanish when a test lets a
kubelet act. `crash_after` lets the operator die between two actions: brain and notes are gone, and
the next one begins with what the objects say.
"""

from dataclasses import replace
from typing import Any

from tests.kube.looks import a_pod
from weft.brain import invariants
from weft.brain.brain import Brain, Settings
from weft.brain.event import Event, PlansOffered, Tick
from weft.brain.instruction import Wake
from weft.kube.names import GPU_RESOURCE, pod_name
from weft.kube.operator.gang_probes import HOLDS_SECONDS
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.job import JobReader, ObservedJob
from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.observation.pod_index import PodIndex, nodes_touched
from weft.kube.operator.reconcile.beliefs import BoundWorker, is_counted
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.replanning import offered, ordered
from weft.kube.operator.reconcile.step import (
    Action,
    AddFinalizer,
    AskProbes,
    CreatePods,
    DeletePods,
    Look,
    NodeProbe,
    Note,
    Record,
    RecordHeldUp,
    RecordRefused,
    RecordSeats,
    RecordStopping,
    RecordWait,
    Rules,
    Settle,
)
from weft.kube.operator.status.patches import (
    Standing,
    decision_patch,
    head_patch,
    seats_patch,
    standing_patch,
    title,
)
from weft.kube.reports.headship import Headship
from weft.kube.reports.payload import OrderAnswer
from weft.kube.reports.server import ToldOrder
from weft.model.capability import Capability
from weft.model.ids import ANY_GPU, DEFAULT_POOL, DEFAULT_RACK, JobId
from weft.model.placement import Placement
from weft.model.state import State
from weft.reconcile.belief import belief_of
from weft.spec.recipe import make_recipe

NAMESPACE = "lab"
MOST_STEPS = 200


class Crashed(Exception):
    """The operator is gone in the middle of something."""


class SmallWorld:
    """`live` jobs say so as soon as their head runs, and what their program `offers` if anything.

    Orders to go to another plan are answered when kubelets act, and reached unless it is `stuck`.
    Probes of nodes answer at once, unless they are `silent`; those in `ill` are not well.
    """

    def __init__(
        self,
        gpus: dict[str, int],
        recipe: str,
        live: bool = True,
        offers: tuple[Capability, ...] = (),
    ) -> None:
        self.offers, self.stuck = offers, False
        self.answers: dict[str, OrderAnswer] = {}
        self.orders: dict[str, list[ToldOrder]] = {}
        self.now = 1000.0
        self.live = live
        self.nodes = {name: _node(name, count) for name, count in gpus.items()}
        self.jobs: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, ObservedPod] = {}
        self.rules = Rules(default_image="busybox", fence_seconds=10.0)
        self.crash_after: int | None = None
        self.crashes = 0
        self.wedged: set[str] = set()  # nodes whose kubelets do not get rid of pods
        self.given_up: list[str] = []
        self.silent = False
        self.ill: set[str] = set()
        self.probes: dict[str, NodeProbe] = {}
        self._ever: set[str] = set()
        self._recipe = recipe
        self._wake: float | None = None
        self._rebuild()

    # --- what people and machines do ----------------------------------------------------------

    def submit(self, name: str, gpus: str, **more: object) -> None:
        self.jobs[name] = {
            "metadata": {
                "uid": f"u-{name}",
                "resourceVersion": "1",
                "namespace": NAMESPACE,
                "name": name,
                "creationTimestamp": f"1970-01-01T00:{len(self.jobs):02d}:00Z",
                "finalizers": ["weft.dev/workers"],
            },
            "spec": {"run": "train", "resources": {"gpus": gpus}, **more},
        }

    def cancel(self, name: str) -> None:
        self.jobs[name]["metadata"]["annotations"] = {"weft.dev/cancel": "true"}

    def take_out_of_service(self, node: str) -> None:
        self.nodes[node] = replace(self.nodes[node], out_of_service=True)

    def drain(self, pod: str) -> None:
        """Somebody evicts it; it leaves when the kubelet acts."""
        if pod in self.pods:
            self._put(pod, deleting=True, leaves_by=self.now + 30.0)

    def lose(self, node: str) -> None:
        self.nodes[node] = replace(self.nodes[node], ready=False)
        self.book.touch(node)

    def cordon(self, node: str) -> None:
        self.nodes[node] = replace(self.nodes[node], closed=True)
        self.book.touch(node)

    def find(self, node: str) -> None:
        self.nodes[node] = replace(self.nodes[node], ready=True)
        self.book.touch(node)

    def answer(self) -> None:
        """Probes that were asked and have not spoken do."""
        for node, one in self.probes.items():
            if one.answered is None:
                unfit = "disk: dead" if node in self.ill else ""
                self.probes[node] = replace(one, answered=self.now, unfit=unfit)
                self.book.touch(node)

    def kubelets(self) -> None:
        """Pods that wait start where there is room, and those that are asked to leave do."""
        for name, pod in sorted(self.pods.items()):
            ready = self.nodes[pod.node].ready if pod.node in self.nodes else False
            if pod.deleting and ready and pod.node not in self.wedged:
                self._drop(name)
            elif pod.phase == "Pending" and not pod.deleting and ready:
                self._put(name, phase="Running")
        for name in self.jobs:
            self._answer(name)

    def _answer(self, name: str) -> None:
        """The head does as it is told, once all who are to come have come."""
        job = self.observed(name)
        order = ordered(job)
        known = self.answers.get(name)
        if order is None or (known is not None and known.serial == order.serial):
            return
        running = {pod.seat for pod in self.pods.values() if pod.job == name and pod.running}
        if job.placement is not None and job.placement.numbers <= running:
            self.orders.setdefault(name, []).append(order)
            why = "no step under it" if self.stuck else ""
            self.answers[name] = OrderAnswer(order.serial, not self.stuck, why, 0.5)

    def lead(self, name: str) -> None:
        """The first pod that runs leads, if the head's does not; the operator puts that down."""
        job = self.observed(name)
        mine = {pod.seat: pod for pod in self.pods.values() if pod.job == name}
        there = [seat for seat, pod in sorted(mine.items()) if self._runs(pod, job.epoch)]
        head = mine.get(job.headship.seat)
        if not self.live or not there or (head is not None and self._runs(head, job.epoch)):
            return
        led = Headship(there[0], job.headship.term + 1)
        self._patch(name, head_patch(job, led))

    def _runs(self, pod: ObservedPod, epoch: int) -> bool:
        ready = pod.node in self.nodes and self.nodes[pod.node].ready
        return ready and pod.running and pod.epoch == epoch

    # --- the operator -------------------------------------------------------------------------

    def act(self, seconds: float = 1.0) -> None:
        """Time goes by, and the operator does what is to be done; it may die of it."""
        self.now += seconds
        self.probes = {n: one for n, one in self.probes.items() if not self._is_old(one)}
        try:
            self._tell_nodes()
            if self._wake is not None and self._wake <= self.now:
                self._wake = None
                self._deliver(Tick(self.now))
            for name in [*self.jobs]:
                self._tell_offers(name)
                self._attend(name)
                self._keep_status(name)
        except Crashed:
            self.crashes += 1
            self._rebuild()

    def _is_old(self, one: NodeProbe) -> bool:
        return one.answered is not None and self.now >= one.answered + HOLDS_SECONDS

    def settle(self) -> None:
        """Until nothing changes any more."""
        for _ in range(60):
            self.act(5.0)
            self.kubelets()

    def observed(self, name: str) -> ObservedJob:
        return self._job_reader(self.jobs[name])

    def state(self, name: str) -> str:
        return str(self.jobs[name].get("status", {}).get("state", ""))

    def placement(self, name: str) -> Placement:
        """The seats on record."""
        found = self.observed(name).placement
        assert found is not None
        return found

    def alive(self, name: str) -> set[int]:
        """Seats of its pods that may run."""
        return {pod.seat for pod in self.pods.values() if pod.job == name and pod.live}

    def believed(self, name: str) -> set[int]:
        key = JobId(f"{NAMESPACE}/{name}")
        return set(belief_of(self.brain.state, key, "", self.now).seats)

    # --- helpers ------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self._job_reader = JobReader()
        self._notes: dict[str, Note] = {}
        self._wake = None
        self.brain = Brain(make_recipe(self._recipe), settings=Settings(backoff_seconds=1.0))
        self.index = PodIndex()
        self.foreign_use = ForeignUse(self.index, self._stands_behind)
        self.book = NodeInventory(self.nodes, self.foreign_use)
        self.probes.clear()
        self.book.unfit = lambda node: self.probes[node].unfit if node in self.probes else ""
        for pod in self.pods.values():
            self.index.changed(None, pod)
        for _ in range(2):  # as a term does: before the jobs are met, and after
            for name in self.nodes:
                self.book.touch(name)
            self._tell_nodes()
            for name in [*self.jobs]:
                step = next_step(self._look(name))
                for event in step.events:
                    self._deliver(event)

    def _tell_nodes(self) -> None:
        for event in self.book.news(self.now):
            self._deliver(event)

    def _deliver(self, event: Event) -> None:
        for instruction in self.brain.handle(event):
            if isinstance(instruction, Wake):
                self._wake = instruction.at
        assert invariants.check(self.brain.state) == []

    def _attend(self, name: str) -> None:
        for _ in range(MOST_STEPS):
            step = next_step(self._look(name))
            self._notes[name] = step.note
            for event in step.events:
                self._deliver(event)
            if step.idle:
                return
            for action in step.actions:
                self._perform(name, action)
            self._check()
        raise AssertionError(f"{name} is never done: {step}")

    def _keep_status(self, name: str) -> None:
        """What the status writer does."""
        look = self._look(name)
        state, job = look.belief.state, self.observed(name)
        if state not in (State.QUEUED, State.RUNNING):
            return
        offers = self.offers if look.said_plans else ()
        told = look.said_live in (None, job.is_live) and offers in ((), job.offers)
        if job.state == title(state) and told:
            return
        self._crash_perhaps()
        standing = Standing(state, live=look.said_live, offers=offers)
        self._patch(name, standing_patch(job, standing, self.now))

    def _look(self, name: str) -> Look:
        key = f"{NAMESPACE}/{name}"
        belief = belief_of(self.brain.state, JobId(key), "", self.now)
        head = self.pods.get(pod_name(name, belief.epoch, self.observed(name).headship.seat))
        return Look(
            key=key,
            job=self.observed(name),
            pods=tuple(pod for pod in self.pods.values() if pod.job == name),
            belief=belief,
            note=self._notes.get(name, Note()),
            now=self.now,
            rules=self.rules,
            lost=self.book.lost,
            dead=self.book.dead,
            said_live=True if (leads := head is not None and head.running) and self.live else None,
            said_plans=leads and self.live and bool(self.offers),
            said_answer=self.answers.get(name),
            probed=self.probes,
        )

    def _tell_offers(self, name: str) -> None:
        """As what its program can be run, with each report of a head."""
        look, known = self._look(name), self.brain.state.slot_of.get(JobId(f"{NAMESPACE}/{name}"))
        offers = offered(self.observed(name), self.offers)
        if known is not None and look.said_live and offers:
            self._deliver(PlansOffered(self.now, look.id, look.belief.epoch, offers))

    def _crash_perhaps(self) -> None:
        if self.crash_after is None:
            return
        self.crash_after -= 1
        if self.crash_after < 0:
            self.crash_after = None
            raise Crashed

    def _perform(self, name: str, action: Action) -> None:
        self._crash_perhaps()
        job = self.observed(name)
        if isinstance(action, CreatePods):
            for number in action.numbers:
                self._create(name, action, number)
                self._crash_perhaps()
        elif isinstance(action, DeletePods):
            for pod in action.pods:
                self.given_up += [action.why] if action.now else []
                self._delete(pod, now=action.now)
                self._crash_perhaps()
        elif isinstance(action, AskProbes):
            self.probes |= {node: NodeProbe(self.now) for node in action.nodes}
            if not self.silent:
                self.answer()
        elif not isinstance(action, AddFinalizer):
            self._patch(name, _patch_of(job, action, self.now))
        if isinstance(action, Record):
            begun = self.observed(name)
            assert (begun.serial, begun.joining, begun.is_live) == (0, frozenset(), None)

    def _create(self, name: str, action: CreatePods, number: int) -> None:
        pod = pod_name(name, action.epoch, number)
        seat = next(seat for seat in action.placement.seats if seat.number == number)
        assert pod not in self._ever, f"{pod} was there before"
        self._ever.add(pod)
        made = a_pod(
            number,
            "Pending",
            action.epoch,
            uid=f"{pod}-{self.now}",
            name=pod,
            job=name,
            owner=f"u-{name}",
            node=seat.node,
            gpus=seat.gpus,
        )
        self.pods[pod] = made
        self.index.changed(None, made)
        self.book.touch(seat.node)

    def _delete(self, pod: ObservedPod, *, now: bool) -> None:
        if pod.name not in self.pods:
            return
        if now or pod.phase == "Pending" or not pod.live:
            self._drop(pod.name)
        else:
            self._put(pod.name, deleting=True, leaves_by=self.now + 30.0)

    def _put(self, name: str, **changes: Any) -> None:
        old = self.pods[name]
        new = self.pods[name] = replace(old, version=old.version + 1, **changes)
        self.index.changed(old, new)
        for node in nodes_touched(old, new):
            self.book.touch(node)

    def _drop(self, name: str) -> None:
        old = self.pods.pop(name)
        self.index.changed(old, None)
        for node in nodes_touched(old, None):
            self.book.touch(node)

    def _patch(self, name: str, patch: dict[str, Any]) -> None:
        job = self.jobs[name]
        version = int(job["metadata"]["resourceVersion"])
        assert patch["metadata"]["resourceVersion"] == str(version)
        job["metadata"]["resourceVersion"] = str(version + 1)
        job["status"] = merged(job.get("status", {}), patch["status"])

    def _stands_behind(self, pod: ObservedPod) -> bool:
        name = pod.worker_name
        if name is None or not pod.job:
            return False
        worker = BoundWorker(name, pod.node, int(pod.takes.of(GPU_RESOURCE)))
        counted = is_counted(self.brain.state, JobId(pod.key), worker)
        if counted is not None:
            return counted
        job = self.observed(pod.job)
        if job.epoch != pod.epoch or job.placement is None:
            return False
        return worker.is_on(job.placement.seats)

    def _check(self) -> None:
        """What must never be seen, whatever happened before."""
        held = dict.fromkeys(self.nodes, 0)
        for pod in self.pods.values():
            held[pod.node] += int(pod.takes.of(GPU_RESOURCE)) if pod.live else 0
        for name, gpus in held.items():
            assert gpus <= self.nodes[name].gpus, f"{name} holds {gpus} GPUs: {self.pods}"
        for job in self.jobs:
            epochs = {pod.epoch for pod in self.pods.values() if pod.job == job and pod.live}
            assert len(epochs) <= 1, f"{job} lives in epochs {epochs}"


def merged(old: Any, patch: Any) -> Any:  # noqa: ANN401 - JSON
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    found = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            found.pop(name, None)
        else:
            found[name] = merged(found.get(name), value)
    return found


def _patch_of(job: ObservedJob, action: Action, now: float) -> dict[str, Any]:
    if isinstance(action, Record):
        return decision_patch(
            job, action.epoch, action.assignment, state=State.STARTING, now=now, leader=1
        )
    if isinstance(action, RecordSeats):
        return seats_patch(
            job,
            Standing(action.state, message=action.why),
            action.placement,
            serial=action.serial,
            joining=action.joining,
            now=now,
            plan=action.plan,
        )
    if isinstance(action, RecordHeldUp):
        told = Standing(State.STOPPING, message=action.why, held_up=action.why)
        return standing_patch(job, told, now)
    if isinstance(action, RecordStopping):
        return standing_patch(job, Standing(State.STOPPING, message=action.why), now)
    if isinstance(action, RecordWait):
        return standing_patch(job, Standing(State.QUEUED, reasons=(action.reason,)), now)
    assert isinstance(action, Settle | RecordRefused), action
    message = action.message if isinstance(action, Settle) else ""
    return standing_patch(job, Standing(action.state, message=message), now)


def _node(name: str, gpus: int) -> ObservedNode:
    return ObservedNode(
        uid=name,
        version=1,
        name=name,
        ready=True,
        closed=False,
        gpus=gpus,
        cpus=64.0,
        memory_gib=512.0,
        gpu_type=ANY_GPU,
        gpu_memory_gib=None,
        rack=DEFAULT_RACK,
        pool=DEFAULT_POOL,
    )
