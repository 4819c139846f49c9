"""One term of leadership: from the moment this replica leads until it does not, or starts afresh.

A term begins with nothing in mind. It takes in what there is (`intake`), lets a brain decide
(`decider`), and wires both to the executor and to whoever writes what people read. Whatever is hard
to follow event by event ends the term, and the next one begins with a fresh look.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from random import Random
from typing import Any

from weft.brain.brain import Brain, Settings
from weft.brain.event import Event, HealthRecalled, JobFailed, NodeChecked, ServiceAsked
from weft.brain.explain import Survey
from weft.brain.instruction import AskService, Instruction
from weft.brain.state.brain_state import BrainState
from weft.failure.health import WELL, Health
from weft.failure.interval import Advice
from weft.kube.client.api import Api
from weft.kube.client.lease import Leadership
from weft.kube.health_map import HealthMap
from weft.kube.logs import Log
from weft.kube.metrics import Metrics
from weft.kube.names import GPU_RESOURCE
from weft.kube.operator.checkup import Checkup
from weft.kube.operator.decider import Decider, OpenJournal
from weft.kube.operator.executor.claim_sweep import ClaimSweep
from weft.kube.operator.executor.executor import Executor
from weft.kube.operator.executor.headships import record
from weft.kube.operator.executor.scale_up import NO_SCALE_UP, Placeholders, ScaleUp
from weft.kube.operator.faults import Faults, job_of
from weft.kube.operator.health_record import HealthRecord
from weft.kube.operator.intake import Intake
from weft.kube.operator.losses import Losses
from weft.kube.operator.node_checks import NodeChecks
from weft.kube.operator.node_probes import NodeProbes
from weft.kube.operator.notices import Notices
from weft.kube.operator.observation.informers import Informers
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.quarantine import Quarantine
from weft.kube.operator.reconcile.beliefs import (
    reasons_of,
    slow_change,
    standing_of,
)
from weft.kube.operator.reconcile.replanning import follows, has_offered, ordered
from weft.kube.operator.reconcile.step import Look, Note, Rules, Step
from weft.kube.operator.reconcile.termination import HeldUp, held_up, with_held_up
from weft.kube.operator.status.patches import Standing
from weft.kube.operator.status.progress import Progress, Told
from weft.kube.operator.status.queue_status import QueueStatusWriter
from weft.kube.operator.status.speeds import Speeds
from weft.kube.operator.status.status_writer import StatusWriter
from weft.kube.operator.status.term_metrics import measure, tell_health, tell_lags, tell_waits
from weft.kube.operator.status.wait_reports import WaitReports
from weft.kube.operator.taint_rules import TaintRules
from weft.kube.operator.trials import Trials
from weft.kube.pods import WorkerSettings
from weft.kube.reports.headship import Headship
from weft.kube.reports.server import Outlook
from weft.model.ids import JobId, NodeId
from weft.model.reason import Reason
from weft.model.request import JobRequest
from weft.model.state import State
from weft.model.trial import is_trial, tried_by
from weft.notify.outbox import Outbox
from weft.reconcile.belief import Belief
from weft.reconcile.saving import saving_advice
from weft.reconcile.services import Address, Services

BOOKS_SECONDS = 5.0
HELD_SECONDS = 1.0

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
    health: HealthMap | None = None
    outbox: Outbox | None = None
    taints: bool = False
    services: Mapping[str, Address] = field(default_factory=dict)
    namespace: str = ""  # the operator's own


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
        self._informers = informers
        self._pods = informers.pod_index
        self.jobs, self.pods = informers.jobs, informers.pods
        self.nodes, self.queues = informers.nodes, informers.queues
        self.progress = Progress()
        self.speeds = Speeds()
        self._held: tuple[float, list[HeldUp]] = (float("-inf"), [])
        self.executor = Executor(
            api, self, workers=settings.workers, metrics=metrics, random=Random(settings.seed)
        )
        self.queue_status = QueueStatusWriter(api, self.queues)
        self.status_writer = StatusWriter(api, self, metrics)
        self.wait_reports = WaitReports(api, self, metrics)
        self._health = HealthRecord(api, settings.health)
        self._notices = Notices(settings.outbox, self.jobs.items)
        self._losses = Losses()
        self._trials = Trials()
        self._services = Services(settings.services, self._service_answered)
        self._claims = ClaimSweep(api, self, settings.workers.nodes.gpu_class)
        self._placeholders = Placeholders(api, self, settings.scale_up, settings.workers)
        self.decider = Decider(
            self,
            self.executor,
            recipe=settings.recipe,
            settings=settings.brain,
            open_journal=open_journal,
            metrics=metrics,
            faults=Faults() if faults is None else faults,
        )
        self.intake = Intake(
            informers,
            self.decider,
            executor=self.executor,
            status_writer=self.status_writer,
            queue_status=self.queue_status,
            look=self.look,
            recipe=settings.recipe,
        )
        self._probes = NodeProbes(
            self._pods,
            settings.namespace,
            self.now,
            touch_job=self.executor.touch,
            touch_node=self.intake.touch_node,
        )
        self._checks = NodeChecks(self.nodes.items, self._probes, self.now, tell=self._checked)
        self.intake.inventory.unfit = self._probes.unfit
        informers.tell(self.intake)

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
            self._begin(await self._health.recalled())
            working = (
                self.decider.serial_queue.run,
                self.executor.run,
                self.status_writer.run,
                self._keep_books,
            )
            kept = (self._keep_health, self._keep_taints, self._follow_taint_rules)
            beside = (self.wait_reports.run, self._placeholders.run, self._claims.run, *kept)
            tasks |= {self._task(work) for work in (*working, *beside)}
            tasks.add(asyncio.create_task(self.decider.afresh.wait(), name="afresh"))
            await _first_of({task for task in tasks if not task.done()})
            return Ending.LOST if lost.done() else Ending.AFRESH
        finally:
            await self._end(tasks)

    @property
    def begun(self) -> bool:
        """Whether everything is listed and the brain decides."""
        return self.intake.begun.is_set()

    async def wait_until_begun(self) -> None:
        await self.intake.begun.wait()

    @property
    def late_seconds(self) -> float:
        """For how long something that was due has not been done."""
        return self.decider.serial_queue.late_seconds

    def _begin(self, health: Health = WELL) -> None:
        began = time.monotonic()
        self.intake.begin()
        if health is not WELL:
            self.decider.deliver(HealthRecalled(self.now(), health))
        log.info(
            "term_begun",
            jobs=len(self.jobs.items),
            nodes=len(self.nodes.items),
            recipe=self.decider.recipe,
            seconds=round(time.monotonic() - began, 3),
        )

    # --- what the decider needs -----------------------------------------------------------------

    def before_job(self, job: JobRequest) -> JobRequest:
        return self.intake.before_job(job)

    def after_job(self, job: JobRequest) -> None:
        self.intake.after_job(job)

    def tell_nodes(self) -> None:
        self.intake.tell_nodes()

    def heard(self, event: Event, instructions: list[Instruction]) -> None:
        self._losses.heard(instructions)
        if (job := job_of(event)) is not None:
            self.intake.recount_name_conflicts(JobId(job))
        self._notices.heard(event, instructions, self.brain.state)
        if isinstance(event, JobFailed) and is_trial(event.job):
            self.executor.touch(tried_by(event.job))  # it may have been given up for it

    def ask(self, asked: AskService) -> None:
        self._services.ask(asked)

    def check(self, node: NodeId) -> None:
        self._checks.check(self.health, node)

    def _checked(self, node: NodeId, found: Checkup) -> None:
        self._soon(lambda now: NodeChecked(now, node, **asdict(found)))

    def _service_answered(self, service: str, answers: bool) -> None:
        log.info("service_answers" if answers else "service_silent", service=service)
        self._soon(lambda now: ServiceAsked(now, service, answers))

    def _soon(self, event: Callable[[float], Event]) -> None:
        """The brain hears of it in its turn, with the time of then."""
        self.decider.serial_queue.soon(lambda: self.decider.deliver(event(self.now())))

    # --- what executor, status writer and reports need ------------------------------------------

    @property
    def brain(self) -> Brain:
        return self.decider.brain

    def now(self) -> float:
        return self.decider.now()

    def deliver_all(self, step: Step) -> None:
        self.decider.deliver_all(step)

    def aside(self, key: str) -> tuple[str, float] | None:
        return self.decider.aside(key)

    def contain(self, key: str, error: Exception) -> bool:
        return self.decider.contain(key, error)

    def look(self, key: str, note: Note) -> Look:
        belief = self.decider.belief(JobId(key))
        return Look(
            key=key,
            job=self._trials.as_meant(self.jobs.items.get(key)),
            gang=self.jobs.items.get(tried_by(JobId(key))) if is_trial(JobId(key)) else None,
            unreadable=key in self.jobs.unreadable,
            pods=tuple(self._pods.of_job.get(key, {}).values()),
            name_conflicts=tuple(self._pods.name_conflicts.get(key, {}).values()),
            belief=belief,
            note=note,
            now=self.now(),
            rules=self._settings.rules,
            lost=self.intake.inventory.lost,
            dead=self.intake.inventory.dead,
            said_live=self.progress.live(key, belief.epoch),
            said_paused_seconds=self._paused_seconds(key, belief),
            said_plans=has_offered(self.jobs.items.get(key), belief.epoch, self.progress.of(key)),
            said_answer=self.progress.answer(key, belief.epoch),
            nodes=self.nodes.items,
            tainted=self.intake.tainted,
            probed=self._probes.asked.known(),
        )

    def outlook(self, key: str) -> Outlook:
        """Which of its seats are about to go, or sit on nodes that take nobody any more."""
        job = self.jobs.items.get(key)
        if job is None:
            return Outlook(stopping=True)
        mine = [pod for pod in self._pods.of_job.get(key, {}).values() if pod.epoch == job.epoch]
        closed = sorted(pod.seat for pod in mine if pod.deleting or self._is_closed(pod.node))
        stopping = job.deleting or job.cancelled or job.state == "Stopping"
        orders = follows(job) and self.brain.recipe.planning is not None
        return Outlook(tuple(closed), stopping, orders, None if stopping else ordered(job))

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

    @property
    def leader(self) -> int:
        return self._leadership.transitions

    @property
    def identity(self) -> str:
        return self._settings.identity

    @property
    def health(self) -> Health:
        return self.brain.state.failures.health

    @property
    def brain_state(self) -> BrainState:
        return self.brain.state

    @property
    def observed_jobs(self) -> Mapping[str, ObservedJob]:
        return self.jobs.items

    def observed(self, key: str) -> ObservedJob | None:
        return self.jobs.items.get(key)

    def changes(self, key: str) -> int:
        return self.intake.changes.get(key, 0)

    def is_busy(self, key: str) -> bool:
        return self.executor.is_busy(key)

    def backlog(self) -> int:
        return self.executor.backlog

    def gpu_resource(self, node: str) -> str:
        observed = self.nodes.items.get(node)
        return GPU_RESOURCE if observed is None else observed.gpu_resource

    def saving_advice(self, key: str) -> Advice:
        return saving_advice(self.brain, JobId(key))

    def ask_probes(self, key: str, nodes: Sequence[str]) -> None:
        self._probes.asked.ask(key, nodes)

    def made_trial(self, uid: str) -> None:
        self._trials.made(uid)

    def took_job(self, raw: dict[str, Any]) -> None:
        self.jobs.put(raw)

    def took_pod(self, raw: dict[str, Any]) -> None:
        self.pods.put(raw)

    def standing(self, key: str, state: State, message: str) -> Standing:
        found = standing_of(self.brain, JobId(key), state, message, self.progress.of(key))
        found = self._losses.told(self.jobs.items.get(key), found)
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
        belief = self.decider.belief(JobId(key))
        if belief.state is not State.ADMITTED or belief.assignment is None:
            return held
        return [one for one in held if one.pod.node in belief.assignment.placement.nodes]

    def _all_held_up(self, now: float) -> list[HeldUp]:
        """Looked for once a second, however many jobs are told of it."""
        looked_at, held = self._held
        if not looked_at <= now < looked_at + HELD_SECONDS:
            fence = self._settings.rules.fence_seconds
            held = held_up(self._pods.leaving.values(), self.intake.inventory.lost, fence, now)
            self._held = now, held
        return held

    def slow_change(self, key: str) -> str:
        return slow_change(self.decider.belief(JobId(key)), self._pods.of_job.get(key, {}).values())

    async def _keep_health(self) -> None:
        await self._health.keep(lambda: self.health)

    async def _keep_taints(self) -> None:
        if not self._settings.taints:
            await asyncio.Event().wait()
        quarantine = Quarantine(self._api, self.nodes.items)
        await quarantine.keep(lambda: self.health)

    async def _follow_taint_rules(self) -> None:
        if not self._informers.gpu_class:
            await asyncio.Event().wait()
        rules = TaintRules(self._api, self._informers.gpu_class)
        await rules.follow(self.intake.taint_rules_changed)

    # --- books --------------------------------------------------------------------------------

    async def _keep_books(self) -> None:
        """Gauges and the status of queues, every few seconds."""
        told = self.now()
        while True:
            await asyncio.sleep(BOOKS_SECONDS)
            now = self.now()
            await self.queue_status.write(self.brain.state, now)
            measure(self.brain.state, self.intake.inventory, self._metrics)
            unfit = sum(bool(self._probes.unfit(node)) for node in self.nodes.items)
            tell_health(self.health, self._metrics, unfit)
            self._checks.look(self.health)
            tell_waits(self.brain.state, self._metrics, now - told)
            told = now
            self._metrics.api_calls_are(self._api.calls)
            tell_lags(self._informers.all, self._metrics)
            self._forget_the_gone()

    def _forget_the_gone(self) -> None:
        for key in self.intake.gone():
            self.decider.forget(key)
            self.executor.forget(key)
            self.progress.forget(key)
            self.speeds.forget(key)
            self._losses.forget(key)

    async def _end(self, tasks: set[asyncio.Task[Any]]) -> None:
        self.intake.begun.clear()
        self._informers.tell(None)
        self.decider.stop()
        self._services.close()
        self._probes.asked.close()
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
