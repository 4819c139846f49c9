"""What happens to a job by itself or by its owner: submitted, cancelled, finished, failed."""

from weft.brain.context import Context
from weft.brain.event import (
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobMeasured,
    JobSubmitted,
    WorkerLost,
)
from weft.brain.learn.company import CompanyWatch
from weft.brain.learn.host import learn_host
from weft.brain.learn.learning import Learning, makes_sense
from weft.brain.protocol.admission import NO_QUEUE, Admission
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.pace import Pace
from weft.brain.state.waits import REASON_ROW
from weft.failure.evidence import Failure
from weft.failure.verdict import History, judge, judge_loss
from weft.model.reason import ReasonCode
from weft.model.state import State

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
    ) -> None:
        self._context = context
        self._pace = pace
        self._dispatch = dispatch
        self._admission = admission
        self._learning = learning
        self._company = CompanyWatch(context, dispatch=dispatch)

    def submitted(self, event: JobSubmitted) -> None:
        state, now = self._context.state, self._context.now
        if event.job.id in state.slot_of or event.job.id in state.closed:
            return
        slot = state.add_job(event.job, now)
        self._learning.begin(state, slot)
        if state.jobs.queue[slot] < 0:
            state.waits.begin(slot, now, NO_QUEUE)
        self._pace.want()

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
        state.set_idle(slot, self._context.now, event.work_kept)
        self._admission.free_seats(slot)
        state.jobs.failures[slot] += 1
        if state.state_of(slot) is State.STOPPING and state.after_stop[slot] is State.CANCELLED:
            self._admission.close(slot, State.CANCELLED)
            return
        history = History(int(state.jobs.failures[slot]), state.spec(slot).max_retries)
        verdict = judge(event.failure, history, self._context.settings.backoff)
        if verdict.retry_after_seconds is None:
            self._admission.close(slot, State.FAILED, verdict.why)
        else:
            self._admission.requeue(slot, RETRY, verdict.retry_after_seconds)

    def forgotten(self, event: JobForgotten) -> None:
        self._context.state.closed.pop(event.job, None)

    def measured(self, event: JobMeasured) -> None:
        state = self._context.state
        slot = state.slot_of.get(event.job)
        if slot is None or not makes_sense(event):
            return
        if self._company.concerns(slot, event):
            self._company.hear(slot, event)
            return
        learnt = self._context.recipe.host is not None and learn_host(state, slot, event)
        if self._learning.hear(state, slot, event, self._context.now) or learnt:
            self._pace.want()

    def worker_lost(self, event: WorkerLost) -> None:
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is not None and state.state_of(slot) is not State.STOPPING:
            shown = f": {event.failure.evidence}" if event.failure.evidence else ""
            why = f"worker lost on {event.node}{shown}"
            self._rest_after_loss(slot, event.failure)
            self._dispatch.stop(slot, after=State.QUEUED, why=why)

    def _rest_after_loss(self, slot: int, failure: Failure) -> None:
        """Not before then, though its seats are freed at once."""
        state, now, backoff = self._context.state, self._context.now, self._context.settings.backoff
        jobs, begun = state.jobs, state.state_of(slot) is not State.STARTING
        ran_seconds = now - float(jobs.started[slot]) if begun else 0.0
        loss = judge_loss(failure, int(jobs.losses[slot]), ran_seconds, backoff)
        jobs.losses[slot] = loss.in_a_row
        jobs.not_before[slot] = now + loss.rest_seconds
