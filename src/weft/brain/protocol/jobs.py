"""What happens to a job by itself or by its owner: submitted, cancelled, finished, failed."""

from dataclasses import replace

from weft.brain.context import Context
from weft.brain.event import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobMeasured,
    JobSubmitted,
    PlansOffered,
    WorkerLost,
)
from weft.brain.learn.company import CompanyWatch
from weft.brain.learn.host import learn_host
from weft.brain.learn.learning import Learning, makes_sense
from weft.brain.learn.neighbours import hear_neighbours
from weft.brain.learn.stages import hear_in_turns, hear_stages
from weft.brain.learn.widths import exclude_width
from weft.brain.protocol.admission import NO_QUEUE, Admission
from weft.brain.protocol.care import Care
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.holding import Holding
from weft.brain.protocol.pace import Pace
from weft.brain.state.runnable import within_runnable
from weft.brain.state.waits import REASON_ROW
from weft.failure.classes import NodeAction
from weft.failure.diagnosis import Diagnosis
from weft.failure.evidence import UNEXPLAINED, Failure
from weft.failure.retry import MOST_AVOIDED, RESTS, Run, Terms, decide
from weft.failure.verdict import History, Verdict, judge, judge_loss
from weft.model.claim import ClaimSource
from weft.model.reason import ReasonCode
from weft.model.request import JobRequest, Width
from weft.model.state import State
from weft.policy.plans.planning import Scope

RETRY = REASON_ROW[ReasonCode.BACKOFF_RETRY]


