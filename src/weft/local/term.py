"""One term of the local world: a brain, built from the record, and the wires around it.

A term begins with nothing in mind but what is on record and what runs on this machine. Whatever
nobody expected ends it, and the next one begins with a fresh look; agents and their jobs notice
nothing of that.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.brain import invariants
from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    HealthRecalled,
    InstructionDone,
    JobFailed,
    JobFinished,
    JobReported,
    JobSubmitted,
    NodeAdded,
    NodeChanged,
    NodeChecked,
    NodeLost,
    Past,
    PastRecalled,
    Phase,
    QueueChanged,
    ServiceAsked,
    Tick,
    Verb,
)
from weft.brain.instruction import (
    AskService,
    CheckNode,
    Instruction,
    Preempt,
    Probe,
    Resize,
    Start,
    Stop,
    Wake,
)
from weft.brain.journal import Journal
from weft.brain.state.brain_state import BrainState
from weft.failure.health import WELL
from weft.failure.interval import Advice
from weft.local import crash
from weft.local.agents.launch import Launcher
from weft.local.agents.supervisor import Agents
from weft.local.beside import Beside
from weft.local.executor import Executor
from weft.local.machine.disk_space import Room
from weft.local.machine.fitness import Fitness, Probing, gang_probing_in, probing_in
from weft.local.machine.foreign_use import ForeignWatch
from weft.local.machine.machine import Machine
from weft.local.notices import asked_of, notice_of
from weft.local.reconcile.next_step import next_step
from weft.local.reconcile.observation import ObservedAgent
from weft.local.reconcile.parsed_request import (
    MACHINE_LIMITS,
    MachineLimits,
    ParsedRequest,
    parse_request,
)
from weft.local.reconcile.step import NOTHING, Look, Note, Rules, Step
from weft.local.record.book import Book
from weft.local.record.entry import Entry, Happening
from weft.local.record.health import HealthRecord
from weft.local.record.store import Store
from weft.local.record.usage import Ledger, demands_of
from weft.local.status_writer import StatusWriter
from weft.local.trials import Trials
from weft.model.errors import SpecError
from weft.model.ids import JobId, QueueId
from weft.model.queue import Queue
from weft.model.state import State
from weft.model.trial import is_trial, tried_by
from weft.notify.outbox import Outbox
from weft.reconcile.belief import Belief, belief_of, company_of, past_of
from weft.reconcile.moves import why_moved
from weft.reconcile.saving import saving_advice
from weft.reconcile.services import Address, Services
from weft.spec.recipe import make_recipe

log = logging.getLogger(__name__)

RULES: Final = Rules()

OpenJournal = Callable[[str, Settings], Journal]
Told = Callable[[], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TermSettings:
    """What does not change from term to term."""

    recipe: str
    brain: Settings
    rules: Rules = RULES
    limits: MachineLimits = MACHINE_LIMITS
    services: Mapping[str, Address] = field(default_factory=dict)
    gang_probe_seconds: float = 0.0  # for how long a gang's probe holds; 0: there is none


class Term:
    """Book, agents, brain, executor, status writer; `told` hears when something looks otherwise."""

    def __init__(
        self,
        store: Store,
        launcher: Launcher,
        settings: TermSettings,
        *,
        open_journal: OpenJournal,
        told: Told,
        outbox: Outbox | None = None,
    ) -> None:
        self._settings = settings
        self._began = time.time() - time.monotonic()
        self._told = told
        self._outbox = outbox
        self._open_journal = open_journal
        self._launcher = launcher
        self.brain = Brain(make_recipe(settings.recipe), settings=settings.brain)
        self.book = Book(store, self._entry_changed)
        self.ledger = Ledger(store.usage())
        self._health = HealthRecord(store, self.book)
        self._ended = store.ended()
        self.agents = Agents(launcher, self._agent_changed, self.book)
        self.executor = Executor(self, self.book, self.agents, launcher.machine)
        self.foreign_watch = ForeignWatch(
            launcher.machine, launcher.daemon, self.book, self._node_changed
        )
        self.room = Room(
            launcher.folders,
            self.book,
            self._node_changed,
            floor_gib=self.limits.floor_gib,
            log_gib=self.limits.log_gib,
        )
        self.fitness = Fitness(
            probing_in(launcher.folders.root),
            self._node_changed,
            gang_probing=self._gang_probing(),
            gang_seconds=settings.gang_probe_seconds,
        )
        self.trials = Trials(self.book, launcher.folders, settings.brain.trial_seconds)
        self.services = Services(settings.services, self._service_answered)
        self.status_writer = StatusWriter(self, self.book, self.limits)
        self._journal = Journal()
        self._asked: dict[str, tuple[ParsedRequest | None, str]] = {}
        self._whys: dict[JobId, str] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._leaving: float | None = None
        self._beside = Beside(self.broke)
        self._changes = asyncio.Event()
        self._broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def machine(self) -> Machine:
        return self._launcher.machine

    @property
    def limits(self) -> MachineLimits:
        return self._settings.limits

    async def run(self) -> None:
        """Until cancelled, or until something breaks."""
        status_writer = asyncio.create_task(self.status_writer.run(), name="status-writer")
        watching = [
            asyncio.create_task(each.run())
            for each in (self.foreign_watch, self.room, self.fitness)
        ]
        try:
            self._begin()
            awaited = {status_writer, self._broken, *watching}
            await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
            for ended in awaited:
                if ended.done():
                    ended.result()
        finally:
            for task in (status_writer, *watching):
                task.cancel()
            await asyncio.gather(status_writer, *watching, return_exceptions=True)
            await self._end()

    async def clear(self, *, at_once: bool) -> None:
        """Have every job save and leave, or leave at once; they wait for a later daemon."""
        self._leaving = 0.0 if at_once else float("inf")
        holding = {entry.id for entry in self.book if entry.held}
        self.report(NodeLost(self.now(), self.machine.node.id))
        for job in holding:
            self._whys[job] = "the machine is given back"
        while any(entry.held for entry in self.book):
            self._changes.clear()
            await self._changes.wait()

    # --- the brain ------------------------------------------------------------------------------

    def _begin(self) -> None:
        """The node, then those whose end is on record, for others may have their devices by now."""
        self._journal = self._open_journal(self._settings.recipe, self._settings.brain)
        self._deliver(NodeAdded(self.now(), self.machine.node))
        if self._health.recalled is not WELL:
            self._deliver(HealthRecalled(self.now(), self._health.recalled))
        if any(self._ended):
            self._deliver(PastRecalled(self.now(), *self._ended))
        self._forget_parties()
        entries = sorted(self.book, key=lambda entry: entry.end is None)
        for entry in entries:
            self._meet(entry)
        for entry in entries:
            self.executor.touch(entry.uid)
        log.info("%d jobs on record, recipe %s", len(entries), self._settings.recipe)

    def _meet(self, entry: Entry) -> None:
        """All that the record says of a job, before any other job is spoken of."""
        for _ in range(2):
            step = next_step(self.look(entry, NOTHING))
            if not step.events:
                return
            self.deliver(step)
            if entry.end is None:
                return

    async def _end(self) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self.services.close()
        self._beside.close()
        await self.executor.close()
        self.agents.close()
        await self.book.close()

    def deliver(self, step: Step) -> None:
        for event in step.events:
            self._deliver(event)

    def _deliver(self, event: Event) -> None:
        """One event into the brain; its instructions touch the jobs that they speak of."""
        if isinstance(event, JobSubmitted):
            self._open_queue(event.job.queue)
        if isinstance(event, JobFailed) and event.diagnosis and event.diagnosis.node_action:
            self.fitness.ask()
        instructions = self.brain.handle(event)
        self._journal.record(event, instructions)
        if self.brain.decision is not None:
            crash.passing("decided")
            invariants.demand(invariants.check(self.brain.state, self.brain.decision))
        for instruction in instructions:
            self._take(instruction)
        if isinstance(event, JobFailed) and is_trial(event.job):
            self._touch(tried_by(event.job))  # it may have been given up for it
        self._health.look(self.brain.state.failures.health)
        self._told()
        _pass(event)

    def _open_queue(self, queue: QueueId) -> None:
        """Where users have a cap, each has a queue of that size."""
        if queue not in self.brain.state.tree:
            limit = self.limits.user_slots
            self._deliver(QueueChanged(self.now(), Queue(id=queue, limit_gpus=limit)))

    def _take(self, instruction: Instruction) -> None:
        if isinstance(instruction, Wake):
            self._wake_at(instruction.at)
        elif isinstance(instruction, Probe):
            asyncio.get_running_loop().call_soon(self._answer, instruction)
        elif isinstance(instruction, CheckNode):
            self._beside.start(self._check(instruction))
        elif isinstance(instruction, AskService):
            self.services.ask(instruction)
        elif isinstance(instruction, Start | Stop | Preempt | Resize):
            log.info("%s", instruction.id)
            if isinstance(instruction, Stop | Preempt):
                self._whys[instruction.job] = _why(instruction, self.brain.state)
            if isinstance(instruction, Start) and self.trials.wants(instruction.job):
                self._beside.start(self.trials.write_down(instruction, self.now()))
            self._touch(instruction.job)

    async def _check(self, asked: CheckNode) -> None:
        """The node is set aside: probes say whether it may come back."""
        passed = await self.fitness.look()
        words = self.fitness.unfit or "all probes pass"
        self.report(NodeChecked(self.now(), asked.node, passed, words))

    def _service_answered(self, service: str, answers: bool) -> None:
        log.info("%s %s", service, "answers" if answers else "does not answer")
        self.report(ServiceAsked(self.now(), service, answers))

    def _touch(self, job: JobId) -> None:
        entry = self.book.named(job)
        if entry is not None:
            self.executor.touch(entry.uid)

    def _wake_at(self, at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        loop = asyncio.get_running_loop()
        self._wake = loop.call_later(max(at - self.now(), 0.0), self._tick, at)

    def _tick(self, at: float) -> None:
        """Never before the time that was asked for, though timers may be a hair early."""
        self._wake = None
        self.report(Tick(max(self.now(), at)))

    def _answer(self, probe: Probe) -> None:
        """Nobody answered an instruction yet: the executor is at it."""
        belief = self._belief(probe.job)
        self._touch(probe.job)
        if belief.epoch == probe.epoch and belief.state in (State.STARTING, State.STOPPING):
            phase = Phase.STARTING if belief.state is State.STARTING else Phase.STOPPING
            self.report(JobReported(self.now(), probe.job, probe.epoch, phase, belief.work_done))

    # --- what the executor and the status writer see
    # -------------------------------------------------------

    def look(self, entry: Entry, note: Note) -> Look:
        entry = self.trials.as_meant(entry)
        found, fault = self.asked(entry)
        rules = self._settings.rules
        grace = float(found.spec.grace_seconds) if found else 0.0
        if self._leaving is not None:
            grace = min(grace, self._leaving)
            rules = rules if self._leaving else Rules(kill_after_seconds=0.0)
        belief = self._belief(entry.id)
        return Look(
            entry=entry,
            job=found.job if found else None,
            fault=fault,
            agent=self.observe(entry),
            belief=belief,
            note=note,
            now=self.now(),
            rules=rules,
            grace_seconds=grace,
            meeting=str(self._launcher.folders.party(belief.party)) if belief.party else "",
            trial_seconds_left=self.trials.left_seconds(entry, self.now()),
        )

    def asked(self, entry: Entry) -> tuple[ParsedRequest | None, str]:
        """What the job's file asks for; None, and why, where it cannot be used."""
        found = self._asked.get(entry.uid)
        if found is None:
            try:
                found = parse_request(entry, self.machine, self.limits), ""
            except SpecError as error:
                found = None, str(error)
            self._asked[entry.uid] = found
        return found

    def count_usage(self) -> None:
        """What everybody holds and could use, since the last time."""
        found = ((entry, self.asked(entry)[0]) for entry in self.book if not entry.state.final)
        most = {entry.uid: one.job.width.max_gpus for entry, one in found if one is not None}
        self.ledger.look(self.now(), len(self.machine.slots), demands_of(self.book, most))

    def observe(self, entry: Entry) -> ObservedAgent:
        return self.agents.look(entry)

    def past(self, entry: Entry) -> Past | None:
        return past_of(self.brain, entry.id)

    def _gang_probing(self) -> Probing | None:
        wanted = self._settings.gang_probe_seconds > 0.0
        return gang_probing_in(self._launcher.folders.root) if wanted else None

    async def unfit_for_gangs(self) -> str:
        """Why none may start now, after a look where the last one is long ago."""
        return "" if await self.fitness.before_gang() else self.fitness.unfit

    def saving_advice(self, entry: Entry) -> Advice:
        """For its agent, where its owner does not say how often to save."""
        return saving_advice(self.brain, entry.id)

    def company(self, entry: Entry) -> tuple[JobId, ...]:
        """Who is to share its slots."""
        return company_of(self.brain.state, entry.id)

    def slots(self) -> tuple[int, ...]:
        """Those that nobody else uses."""
        taken = self.foreign_watch.devices
        return tuple(slot for slot in self.machine.slots if slot not in taken)

    def now(self) -> float:
        """Seconds since 1970; a clock that is set meanwhile changes nothing within a term."""
        return self._began + time.monotonic()

    def report(self, event: Event) -> None:
        """An event out of nobody's task: what it breaks is noticed all the same."""
        try:
            self._deliver(event)
        except Exception as error:  # whatever it is, the next term begins with a fresh look
            self.broke(error)

    def broke(self, error: Exception) -> None:
        """A defect: this term is over."""
        if not self._broken.done():
            self._broken.set_exception(error)

    def _belief(self, job: JobId) -> Belief:
        return belief_of(self.brain.state, job, self._whys.get(job, ""), self.now())

    def happened(self, entry: Entry, happening: Happening) -> None:
        """It is on record: whoever wants to hear of it is told."""
        notice = None if self._outbox is None else notice_of(entry, happening)
        if self._outbox is not None and notice is not None:
            self._outbox.put(notice, asked_of(entry))

    # --- changes --------------------------------------------------------------------------------

    def _entry_changed(self, entry: Entry) -> None:
        self._changes.set()
        self._told()
        if entry.state.final:
            self._asked.pop(entry.uid, None)
            self._whys.pop(entry.id, None)
            self.status_writer.forget(entry.uid)
        if entry.end is not None:
            self._forget_parties()
        self.executor.touch(entry.uid)

    def _forget_parties(self) -> None:
        """Where nobody meets any more."""
        present = (entry.party_name for entry in self.book if entry.held)
        self._launcher.folders.keep_parties(present)

    def _node_changed(self) -> None:
        """It is as large as what others leave of it, and takes nobody while the disk is low."""
        closed = bool(self.room.low or self.fitness.unfit)
        node = self.machine.node_without(self.foreign_watch.free()).with_cordon(closed)
        if self._leaving is None:
            self.report(NodeChanged(self.now(), node))

    def _agent_changed(self, uid: str) -> None:
        entry = self.book.get(uid)
        if entry is not None:
            self.status_writer.heard(entry)
            self.executor.touch(uid)
        self._told()


def _why(instruction: Stop | Preempt, state: BrainState) -> str:
    if isinstance(instruction, Stop):
        return instruction.why
    if instruction.beneficiary == instruction.job:
        return why_moved(state, instruction.job)
    return f"gives way to {instruction.beneficiary}"


def _pass(event: Event) -> None:
    """The brain has heard: a moment at which a test may let the daemon die."""
    if isinstance(event, JobSubmitted):
        crash.passing("introduced")
    elif isinstance(event, JobFinished | JobFailed):
        crash.passing("ended")
    elif isinstance(event, InstructionDone):
        labels = {Verb.START: "acknowledged", Verb.RESIZE: "resized"}
        crash.passing(labels.get(event.verb, "ended"))
