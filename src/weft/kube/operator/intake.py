"""Takes in what changed: the brain hears of it, or the jobs concerned are looked at again.

A term begins with nothing in mind: all that is there is taken in first, queues and nodes and then
jobs as they were submitted. What the tree of queues cannot take in event by event (a queue removed,
another recipe) needs a fresh look.
"""

import asyncio
from collections.abc import Callable

from weft.brain.event import QueueChanged
from weft.kube.devices import (
    NodeDevices,
    ObservedClaim,
    ObservedSlice,
    devices_on,
    tainted_on,
)
from weft.kube.logs import Log
from weft.kube.names import GPU_RESOURCE, WorkerName
from weft.kube.operator.decider import Decider
from weft.kube.operator.ended_jobs import recalled
from weft.kube.operator.executor.executor import Executor
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.informers import Informers
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.observation.pod_index import conflicting_job, nodes_touched
from weft.kube.operator.observation.queue import ObservedQueue
from weft.kube.operator.observation.queue_tree import as_meant, build_tree, misplaced, recipe_of
from weft.kube.operator.reconcile.beliefs import BoundWorker, is_counted
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import Look, Note
from weft.kube.operator.status.queue_status import QueueStatusWriter
from weft.kube.operator.status.status_writer import StatusWriter
from weft.kube.taint_rules import TaintRule, with_rules
from weft.kube.trouble import Trouble
from weft.model.errors import BadEvent
from weft.model.ids import JobId, NodeId
from weft.model.queue import QueueTree
from weft.model.request import JobRequest
from weft.model.state import State

log = Log("term")