class Jobs:
    """Follows jobs from their submission to their end."""

    def __init__(
        self,
        context: Context,
        *,
        pace: Pace,
        dispatch: Dispatch,
        admission: Admission,
        learning: Learning,
        care: Care,
        holding: Holding,
    ) -> None:
        self._context = context
        self._pace = pace
        self._dispatch = dispatch
        self._admission = admission
        self._learning = learning
        self._care = care
        self._holding = holding
        self._company = CompanyWatch(context, dispatch=dispatch)

    def submitted(self, event: JobSubmitted) -> None:
        state, now = self._context.state, self._context.now
        if event.job.id in state.slot_of or event.job.id in state.closed:
            return
        job = self._taken(event.job)
        slot = state.add_job(job, now)
        state.runnable.begin(slot, job, state.plan_book)
        self._learning.begin(state, slot)
        if state.jobs.queue[slot] < 0:
            state.waits.begin(slot, now, NO_QUEUE)
        self._pace.want()

    def _taken(self, job: JobRequest) -> JobRequest:
        """As the recipe can use it: who chooses no plans measures how a job scales.

        What a person says of a model is worth less than that; a record of a workload tells more.
        """
        planning, plans = self._context.recipe.planning, self._context.state.plan_book
        if planning is None:
            said = job.splits is not None and job.splits.source is ClaimSource.USER
            return within_runnable(replace(job, splits=None) if said else job, plans)
        least = plans.fewest_gpus(job)
        if planning.scope is not Scope.SEATED or least <= job.width.min_gpus:
            return job
        # others decide how wide it is: never so narrow that no plan fits
        asked = max(least, job.width.asked_gpus)
        return replace(job, width=Width(least, max(asked, job.width.max_gpus), asked))

    def cancelled(self, event: JobCancelled) -> None:
        state = self._context.state
        slot = state.slot_of.get(event.job)
        if slot is None:
            return
        status = state.state_of(slot)
        if status is State.STOPPING:
            state.after_stop[slot] = State.CANCELLED
        elif status.holds_seats:
            self._dispatch.stop(slot, after=State.CANCELLED, why="cancelled")
        else:
            self._admission.free_seats(slot)
            self._admission.close(slot, State.CANCELLED)

    def finished(self, event: JobFinished) -> None:
        slot = self._context.state.incarnation(event.job, event.epoch)
        if slot is None:
            return
        self._context.state.set_idle(slot, self._context.now, None)
        self._admission.free_seats(slot)
        self._admission.close(slot, State.SUCCEEDED)

    def failed(self, event: JobFailed) -> None:
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is None:
            return
        run, status = self._run(slot, event.work_kept), state.state_of(slot)
        cancelled = status is State.STOPPING and state.after_stop[slot] is State.CANCELLED
        if event.diagnosis is not None and not cancelled:
            self._care.learn(slot, event.diagnosis, run)  # before others get its seats
        state.set_idle(slot, self._context.now, event.work_kept)
        had = self._holding.seats(slot)
        excluded = exclude_width(state, slot, event)
        self._admission.free_seats(slot)
        state.jobs.failures[slot] += not excluded
        if cancelled:
            self._admission.close(slot, State.CANCELLED)
            return
        if excluded:  # the width was the scheduler's choice, so the job is not charged a retry
            self._admission.requeue(slot, RETRY, 0.0)
            return
        verdict = self._verdict(slot, event, run)
        if verdict.retry_after_seconds is None:
            self._admission.close(slot, State.FAILED, verdict.why)
        else:
            self._admission.requeue(slot, RETRY, verdict.retry_after_seconds)
            self._care.hold(slot)
            self._holding.keep(slot, had)

    def _verdict(self, slot: int, event: JobFailed, run: Run) -> Verdict:
        """By what was found, or, where nobody has looked, by how often it has failed."""
        if event.diagnosis is not None:
            return self._looked_into(slot, event.diagnosis, run)
        return self._counted(slot, event.failure)

    def _counted(self, slot: int, failure: Failure) -> Verdict:
        state = self._context.state
        history = History(int(state.jobs.failures[slot]), state.spec(slot).max_retries)
        return judge(failure, history, self._context.settings.backoff)

    def _looked_into(self, slot: int, found: Diagnosis, run: Run) -> Verdict:
        """While a breaker is open a failure on its service says nothing about the job."""
        book, most = self._context.state.failures, self._context.state.spec(slot).max_retries
        book.last[slot] = found
        if not self._context.settings.retry_by_class:
            return self._counted(slot, UNEXPLAINED)
        if most and self._care.is_held(slot, found.service):
            book.retries[slot] = replace(book.retry(slot), service=found.service)
            return Verdict(0.0, f"{found}; it is tried again when {found.service} answers")
        verdict, book.retries[slot] = decide(found, run, book.retry(slot), self._terms(most))
        if verdict.avoid and verdict.retry_after_seconds is not None:
            self._care.keep_off(slot)
        return verdict

    def _terms(self, most: int) -> Terms:
        """Where a site has its jobs rest less, they rest less."""
        first = min(RESTS.first_seconds, self._context.settings.backoff_seconds)
        return Terms(max_retries=most, rests=replace(RESTS, first_seconds=first))

    def _run(self, slot: int, work_kept: float) -> Run:
        """The try that is over, while it still holds its seats."""
        state = self._context.state
        return Run(
            job=state.spec(slot).id,
            at_seconds=self._context.now,
            ran_seconds=self._ran_seconds(slot),
            nodes=frozenset(state.placement(slot).nodes),
            saved=int(work_kept),
        )

    def _ran_seconds(self, slot: int) -> float:
        state, now = self._context.state, self._context.now
        begun = state.state_of(slot) is not State.STARTING
        return now - float(state.jobs.started[slot]) if begun else 0.0

    def forgotten(self, event: JobForgotten) -> None:
        self._context.state.closed.pop(event.job, None)

    def offered(self, event: PlansOffered) -> None:
        """What there is to choose from may have become more, and cheaper to go to."""
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is None or state.spec(slot).splits is None:
            return
        if state.plan_book.offer(slot, event.epoch, frozenset(event.offers)):
            self._pace.want()

    def measured(self, event: JobMeasured) -> None:
        state = self._context.state
        slot = state.slot_of.get(event.job)
        if slot is None or not makes_sense(event):
            return
        alone = hear_stages(state, slot, event, self._learning.stages)
        if hear_in_turns(state, slot, event) or alone:
            self._pace.want()
        if self._company.concerns(slot, event):
            self._company.hear(slot, event)
            return
        if self._context.settings.learns_neighbours:
            hear_neighbours(state, slot, event, self._context.now)
        learnt = self._context.recipe.host is not None and learn_host(state, slot, event)
        if self._learning.hear(state, slot, event, self._context.now) or learnt:
            self._pace.want()

    def worker_lost(self, event: WorkerLost) -> None:
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is not None and state.state_of(slot) is not State.STOPPING:
            shown = f": {event.failure.evidence}" if event.failure.evidence else ""
            why = f"worker lost on {event.node}{shown}"
            if event.diagnosis is not None:
                self._learn_from_loss(slot, event.diagnosis)
            self._rest_after_loss(slot, event.failure)
            self._holding.keep(slot, self._holding.seats(slot))
            self._dispatch.stop(slot, after=State.QUEUED, why=why)

    def _rest_after_loss(self, slot: int, failure: Failure) -> None:
        """Not before then, though its seats are freed at once."""
        jobs, backoff = self._context.state.jobs, self._context.settings.backoff
        loss = judge_loss(failure, int(jobs.losses[slot]), self._ran_seconds(slot), backoff)
        jobs.losses[slot] = loss.in_a_row
        jobs.not_before[slot] = self._context.now + loss.rest_seconds

    def _learn_from_loss(self, slot: int, found: Diagnosis) -> None:
        """It costs the job nothing; the node, or the service, is at fault."""
        book, run = self._context.state.failures, self._run(slot, 0.0)
        self._care.learn(slot, found, run)
        retry = book.retry(slot)
        if found.node is not None and found.node_action > NodeAction.NONE:
            avoid = tuple(dict.fromkeys((*retry.avoid, found.node)))[-MOST_AVOIDED:]
            retry = replace(retry, avoid=avoid)
        book.retries[slot] = replace(retry, service=found.service)
        book.last[slot] = found
        if retry.avoid:
            self._care.keep_off(slot)
