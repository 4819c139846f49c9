"""The way to the brain: events in, and its instructions to whoever is concerned.

Between two events the brain is whole; in the middle of one it is not. So whatever breaks there ends
the term, and nothing is delivered any more once a fresh look is needed.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from weft.brain import door, invariants
from weft.brain.brain import Brain, Settings
from weft.brain.event import (
    Event,
    InstructionDone,
    JobFailed,
    JobReported,
    JobSubmitted,
    Phase,
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
from weft.kube.logs import Log, in_round
from weft.kube.metrics import Metrics
from weft.kube.operator import crash
from weft.kube.operator.executor.executor import Executor
from weft.kube.operator.faults import Faults, job_of
from weft.kube.operator.reconcile.beliefs import why_of
from weft.kube.operator.reconcile.step import Step
from weft.kube.operator.serial_queue import SerialQueue
from weft.kube.operator.status.term_metrics import tell_decision
from weft.model.errors import BadEvent, NotLeading
from weft.model.ids import JobId, NodeId
from weft.model.queue import QueueTree
from weft.model.request import JobRequest
from weft.model.state import State
from weft.model.trial import is_trial
from weft.reconcile.belief import Belief, belief_of
from weft.spec.recipe import make_recipe

ACKNOWLEDGED = {
    Verb.START: "acknowledged",
    Verb.STOP: "stopped",
    Verb.RESIZE: "resize-acknowledged",
}

UNDER_WAY: dict[State | None, Phase] = {
    State.STARTING: Phase.STARTING,
    State.RESIZING: Phase.RUNNING,
    State.STOPPING: Phase.STOPPING,
}

OpenJournal = Callable[[str, QueueTree, Settings], Journal]

log = Log("term")


class Surroundings(Protocol):
    """What has to be done around some events, by whoever takes in changes."""

    @property
    def leader(self) -> int: ...
    def before_job(self, job: JobRequest) -> JobRequest: ...
    def after_job(self, job: JobRequest) -> None: ...
    def tell_nodes(self) -> None: ...
    def heard(self, event: Event, instructions: list[Instruction]) -> None: ...
    def ask(self, asked: AskService) -> None: ...
    def check(self, node: NodeId) -> None: ...


class Decider:
    """The brain of one term, its journal, and what it believes of each job."""

    def __init__(
        self,
        around: Surroundings,
        executor: Executor,
        *,
        recipe: str,
        settings: Settings,
        open_journal: OpenJournal,
        metrics: Metrics,
        faults: Faults,
    ) -> None:
        self.recipe = recipe
        self.brain = Brain(make_recipe(recipe))
        self.afresh = asyncio.Event()
        self.serial_queue = SerialQueue()
        self._around = around
        self._executor = executor
        self._settings = settings
        self._open_journal = open_journal
        self._metrics = metrics
        self._faults = faults
        self._journal = Journal()
        self._whys: dict[str, str] = {}
        self._wake: asyncio.TimerHandle | None = None
        self._behind_monotonic = time.time() - time.monotonic()

    def begin(self, recipe: str, tree: QueueTree) -> None:
        """A brain that has heard of nothing but queues."""
        self.recipe = recipe
        self.brain = Brain(make_recipe(recipe), tree=tree, settings=self._settings)
        self._journal = self._open_journal(recipe, tree, self._settings)

    def stop(self) -> None:
        if self._wake is not None:
            self._wake.cancel()

    def forget(self, key: str) -> None:
        """The job is gone."""
        self._whys.pop(key, None)
        self._faults.forget(key)

    def now(self) -> float:
        """Seconds since 1970, as the wall clock stood when the term began.

        Within a term time only goes on, whatever is done to that clock.
        """
        return max(time.monotonic() + self._behind_monotonic, self.brain.now)

    def belief(self, job: JobId) -> Belief:
        return belief_of(self.brain.state, job, self._whys.get(job, ""), self.now())

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
        if self.afresh.is_set():
            return
        try:
            self._deliver(event)
        except BadEvent:  # refused at the door, before anything has changed
            raise
        except Exception as error:
            self.serial_queue.break_off(error)
            if (job := job_of(event)) is not None:
                self._faults.blame(job, error, self.now(), ended_term=True)
            raise

    def _deliver(self, event: Event) -> None:
        if isinstance(event, JobSubmitted):
            event = replace(event, job=self._around.before_job(event.job))
            crash.passing("observed")
        began = time.perf_counter()
        instructions = self.brain.handle(event)
        self._journal.record(event, instructions)
        self._metrics.event_handled(type(event).__name__)
        if isinstance(event, JobFailed):
            self._metrics.job_failed(event.failure.kind)
        self._metrics.journal_grew()
        with in_round(f"{self._around.leader}-{self.brain.rounds}"):
            if self.brain.decision is not None:
                self._decided(time.perf_counter() - began)
            for instruction in instructions:
                self._take(instruction)
        self._around.heard(event, instructions)
        if isinstance(event, JobSubmitted):
            self._around.after_job(event.job)
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
            self.serial_queue.soon(partial(self._answer, instruction))
        elif isinstance(instruction, AskService):
            self._around.ask(instruction)
        elif isinstance(instruction, CheckNode):
            self._around.check(instruction.node)
        elif isinstance(instruction, Start | Stop | Preempt | Resize):
            why = self._whys[instruction.job] = why_of(instruction, self.brain.state)
            log.info(
                f"job_{instruction.verb}", job=instruction.job, epoch=instruction.epoch, why=why
            )
            self._executor.touch_first(instruction.job)
        if (
            isinstance(instruction, Start)
            and instruction.epoch == 1
            and not is_trial(instruction.job)
        ):
            asked = self.brain.state.spec(self.brain.state.slot_of[instruction.job])
            self._metrics.job_started_after(self.now() - asked.submit_seconds)

    def _wake_at(self, at: float) -> None:
        if self._wake is not None:
            self._wake.cancel()
        self._wake = self.serial_queue.later(at - self.now(), partial(self._tick, at))

    def _tick(self, at: float) -> None:
        """Never before the time that was asked for, though timers may be a hair early."""
        self._wake = None
        self._around.tell_nodes()
        self.deliver(Tick(max(self.now(), at)))

    def _answer(self, probe: Probe) -> None:
        """Nobody answered an instruction yet: the executor is at it."""
        belief = self.belief(probe.job)
        phase = UNDER_WAY.get(belief.state) if belief.epoch == probe.epoch else None
        if phase is not None:
            self._executor.touch(probe.job)
            self.deliver(JobReported(self.now(), probe.job, probe.epoch, phase, belief.work_done))

    # --- jobs that cannot be looked after -----------------------------------------------------

    def aside(self, key: str) -> tuple[str, float] | None:
        """Why the job is left alone, and for how long yet."""
        now = self.now()
        fault = self._faults.aside(key, now)
        return None if fault is None else (fault.told, fault.until - now)

    def contain(self, key: str, error: Exception) -> bool:
        """Whether what went wrong is this job's trouble alone; it is set aside then."""
        if isinstance(error, NotLeading) or self.serial_queue.broken:
            return False
        ends = self._faults.ends_the_term(key, error)
        fault = self._faults.blame(key, error, self.now(), ended_term=ends)
        log.error("job_fault", job=key, trace=error, times=fault.times)
        self._metrics.job_faulted()
        return not ends
