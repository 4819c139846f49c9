"""One term of leadership: from the moment this replica leads until it does not, or starts afresh.

A term begins with nothing in mind. It lists what there is, builds a brain from nodes, queues, jobs
and pods, and from then on turns changes into events and instructions into touches of the jobs
concerned. Whatever is hard to follow event by event (a queue removed, another recipe, a broken
promise) ends the term, and the next one begins with a fresh look.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from random import Random
from typing import Any

from weft.brain import invariants
from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    InstructionDone,
    JobReported,
    JobSubmitted,
    Phase,
    QueueChanged,
    Tick,
    Verb,
)
from weft.brain.instruction import Instruction, Preempt, Probe, Resize, Start, Stop, Wake
from weft.brain.journal import Journal
from weft.brain.state import BrainState
from weft.kube.client.api import Api
from weft.kube.client.backoff import Backoff
from weft.kube.client.cache import Cache
from weft.kube.client.lease import Leadership
from weft.kube.logs import Log, in_round
from weft.kube.metrics import Metrics
from weft.kube.names import JOB_LABEL, jobs_path, pods_path, queues_path
from weft.kube.operator import crash
from weft.kube.operator.beliefs import belief_of, is_counted, slow_change, standing_of, why_of
from weft.kube.operator.clerk import Clerk
from weft.kube.operator.course import next_step
from weft.kube.operator.hands import Hands
from weft.kube.operator.ledger import Ledger
from weft.kube.operator.measuring import Speeds
from weft.kube.operator.nodebook import NodeBook
from weft.kube.operator.progress import Progress
from weft.kube.operator.queuebook import QueueBook, measure
from weft.kube.operator.queues import as_meant, build_tree, recipe_of
from weft.kube.operator.sight import (
    JobEyes,
    JobSight,
    NodeSight,
    PodSight,
    QueueSight,
    see_node,
    see_pod,
    see_queue,
)
from weft.kube.operator.status import Standing
from weft.kube.operator.step import Belief, Look, Note, Rules, Step
from weft.kube.pods import WorkerSettings
from weft.model.ids import JobId
from weft.model.queue import QueueTree
from weft.model.state import State
from weft.spec.recipe import make_recipe

FOREIGN_PODS = {
    "labelSelector": f"!{JOB_LABEL}",
    "fieldSelector": "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed",
}
WAITING = (State.QUEUED, State.ADMITTED)

UNDER_WAY: dict[State | None, Phase] = {
    State.STARTING: Phase.STARTING,
    State.RESIZING: Phase.RUNNING,
    State.STOPPING: Phase.STOPPING,
}
ACKNOWLEDGED = {
    Verb.START: "acknowledged",
    Verb.STOP: "stopped",
    Verb.RESIZE: "resize-acknowledged",
}

OpenJournal = Callable[[str, QueueTree, Settings], Journal]

log = Log("term")


class Ending(Enum):
    """Why a term is over."""

    LOST = "leadership lost"
    AFRESH = "a fresh look is needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSettings:
    """What does not change from term to term."""

    identity: str
    recipe: str
    rules: Rules
    workers: WorkerSettings
    brain: Settings
    seed: int | None = None


class Term:
    """Caches, a brain, hands and a clerk, and the wires between them."""

    def __init__(
        self,
        api: Api,
        leadership: Leadership,
        settings: TermSettings,
        *,
        metrics: Metrics,
        open_journal: OpenJournal,
    ) -> None:
        self._api = api
        self._leadership = leadership
        self._settings = settings
        self._metrics = metrics
        self._open_journal = open_journal
        self._random = Random(settings.seed)
        self._eyes = JobEyes()
        self.jobs: Cache[JobSight] = self._cache(api, jobs_path(), self._eyes, self._job_changed)
        self.pods: Cache[PodSight] = self._cache(
            api, pods_path(), see_pod, self._pod_changed, {"labelSelector": JOB_LABEL}
        )
        self.foreign: Cache[PodSight] = self._cache(
            api, pods_path(), see_pod, self._foreign_changed, FOREIGN_PODS, name="foreign"
        )
        self.nodes: Cache[NodeSight] = self._cache(
            api, "/api/v1/nodes", see_node, self._node_changed
        )
        self.queues: Cache[QueueSight] = self._cache(
            api, queues_path(), see_queue, self._queue_changed
        )
        self.brain = Brain(make_recipe(settings.recipe))
        self.progress = Progress()
        self.speeds = Speeds()
        self.ledger = Ledger(self._stands_behind)
        self.nodebook = NodeBook(self.nodes.items, self.ledger)
        self.queuebook = QueueBook(api, self.queues)
        self.hands = Hands(
            api, self, workers=settings.workers, metrics=metrics, random=self._random
        )
        self.clerk = Clerk(api, self, metrics)
        self._journal = Journal()
        self._begun = asyncio.Event()
        self._recipe = settings.recipe
        self._afresh = asyncio.Event()
        self._pods_of: dict[str, dict[str, PodSight]] = {}
        self._changes: dict[str, int] = {}
        self._whys: dict[str, str] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._flush: asyncio.Handle | None = None

    async def run(self) -> Ending:
        """Lead until it is over; whatever breaks ends it as well."""
        caches = (self.jobs, self.pods, self.foreign, self.nodes, self.queues)
        tasks: set[asyncio.Task[Any]] = {
            asyncio.create_task(cache.run(), name=cache.name) for cache in caches
        }
        lost = asyncio.create_task(self._leadership.wait_until_lost(), name="lease")
        try:
            listed = asyncio.gather(*(cache.synced.wait() for cache in caches))
            await _first_of({*tasks, lost, asyncio.ensure_future(listed)})
            if lost.done():
                return Ending.LOST
            self._begin()
            tasks |= {
                self._task(work) for work in (self.hands.run, self.clerk.run, self._keep_books)
            }
            tasks.add(asyncio.create_task(self._afresh.wait(), name="afresh"))
            await _first_of({*tasks, lost})
            return Ending.LOST if lost.done() else Ending.AFRESH
        finally:
            await self._end({*tasks, lost})

    @property
    def begun(self) -> bool:
        """Whether everything is listed and the brain decides."""
        return self._begun.is_set()

    async def wait_until_begun(self) -> None:
        await self._begun.wait()

    # --- the brain ----------------------------------------------------------------------------

    def _begin(self) -> None:
        """A brain from what is there: queues and nodes first, then jobs as they were submitted."""
        tree, faults = build_tree(self.queues.items)
        self._recipe = recipe_of(self.queues.items, self._settings.recipe)
        self.queuebook.faults = faults
        self.brain = Brain(make_recipe(self._recipe), tree=tree, settings=self._settings.brain)
        self._journal = self._open_journal(self._recipe, tree, self._settings.brain)
        self._begun.set()
        for name in self.nodes.items:
            self.nodebook.touch(name)
        self._tell_nodes()
        jobs = sorted(self.jobs.items.values(), key=lambda job: (job.created, job.uid))
        for job in jobs:
            self._meet(job.key)
        for key in {**self._pods_of, **self.jobs.items}:
            self.hands.touch(key)
        for name in self.nodes.items:
            self.nodebook.touch(name)
        self._tell_nodes()
        log.info("term_begun", jobs=len(jobs), nodes=len(self.nodes.items), recipe=self._recipe)

    def _meet(self, key: str) -> None:
        step = next_step(self.look(key, Note()))
        if step.events:
            self.deliver_all(step)

    def deliver_all(self, step: Step) -> None:
        for event in step.events:
            self.deliver(event)

    def deliver(self, event: Event) -> None:
        """One event into the brain; its instructions touch the jobs that they speak of."""
        if isinstance(event, JobSubmitted):
            event = replace(event, job=as_meant(event.job, self.queues.items))
            crash.passing("observed")
        began = time.perf_counter()
        instructions = self.brain.handle(event)
        self._journal.record(event, instructions)
        self._metrics.event_handled(type(event).__name__)
        self._metrics.journal_grew()
        with in_round(f"{self.leader}-{self.brain.rounds}"):
            if self.brain.decision is not None:
                self._decided(time.perf_counter() - began)
            for instruction in instructions:
                self._take(instruction)
        self._see_standing(event)
        if isinstance(event, InstructionDone):
            crash.passing(ACKNOWLEDGED[event.verb])

    def _decided(self, seconds: float) -> None:
        decision = self.brain.decision
        assert decision is not None
        crash.passing("decided")
        self._metrics.round_took(seconds)
        if not (decision.grants or decision.preemptions or decision.resizes):
            return
        breaches = invariants.check(self.brain.state, decision)
        if breaches:
            self._metrics.invariant_broken(len(breaches))
        invariants.demand(breaches)
        self._metrics.decided("started", len(decision.grants))
        self._metrics.decided("preempted", len(decision.preemptions))
        self._metrics.decided("resized", len(decision.resizes))
        log.debug("round", grants=len(decision.grants), preempted=len(decision.preemptions))

    def _take(self, instruction: Instruction) -> None:
        if isinstance(instruction, Wake):
            self._wake_at(instruction.at)
        elif isinstance(instruction, Probe):
            asyncio.get_running_loop().call_soon(self._answer, instruction)
        elif isinstance(instruction, Start | Stop | Preempt | Resize):
            why = self._whys[instruction.job] = why_of(instruction)
            log.info(
                f"job_{instruction.verb}", job=instruction.job, epoch=instruction.epoch, why=why
            )
            self.hands.touch(instruction.job)

    def _wake_at(self, at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        loop = asyncio.get_running_loop()
        self._wake = loop.call_later(max(at - time.time(), 0.0), self._tick, at)

    def _tick(self, at: float) -> None:
        """Never before the time that was asked for, though timers may be a hair early."""
        self._wake = None
        self._tell_nodes()
        self.deliver(Tick(max(self.now(), at)))

    def _answer(self, probe: Probe) -> None:
        """Nobody answered an instruction yet: the hands are at it."""
        belief = self._belief(probe.job)
        phase = UNDER_WAY.get(belief.state) if belief.epoch == probe.epoch else None
        if phase is not None:
            self.hands.touch(probe.job)
            self.deliver(JobReported(self.now(), probe.job, probe.epoch, phase, belief.work_done))

    # --- what the hands and the clerk see -----------------------------------------------------

    def look(self, key: str, note: Note) -> Look:
        belief = self._belief(JobId(key))
        return Look(
            key=key,
            job=self.jobs.items.get(key),
            pods=tuple(self._pods_of.get(key, {}).values()),
            belief=belief,
            note=note,
            now=self.now(),
            rules=self._settings.rules,
            lost=self.nodebook.lost,
            said_live=self.progress.live(key, belief.epoch),
            said_paused_seconds=self._paused_seconds(key, belief),
        )

    def _paused_seconds(self, key: str, belief: Belief) -> float | None:
        order = belief.resizing
        if order is None:
            return None
        return self.progress.paused_seconds(key, belief.epoch, order.target.width)

    def now(self) -> float:
        """Seconds since 1970; never before what the brain has seen."""
        return max(time.time(), self.brain.now)

    @property
    def leader(self) -> int:
        return self._leadership.transitions

    @property
    def identity(self) -> str:
        return self._settings.identity

    @property
    def brain_state(self) -> BrainState:
        return self.brain.state

    @property
    def job_sights(self) -> Mapping[str, JobSight]:
        return self.jobs.items

    def changes(self, key: str) -> int:
        return self._changes.get(key, 0)

    def is_busy(self, key: str) -> bool:
        return self.hands.is_busy(key)

    def backlog(self) -> int:
        return self.hands.backlog

    def took_job(self, raw: dict[str, Any]) -> None:
        self.jobs.put(raw)

    def took_pod(self, raw: dict[str, Any]) -> None:
        self.pods.put(raw)

    def standing(self, key: str, state: State, message: str) -> Standing:
        return standing_of(self.brain, JobId(key), state, message, self.progress.of(key))

    def slow_change(self, key: str) -> str:
        return slow_change(self._belief(JobId(key)), self._pods_of.get(key, {}).values())

    def _belief(self, job: JobId) -> Belief:
        return belief_of(self.brain.state, job, self._whys.get(job, ""), self.now())

    def _stands_behind(self, pod: PodSight) -> bool:
        """Whether the brain counts this pod's GPUs, or will as soon as it hears of the job."""
        if not pod.job:
            return False
        counted = is_counted(self.brain.state, pod)
        if counted is not None:
            return counted
        job = self.jobs.items.get(pod.key)
        if job is None or (job.uid, job.epoch) != (pod.owner, pod.epoch):
            return False
        return job.placement is not None and pod.seat in job.placement.numbers

    # --- changes ------------------------------------------------------------------------------

    def _job_changed(self, key: str, old: JobSight | None, new: JobSight | None) -> None:
        self._changes[key] = self._changes.get(key, 0) + 1
        if new is None and old is not None:
            self._eyes.forget(old.uid)
        if not self.begun:
            return
        self._show(key, new)
        self.hands.touch(key)

    def _show(self, key: str, sight: JobSight | None) -> None:
        slot = self.brain.state.slot_of.get(JobId(key))
        if slot is not None and sight is not None:
            self.clerk.saw(slot, int(self.brain.state.jobs.seq[slot]), sight)

    def _see_standing(self, event: Event) -> None:
        """A job that the brain has just met: what is on record of it?"""
        if isinstance(event, JobSubmitted):
            self._show(event.job.id, self.jobs.items.get(event.job.id))

    def _pod_changed(self, key: str, old: PodSight | None, new: PodSight | None) -> None:
        pod = new or old
        assert pod is not None
        mine = self._pods_of.setdefault(pod.key, {})
        if new is None:
            mine.pop(pod.name, None)
            if not mine:
                del self._pods_of[pod.key]
        else:
            mine[new.name] = new
        self._changes[pod.key] = self._changes.get(pod.key, 0) + 1
        for node in self.ledger.changed(old, new):
            if not self._stands_behind(pod):
                self._touch_node(node)
        if self.begun:
            self.hands.touch(pod.key)

    def _foreign_changed(self, key: str, old: PodSight | None, new: PodSight | None) -> None:
        for node in self.ledger.changed(old, new):
            self._touch_node(node)

    def _node_changed(self, key: str, old: NodeSight | None, new: NodeSight | None) -> None:
        if old is not None and new is not None and new.same_but_for_version(old):
            return
        self._touch_node(key)

    def _touch_node(self, name: str) -> None:
        self.nodebook.touch(name)
        if self.begun and self._flush is None:
            self._flush = asyncio.get_running_loop().call_soon(self._tell_nodes)

    def _tell_nodes(self) -> None:
        self._flush = None
        for event in self.nodebook.news(self.now()):
            self.deliver(event)

    def _queue_changed(self, key: str, old: QueueSight | None, new: QueueSight | None) -> None:
        """What the tree can take in is told; all else needs a fresh look."""
        if not self.begun or (old is not None and new is not None and old.spec == new.spec):
            return
        tree, faults = build_tree(self.queues.items)
        self.queuebook.faults = faults
        if recipe_of(self.queues.items, self._settings.recipe) != self._recipe:
            self._afresh.set()
            return
        if set(tree.queues) == set(self.brain.state.tree.queues):
            return
        known = {queue.id for queue in self.brain.state.tree.queues}
        if new is None or not known <= {queue.id for queue in tree.queues}:
            self._afresh.set()
            return
        for queue in tree.queues:
            if queue not in self.brain.state.tree.queues:
                self.deliver(QueueChanged(self.now(), queue))

    # --- books --------------------------------------------------------------------------------

    async def _keep_books(self) -> None:
        """Gauges and the status of queues, every few seconds."""
        while True:
            await asyncio.sleep(5.0)
            await self.queuebook.write(self.brain.state, self.now())
            measure(self.brain.state, self.nodebook, self._metrics)
            self._metrics.api_calls_are(self._api.calls)
            self._measure_watches()
            self._forget_the_gone()

    def _measure_watches(self) -> None:
        for kind, cache in (("jobs", self.jobs), ("queues", self.queues), ("nodes", self.nodes)):
            self._metrics.watch_lags(kind, time.monotonic() - cache.heard_at)
        heard = min(self.pods.heard_at, self.foreign.heard_at)
        self._metrics.watch_lags("pods", time.monotonic() - heard)

    def _forget_the_gone(self) -> None:
        for key in [key for key in self._changes if key not in self.jobs.items]:
            if key not in self._pods_of and JobId(key) not in self.brain.state.slot_of:
                del self._changes[key]
                self._whys.pop(key, None)
                self.progress.forget(key)
                self.speeds.forget(key)
                self.hands.forget(key)

    async def _end(self, tasks: set[asyncio.Task[Any]]) -> None:
        self._begun.clear()
        for handle in (self._wake, self._flush):
            if handle is not None:
                handle.cancel()
        self.hands.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return asyncio.create_task(work(), name=getattr(work, "__qualname__", "task"))

    def _cache(
        self,
        api: Api,
        path: str,
        trim: Callable[[dict[str, Any]], Any],
        on_change: Callable[[str, Any, Any], None],
        params: Mapping[str, str] | None = None,
        *,
        name: str = "",
    ) -> Cache[Any]:
        backoff = Backoff(self._random)
        return Cache(
            api, path, trim=trim, on_change=on_change, params=params, backoff=backoff, name=name
        )


async def _first_of(tasks: set[Any]) -> None:
    """Until one is done; what it raised is raised here."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
