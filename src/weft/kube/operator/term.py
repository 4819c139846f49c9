"""One term of leadership: from the moment this replica leads until it does not, or starts afresh.

A term begins with nothing in mind. It lists what there is, builds a brain from nodes, queues, jobs
and pods, and from then on turns changes into events and instructions into touches of the jobs
concerned. Whatever is hard to follow event by event (a queue removed, another recipe, a broken
promise) ends the term, and the next one begins with a fresh look.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from weft.brain import door, invariants
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
from weft.brain.explain import Survey
from weft.brain.instruction import Instruction, Preempt, Probe, Resize, Start, Stop, Wake
from weft.brain.journal import Journal
from weft.brain.state.brain_state import BrainState
from weft.kube.client.api import Api
from weft.kube.client.lease import Leadership
from weft.kube.logs import Log, in_round
from weft.kube.metrics import Metrics
from weft.kube.names import (
    GPU_RESOURCE,
)
from weft.kube.operator import crash
from weft.kube.operator.executor.executor import Executor
from weft.kube.operator.executor.headships import record
from weft.kube.operator.executor.scale_up import NO_SCALE_UP, Placeholders, ScaleUp
from weft.kube.operator.faults import Faults, job_of
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.informers import Informers
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.observation.pod_index import nodes_touched
from weft.kube.operator.observation.queue import ObservedQueue
from weft.kube.operator.observation.queue_tree import as_meant, build_tree, misplaced, recipe_of
from weft.kube.operator.reconcile.beliefs import (
    is_counted,
    reasons_of,
    slow_change,
    standing_of,
    why_of,
)
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import Look, Note, Rules, Step
from weft.kube.operator.reconcile.termination import HeldUp, held_up, with_held_up
from weft.kube.operator.serial_queue import SerialQueue
from weft.kube.operator.status.patches import Standing
from weft.kube.operator.status.progress import Progress, Told
from weft.kube.operator.status.queue_status import QueueStatusWriter
from weft.kube.operator.status.speeds import Speeds
from weft.kube.operator.status.status_writer import StatusWriter
from weft.kube.operator.status.term_metrics import measure, tell_decision, tell_lags, tell_waits
from weft.kube.operator.status.wait_reports import WaitReports
from weft.kube.pods import WorkerSettings
from weft.kube.reports.headship import Headship
from weft.kube.reports.server import Outlook
from weft.model.errors import BadEvent, NotLeading
from weft.model.ids import JobId
from weft.model.queue import QueueTree
from weft.model.reason import Reason
from weft.model.state import State
from weft.reconcile.belief import Belief, belief_of
from weft.spec.recipe import make_recipe

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

BOOKS_SECONDS = 5.0
HELD_SECONDS = 1.0

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
    scale_up: ScaleUp = NO_SCALE_UP
    seed: int | None = None


class Term:
    """Caches, a brain, an executor and writers of what people read, and the wires between them."""

    def __init__(
        self,
        api: Api,
        leadership: Leadership,
        settings: TermSettings,
        *,
        metrics: Metrics,
        open_journal: OpenJournal,
        informers: Informers,
        faults: Faults | None = None,
    ) -> None:
        self._api = api
        self._leadership = leadership
        self._settings = settings
        self._metrics = metrics
        self._open_journal = open_journal
        self._random = Random(settings.seed)
        self._informers = informers
        self._pods = informers.pod_index
        self.jobs, self.pods = informers.jobs, informers.pods
        self.nodes, self.queues = informers.nodes, informers.queues
        self.brain = Brain(make_recipe(settings.recipe))
        self.progress = Progress()
        self.speeds = Speeds()
        self.foreign_use = ForeignUse(self._pods, self._stands_behind)
        self.inventory = NodeInventory(self.nodes.items, self.foreign_use)
        self.queue_status = QueueStatusWriter(api, self.queues)
        self.executor = Executor(
            api, self, workers=settings.workers, metrics=metrics, random=self._random
        )
        self.status_writer = StatusWriter(api, self, metrics)
        self.wait_reports = WaitReports(api, self, metrics)
        self._placeholders = Placeholders(api, self, settings.scale_up, settings.workers)
        self._journal = Journal()
        self._begun = asyncio.Event()
        self._recipe = settings.recipe
        self._afresh = asyncio.Event()
        self._changes: dict[str, int] = {}
        self._whys: dict[str, str] = {}
        self._held: tuple[float, list[HeldUp]] = (float("-inf"), [])
        self._serial_queue = SerialQueue()
        self._faults = Faults() if faults is None else faults
        self._unmet: set[str] = set()  # set aside before the brain has heard of them
        self._wake: asyncio.TimerHandle | None = None
        self._nodes_are_due = False
        self._behind_monotonic = time.time() - time.monotonic()
        informers.tell(self)

    async def run(self) -> Ending:
        """Lead until it is over; whatever breaks ends it as well."""
        broken = asyncio.create_task(self._informers.until_broken(), name="informers")
        lost = asyncio.create_task(self._leadership.wait_until_lost(), name="lease")
        tasks: set[asyncio.Task[Any]] = {broken, lost}
        try:
            catching_up = self._informers.catch_up(self.leader)
            tasks.add(asyncio.create_task(catching_up, name="catching up"))
            await _first_of(tasks)
            if lost.done():
                return Ending.LOST
            self._begin()
            working = (
                self._serial_queue.run,
                self.executor.run,
                self.status_writer.run,
                self._keep_books,
            )
            beside = (self.wait_reports.run, self._placeholders.run)
            tasks |= {self._task(work) for work in (*working, *beside)}
            tasks.add(asyncio.create_task(self._afresh.wait(), name="afresh"))
            await _first_of({task for task in tasks if not task.done()})
            return Ending.LOST if lost.done() else Ending.AFRESH
        finally:
            await self._end(tasks)

    @property
    def begun(self) -> bool:
        """Whether everything is listed and the brain decides."""
        return self._begun.is_set()

    async def wait_until_begun(self) -> None:
        await self._begun.wait()

    @property
    def late_seconds(self) -> float:
        """For how long something that was due has not been done."""
        return self._serial_queue.late_seconds

    # --- the brain ----------------------------------------------------------------------------

    def _begin(self) -> None:
        """A brain from what is there: queues and nodes first, then jobs as they were submitted."""
        began = time.monotonic()
        tree, faults = build_tree(self.queues.items)
        self._recipe = recipe_of(self.queues.items, self._settings.recipe)
        self.queue_status.faults = faults
        self.brain = Brain(make_recipe(self._recipe), tree=tree, settings=self._settings.brain)
        self._journal = self._open_journal(self._recipe, tree, self._settings.brain)
        self._begun.set()
        self.inventory.seat(self._seated())
        for name in self.nodes.items:
            self.inventory.touch(name)
        self._tell_nodes()
        jobs = sorted(self.jobs.items.values(), key=lambda job: (job.created, job.uid))
        for job in jobs:
            self._meet(job.key)
        for key in {**self._pods.of_job, **self.jobs.items}:
            if not self._only_waits(key):
                self.executor.touch(key)
        for name in self.nodes.items:
            self.inventory.touch(name)
        self._tell_nodes()
        log.info(
            "term_begun",
            jobs=len(jobs),
            nodes=len(self.nodes.items),
            recipe=self._recipe,
            seconds=round(time.monotonic() - began, 3),
        )

    def _only_waits(self, key: str) -> bool:
        """Whether nothing is to be done about it before something changes, as of most jobs."""
        job = self.jobs.items.get(key)
        if job is None or key in self._pods.of_job or key in self._unmet:
            return False
        known = not (job.epoch or job.final or job.deleting or job.cancelled or job.set_aside)
        return known and self._belief(JobId(key)).state is State.QUEUED

    def _seated(self) -> set[str]:
        """Nodes on which jobs are, as their decisions on record say."""
        holding = [job for job in self.jobs.items.values() if not job.final]
        return {seat.node for job in holding if job.placement for seat in job.placement.seats}

    def _meet(self, key: str) -> None:
        """Hand a job to the brain, unless it is set aside."""
        if self.aside(key) is not None:
            self._unmet.add(key)
            return
        try:
            self.deliver_all(next_step(self.look(key, Note())))
        except Exception as error:
            if not self.contain(key, error):
                raise
            self._unmet.add(key)

    def deliver_all(self, step: Step) -> None:
        """All or none: a job that trains, if only its name were heard, would be started again."""
        for event in step.events[1:]:  # the first is checked as it is handed over
            door.check(event, self.brain.state)
        for event in step.events:
            self.deliver(event)

    def deliver(self, event: Event) -> None:
        """One event into the brain; its instructions touch the jobs that they speak of.

        A brain that was left in the middle of an event decides no more, whoever brought the event:
        the term ends. So does it, once a fresh look is needed.
        """
        if self._afresh.is_set():
            return
        try:
            self._deliver(event)
        except BadEvent:  # refused at the door, before anything has changed
            raise
        except Exception as error:
            self._serial_queue.break_off(error)
            if (job := job_of(event)) is not None:
                self._faults.blame(job, error, self.now(), ended_term=True)
            raise

    def _deliver(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            event = replace(event, job=as_meant(event.job, self.queues.items))
            self._make_room(event.job.id)
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
        if not (decision.grants or decision.preemptions or decision.resizes or decision.moves):
            return
        breaches = invariants.check(self.brain.state, decision)
        if breaches:
            self._metrics.invariant_broken(len(breaches))
        invariants.demand(breaches)
        tell_decision(decision, self._metrics)
        log.debug("round", grants=len(decision.grants), preempted=len(decision.preemptions))

    def _take(self, instruction: Instruction) -> None:
        if isinstance(instruction, Wake):
            self._wake_at(instruction.at)
        elif isinstance(instruction, Probe):
            self._serial_queue.soon(partial(self._answer, instruction))
        elif isinstance(instruction, Start | Stop | Preempt | Resize):
            why = self._whys[instruction.job] = why_of(instruction)
            log.info(
                f"job_{instruction.verb}", job=instruction.job, epoch=instruction.epoch, why=why
            )
            self.executor.touch_first(instruction.job)
        if isinstance(instruction, Start) and instruction.epoch == 1:
            asked = self.brain.state.spec(self.brain.state.slot_of[instruction.job])
            self._metrics.job_started_after(self.now() - asked.submit_seconds)

    def _wake_at(self, at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self._serial_queue.later(at - self.now(), partial(self._tick, at))

    def _tick(self, at: float) -> None:
        """Never before the time that was asked for, though timers may be a hair early."""
        self._wake = None
        self._tell_nodes()
        self.deliver(Tick(max(self.now(), at)))

    def _answer(self, probe: Probe) -> None:
        """Nobody answered an instruction yet: the executor is at it."""
        belief = self._belief(probe.job)
        phase = UNDER_WAY.get(belief.state) if belief.epoch == probe.epoch else None
        if phase is not None:
            self.executor.touch(probe.job)
            self.deliver(JobReported(self.now(), probe.job, probe.epoch, phase, belief.work_done))

    # --- jobs that cannot be looked after -----------------------------------------------------

    def aside(self, key: str) -> tuple[str, float] | None:
        """Why the job is left alone, and for how long yet."""
        now = self.now()
        fault = self._faults.aside(key, now)
        return None if fault is None else (fault.told, fault.until - now)

    def _make_room(self, key: str) -> None:
        """The brain hears of a job after all: what its workers hold is nobody else's any more."""
        if key in self._unmet:
            self._unmet.discard(key)
            for pod in self._pods.of_job.get(key, {}).values():
                self.inventory.touch(pod.node)
            self._tell_nodes()

    def contain(self, key: str, error: Exception) -> bool:
        """Whether what went wrong is this job's trouble alone; it is set aside then."""
        if isinstance(error, NotLeading) or self._serial_queue.broken:
            return False
        ends = self._faults.ends_the_term(key, error)
        fault = self._faults.blame(key, error, self.now(), ended_term=ends)
        log.error("job_fault", job=key, trace=error, times=fault.times)
        self._metrics.job_faulted()
        return not ends

    # --- what executor and status writer see ---------------------------------------------------

    def look(self, key: str, note: Note) -> Look:
        belief = self._belief(JobId(key))
        return Look(
            key=key,
            job=self.jobs.items.get(key),
            unreadable=key in self.jobs.unreadable,
            pods=tuple(self._pods.of_job.get(key, {}).values()),
            belief=belief,
            note=note,
            now=self.now(),
            rules=self._settings.rules,
            lost=self.inventory.lost,
            dead=self.inventory.dead,
            said_live=self.progress.live(key, belief.epoch),
            said_paused_seconds=self._paused_seconds(key, belief),
        )

    def outlook(self, key: str) -> Outlook:
        """Which of its seats are about to go, or sit on nodes that take nobody any more."""
        job = self.jobs.items.get(key)
        if job is None:
            return Outlook(stopping=True)
        mine = [pod for pod in self._pods.of_job.get(key, {}).values() if pod.epoch == job.epoch]
        closed = sorted(pod.seat for pod in mine if pod.deleting or self._is_closed(pod.node))
        return Outlook(tuple(closed), job.deleting or job.cancelled or job.state == "Stopping")

    async def record_headship(self, key: str, epoch: int, headship: Headship) -> None:
        log.info("head_moves", job=key, epoch=epoch, seat=headship.seat, term=headship.term)
        await record(self._api, self, key, epoch, headship)

    def _is_closed(self, node: str) -> bool:
        observed = self.nodes.items.get(node)
        return observed is None or observed.closed or not observed.ready

    def _paused_seconds(self, key: str, belief: Belief) -> float | None:
        order = belief.resizing
        if order is None:
            return None
        return self.progress.paused_seconds(key, belief.epoch, order.target.width)

    def now(self) -> float:
        """Seconds since 1970, as the wall clock stood when the term began.

        Within a term time only goes on, whatever is done to that clock.
        """
        return max(time.monotonic() + self._behind_monotonic, self.brain.now)

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
    def observed_jobs(self) -> Mapping[str, ObservedJob]:
        return self.jobs.items

    def observed(self, key: str) -> ObservedJob | None:
        return self.jobs.items.get(key)

    def changes(self, key: str) -> int:
        return self._changes.get(key, 0)

    def is_busy(self, key: str) -> bool:
        return self.executor.is_busy(key)

    def backlog(self) -> int:
        return self.executor.backlog

    def gpu_resource(self, node: str) -> str:
        observed = self.nodes.items.get(node)
        return GPU_RESOURCE if observed is None else observed.gpu_resource

    def took_job(self, raw: dict[str, Any]) -> None:
        self.jobs.put(raw)

    def took_pod(self, raw: dict[str, Any]) -> None:
        self.pods.put(raw)

    def standing(self, key: str, state: State, message: str) -> Standing:
        found = standing_of(self.brain, JobId(key), state, message, self.progress.of(key))
        return with_held_up(found, key, self._held_up(key)) if self._pods.leaving else found

    def survey(self) -> Survey:
        return self.brain.survey()

    def why_it_waits(self, survey: Survey, key: str, state: State) -> Sequence[Reason]:
        """As it stands in a report: the same words as in a status."""
        reasons = reasons_of(survey, JobId(key))
        if not self._pods.leaving:
            return reasons
        return with_held_up(Standing(state, reasons=reasons), key, self._held_up(key)).reasons

    @property
    def waits_are_served(self) -> bool:
        return self.wait_reports.served

    def told_of(self, key: str) -> Told | None:
        return self.progress.of(key)

    def _held_up(self, key: str) -> list[HeldUp]:
        """Workers that should be gone, on the nodes that a job waits for if it knows them."""
        held = self._all_held_up(self.now())
        belief = self._belief(JobId(key))
        if belief.state is not State.ADMITTED or belief.assignment is None:
            return held
        return [one for one in held if one.pod.node in belief.assignment.placement.nodes]

    def _all_held_up(self, now: float) -> list[HeldUp]:
        """Looked for once a second, however many jobs are told of it."""
        looked_at, held = self._held
        if not looked_at <= now < looked_at + HELD_SECONDS:
            fence = self._settings.rules.fence_seconds
            held = held_up(self._pods.leaving.values(), self.inventory.lost, fence, now)
            self._held = now, held
        return held

    def slow_change(self, key: str) -> str:
        return slow_change(self._belief(JobId(key)), self._pods.of_job.get(key, {}).values())

    def _belief(self, job: JobId) -> Belief:
        return belief_of(self.brain.state, job, self._whys.get(job, ""), self.now())

    def _stands_behind(self, pod: ObservedPod) -> bool:
        """Whether the brain counts this pod's GPUs, or will as soon as it hears of the job."""
        job = self.jobs.items.get(pod.key)
        if not pod.job or (job is not None and job.uid != pod.owner):
            return False
        counted = is_counted(self.brain.state, pod)
        if counted is not None:
            return counted
        if pod.key in self._unmet:
            return False
        if job is None or (job.uid, job.epoch) != (pod.owner, pod.epoch):
            return False
        return job.placement is not None and pod.seat in job.placement.numbers

    # --- changes ------------------------------------------------------------------------------

    def job_changed(self, key: str, old: ObservedJob | None, new: ObservedJob | None) -> None:
        self._changes[key] = self._changes.get(key, 0) + 1
        if not self.begun:
            return
        self._show(key, new)
        self.executor.touch(key)

    def _show(self, key: str, observed: ObservedJob | None) -> None:
        slot = self.brain.state.slot_of.get(JobId(key))
        if slot is not None and observed is not None:
            self.status_writer.saw(slot, int(self.brain.state.jobs.seq[slot]), observed)

    def _see_standing(self, event: Event) -> None:
        """A job that the brain has just met: what is on record of it?"""
        if isinstance(event, JobSubmitted):
            self._show(event.job.id, self.jobs.items.get(event.job.id))

    def pod_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        pod = new or old
        assert pod is not None
        self._changes[pod.key] = self._changes.get(pod.key, 0) + 1
        for node in nodes_touched(old, new):
            if not self._stands_behind(pod):
                self._touch_node(node)
        if self.begun:
            self.executor.touch(pod.key)

    def foreign_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        for node in nodes_touched(old, new):
            self._touch_node(node)

    def node_changed(self, key: str, old: ObservedNode | None, new: ObservedNode | None) -> None:
        if old is not None and new is not None and new.same_but_for_version(old):
            return
        self._touch_node(key)

    def _touch_node(self, name: str) -> None:
        self.inventory.touch(name)
        if self.begun and not self._nodes_are_due:
            self._nodes_are_due = True
            self._serial_queue.soon(self._tell_nodes)

    def _tell_nodes(self) -> None:
        self._nodes_are_due = False
        for event in self.inventory.news(self.now()):
            try:
                self.deliver(event)
            except BadEvent as error:  # one node that cannot be is no reason to lose all others
                log.error("node_left_out", error=str(error))

    def queue_changed(self, key: str, old: ObservedQueue | None, new: ObservedQueue | None) -> None:
        """What the tree can take in is told; all else needs a fresh look."""
        if not self.begun or (old is not None and new is not None and old.spec == new.spec):
            return
        tree, faults = build_tree(self.queues.items)
        self.queue_status.faults = faults
        state, jobs, queues = self.brain.state, self.jobs.items, self.queues.items
        if recipe_of(queues, self._settings.recipe) != self._recipe or misplaced(
            state, jobs, queues
        ):
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
        told = self.now()
        while True:
            await asyncio.sleep(BOOKS_SECONDS)
            now = self.now()
            await self.queue_status.write(self.brain.state, now)
            measure(self.brain.state, self.inventory, self._metrics)
            tell_waits(self.brain.state, self._metrics, now - told)
            told = now
            self._metrics.api_calls_are(self._api.calls)
            tell_lags(self._informers.all, self._metrics)
            self._forget_the_gone()

    def _forget_the_gone(self) -> None:
        for key in [key for key in self._changes if key not in self.jobs.items]:
            if key not in self._pods.of_job and JobId(key) not in self.brain.state.slot_of:
                del self._changes[key]
                self._whys.pop(key, None)
                self.progress.forget(key)
                self.speeds.forget(key)
                self.executor.forget(key)
                self._faults.forget(key)

    async def _end(self, tasks: set[asyncio.Task[Any]]) -> None:
        self._begun.clear()
        self._informers.tell(None)
        if self._wake is not None:
            self._wake.cancel()
        self.executor.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        return asyncio.create_task(work(), name=getattr(work, "__qualname__", "task"))


async def _first_of(tasks: set[Any]) -> None:
    """Until one is done; what it raised is raised here."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in done:
        task.result()
