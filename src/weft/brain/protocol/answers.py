"""What the world says to an instruction: done, or refused."""

from weft.brain.context import Context
from weft.brain.event import InstructionDone, InstructionRefused, Verb
from weft.brain.protocol.admission import Admission
from weft.brain.protocol.dispatch import Dispatch
from weft.brain.protocol.feeding import Feeding
from weft.brain.protocol.outbox import Outbox
from weft.brain.protocol.resize import Resizes
from weft.brain.state.waits import PENDING, REASON_ROW
from weft.model.reason import ReasonCode
from weft.model.state import State

MAX_REFUSAL = 1_000  # letters of what a backend says of a refused start
REFUSED = REASON_ROW[ReasonCode.BACKOFF_REFUSED]


class Answers:
    """Carries on where an instruction left off; an answer to an older one changes nothing."""

    def __init__(
        self,
        context: Context,
        outbox: Outbox,
        *,
        dispatch: Dispatch,
        admission: Admission,
        resizes: Resizes,
        feeding: Feeding,
    ) -> None:
        self._context = context
        self._outbox = outbox
        self._dispatch = dispatch
        self._admission = admission
        self._resizes = resizes
        self._feeding = feeding

    def done(self, event: InstructionDone) -> None:
        state = self._context.state
        slot = state.incarnation(event.job, event.epoch)
        if slot is None:
            return
        status = state.state_of(slot)
        if event.verb is Verb.START and status is State.STARTING:
            state.start_cost = state.start_cost.with_one(self._outbox.taken_seconds(slot))
            state.failures.refusals.pop(slot, None)
            self._dispatch.started(slot)
        elif event.verb in (Verb.PREEMPT, Verb.STOP) and status is State.STOPPING:
            state.stop_cost = state.stop_cost.with_one(self._outbox.taken_seconds(slot))
            self._admission.stopped(slot, event.work_kept)
        elif event.verb is Verb.RESIZE:
            if event.paused_seconds is not None:
                state.resize_cost = state.resize_cost.with_one(event.paused_seconds)
            self._resizes.done(slot, event.serial)
        elif event.verb is Verb.FEED:
            self._feeding.answered(slot, event.serial, done=True)

    def refused(self, event: InstructionRefused) -> None:
        slot = self._context.state.incarnation(event.job, event.epoch)
        if slot is None:
            return
        if event.verb is Verb.RESIZE:
            self._resizes.refused(slot, event.serial, tried=not event.untried)
        elif event.verb is Verb.FEED:
            self._feeding.answered(slot, event.serial, done=False)
        elif event.verb is Verb.START and self._context.state.state_of(slot) is State.STARTING:
            self._start_refused(slot, event.why)

    def _start_refused(self, slot: int, why: str) -> None:
        """Nothing runs. After some refusals in a row it rests before it is tried again."""
        jobs, settings = self._context.state.jobs, self._context.settings
        self._context.state.failures.refusals[slot] = why[:MAX_REFUSAL]
        self._admission.free_seats(slot)
        jobs.refusals[slot] += 1
        times, odd = divmod(int(jobs.refusals[slot]), settings.refusals_before_backoff)
        if odd:
            self._admission.requeue(slot, PENDING)
        else:
            self._admission.requeue(slot, REFUSED, settings.backoff.after(times))