class Intake:
    """Hears what the informers see (their `Listener`), and knows what the brain has not met yet."""

    def __init__(
        self,
        informers: Informers,
        decider: Decider,
        *,
        executor: Executor,
        status_writer: StatusWriter,
        queue_status: QueueStatusWriter,
        look: Callable[[str, Note], Look],
        recipe: str,
    ) -> None:
        self.begun = asyncio.Event()
        self.changes: dict[str, int] = {}
        self._pods = informers.pod_index
        self._jobs, self._nodes, self._queues = informers.jobs, informers.nodes, informers.queues
        self.foreign_use = ForeignUse(self._pods, self._stands_behind)
        self._devices = informers.device_index
        self._gpu_class = informers.gpu_class
        counted = self._devices_on if self._gpu_class else None
        self.inventory = NodeInventory(self._nodes.items, self.foreign_use, counted)
        self.tainted: dict[str, tuple[Trouble, ...]] = {}
        self._taint_rules: tuple[TaintRule, ...] = ()
        for node in self._devices.nodes:
            self._look_for_taints(node)
        self._decider = decider
        self._executor = executor
        self._status_writer = status_writer
        self._queue_status = queue_status
        self._look = look
        self._recipe = recipe
        self._unmet: set[str] = set()  # set aside before the brain has heard of them
        self._nodes_are_due = False

    def begin(self) -> None:
        """A brain from what is there: queues and nodes first, then jobs as they were submitted."""
        tree, faults = build_tree(self._queues.items)
        self._queue_status.faults = faults
        self._decider.begin(recipe_of(self._queues.items, self._recipe), tree)
        self.begun.set()
        self.inventory.seat(self._seated())
        for name in self._nodes.items:
            self.inventory.touch(name)
        self.tell_nodes()
        if (past := recalled(self._jobs.items.values(), self._decider.now())) is not None:
            self._decider.deliver(past)
        jobs = sorted(self._jobs.items.values(), key=lambda job: (job.created, job.uid))
        for job in jobs:
            self._meet(job.key)
        for key in {**self._pods.of_job, **self._jobs.items}:
            if not self._only_waits(key):
                self._executor.touch(key)
        for name in self._nodes.items:
            self.inventory.touch(name)
        self.tell_nodes()

    def _only_waits(self, key: str) -> bool:
        """Whether nothing is to be done about it before something changes, as of most jobs."""
        job = self._jobs.items.get(key)
        if job is None or key in self._pods.of_job or key in self._unmet:
            return False
        known = not (job.epoch or job.final or job.deleting or job.cancelled or job.set_aside)
        return known and self._decider.belief(JobId(key)).state is State.QUEUED

    def _seated(self) -> set[str]:
        """Nodes on which jobs are, as their decisions on record say."""
        holding = [job for job in self._jobs.items.values() if not job.final]
        return {seat.node for job in holding if job.placement for seat in job.placement.seats}

    def _meet(self, key: str) -> None:
        """Hand a job to the brain, unless it is set aside."""
        if self._decider.aside(key) is not None:
            self._unmet.add(key)
            return
        try:
            self._decider.deliver_all(next_step(self._look(key, Note())))
        except Exception as error:
            if not self._decider.contain(key, error):
                raise
            self._unmet.add(key)

    def before_job(self, job: JobRequest) -> JobRequest:
        """The job as the queues of now mean it.

        If it was set aside, the brain hears of it after all: what its workers hold is nobody
        else's any more.
        """
        meant = as_meant(job, self._queues.items, sharing=bool(self._gpu_class))
        if meant.id in self._unmet:
            self._unmet.discard(meant.id)
            for pod in self._pods.of_job.get(meant.id, {}).values():
                self.inventory.touch(pod.node)
            self.tell_nodes()
        return meant

    def after_job(self, job: JobRequest) -> None:
        """The brain has just met it: what is on record of it?"""
        self._show(job.id, self._jobs.items.get(job.id))

    def gone(self) -> list[str]:
        """Jobs of which nothing is left; they are forgotten here."""
        known = self._decider.brain.state.slot_of
        found = [
            key
            for key in self.changes
            if key not in self._jobs.items
            and key not in self._pods.of_job
            and JobId(key) not in known
        ]
        for key in found:
            del self.changes[key]
        return found

    # --- changes ------------------------------------------------------------------------------

    def job_changed(self, key: str, old: ObservedJob | None, new: ObservedJob | None) -> None:
        self.changes[key] = self.changes.get(key, 0) + 1
        if not self.begun.is_set():
            return
        self._show(key, new)
        self._executor.touch(key)

    def _show(self, key: str, observed: ObservedJob | None) -> None:
        state = self._decider.brain.state
        slot = state.slot_of.get(JobId(key))
        if slot is not None and observed is not None:
            self._status_writer.saw(slot, int(state.jobs.seq[slot]), observed)

    def pod_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        pod = new or old
        assert pod is not None
        jobs = {one.key for one in (old, new) if one is not None and one.job}
        for job in jobs:
            self.changes[job] = self.changes.get(job, 0) + 1
        for node in nodes_touched(old, new):
            if node in self.tainted or not self._stands_behind(pod):
                self.touch_node(node)
        if self.begun.is_set():
            for job in sorted(jobs):
                self._executor.touch(job)
        self._touch_conflicting_jobs(old, new)

    def foreign_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        for node in nodes_touched(old, new):
            self.touch_node(node)
        self._touch_conflicting_jobs(old, new)

    def _touch_conflicting_jobs(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """A pod that has the name of a job's worker may keep that job from starting again."""
        if self.begun.is_set():
            for pod in filter(None, (old, new)):
                if (job := conflicting_job(pod)) in self._jobs.items:
                    self._executor.touch(job)

    def recount_name_conflicts(self, job: JobId) -> None:
        """Count pods with the names of its workers as foreign once no seat accounts for them."""
        for pod in self._pods.name_conflicts.get(job, {}).values():
            self.touch_node(pod.node)

    def node_changed(self, key: str, old: ObservedNode | None, new: ObservedNode | None) -> None:
        if old is not None and new is not None and new.same_but_for_version(old):
            return
        self.touch_node(key)

    def slice_changed(self, key: str, old: ObservedSlice | None, new: ObservedSlice | None) -> None:
        for node in {one.node for one in (old, new) if one is not None}:
            self._look_for_taints(node)
            self.touch_node(node)

    def taint_rules_changed(self, rules: tuple[TaintRule, ...]) -> None:
        """Which devices they are about may be anywhere."""
        self._taint_rules = rules
        for node in self._devices.nodes:
            self._look_for_taints(node)
            self.touch_node(node)

    def _slices_on(self, node: str) -> list[ObservedSlice]:
        return [with_rules(one, self._taint_rules) for one in self._devices.slices_on(node)]

    def _look_for_taints(self, node: str) -> None:
        found = tainted_on(node, self._gpu_class, self._slices_on(node))
        self.tainted.pop(node, None)
        if found:
            self.tainted[node] = found
            log.warning("device_tainted", node=node, taint=found[0].message)

    def claim_changed(self, key: str, old: ObservedClaim | None, new: ObservedClaim | None) -> None:
        for claim in (old, new):
            if claim is not None and not claim.job:
                for node in self._devices.nodes_of(claim):
                    self.touch_node(node)

    def _devices_on(self, node: str) -> NodeDevices:
        slices, claims = self._slices_on(node), self._devices.claims_on(node)
        found = devices_on(node, self._gpu_class, slices, claims)
        return found.while_held(self._held_on(node)) if found.kept_away else found

    def _held_on(self, node: str) -> int:
        """GPUs that jobs of ours have there."""
        state = self._decider.brain.state
        row = state.node_row.get(NodeId(node))
        return 0 if row is None else state.seating.staying_on(row)

    def touch_node(self, name: str) -> None:
        self.inventory.touch(name)
        if self.begun.is_set() and not self._nodes_are_due:
            self._nodes_are_due = True
            self._decider.serial_queue.soon(self.tell_nodes)

    def tell_nodes(self) -> None:
        self._nodes_are_due = False
        for event in self.inventory.news(self._decider.now()):
            try:
                self._decider.deliver(event)
            except BadEvent as error:  # one node that cannot be is no reason to lose all others
                log.error("node_left_out", error=str(error))

    def queue_changed(self, key: str, old: ObservedQueue | None, new: ObservedQueue | None) -> None:
        """What the tree can take in is told; all else needs a fresh look."""
        same = old is not None and new is not None and old.spec == new.spec
        if same or not self.begun.is_set():
            return
        tree, faults = build_tree(self._queues.items)
        self._queue_status.faults = faults
        state, queues = self._decider.brain.state, self._queues.items
        another = recipe_of(queues, self._recipe) != self._decider.recipe
        if another or misplaced(state, self._jobs.items, queues):
            self._decider.afresh.set()
        elif set(tree.queues) != set(state.tree.queues):
            self._tell_queues(tree, removed=new is None)

    def _tell_queues(self, tree: QueueTree, *, removed: bool) -> None:
        state = self._decider.brain.state
        known = {queue.id for queue in state.tree.queues}
        if removed or not known <= {queue.id for queue in tree.queues}:
            self._decider.afresh.set()
            return
        for queue in tree.queues:
            if queue not in state.tree.queues:
                self._decider.deliver(QueueChanged(self._decider.now(), queue))

    def _stands_behind(self, pod: ObservedPod) -> bool:
        """Whether the brain counts this pod's GPUs, or will as soon as it hears of the job."""
        name = pod.worker_name
        if name is None:
            return False
        key = f"{pod.namespace}/{name.job}"
        job = self._jobs.items.get(key)
        if not (pod.job or (job is not None and pod.was_worker_of(job.uid))):
            return False
        if pod.job and job is not None and job.uid != pod.owner:
            return False
        worker = self._bound(pod, name)
        counted = is_counted(self._decider.brain.state, JobId(key), worker)
        if counted is not None:
            return counted
        if key in self._unmet or job is None or job.epoch != name.epoch:
            return False
        return job.placement is not None and worker.is_on(job.placement.seats)

    def _bound(self, pod: ObservedPod, name: WorkerName) -> BoundWorker:
        node = self._nodes.items.get(pod.node)
        gpu_resource = GPU_RESOURCE if node is None else node.gpu_resource
        return BoundWorker(name, pod.node, int(pod.takes.of(gpu_resource)))
