"""What is to be done about one job next: record, agent and belief go in, one step comes out.

As in the Kubernetes world the daemon acts on levels. Whenever anything about a job may have
changed, it looks at what is on record, at what is seen of the agent and at what the brain believes,
and asks here. Nothing is started before the decision is on record, nothing is asked to leave before
that is on record, and no device is given to another before the end of whoever had it is on record.
So a daemon that was killed between any two lines goes on where the record says.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from weft.agent.outcome import Outcome
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobReported,
    JobSubmitted,
    Phase,
    PlansOffered,
    Verb,
    WorkerLost,
)
from weft.failure.evidence import Failure, FailureClass
from weft.local.reconcile.devices import on_devices
from weft.local.reconcile.observation import KILLED, Presence, Status
from weft.local.reconcile.plans import believed, is_counted, same
from weft.local.reconcile.step import (
    Kill,
    Launch,
    Look,
    OrderCompany,
    OrderDrain,
    OrderResize,
    Record,
    RecordEnd,
    RecordRunning,
    RecordSeats,
    RecordStopping,
    RecordTarget,
    RecordWaiting,
    Settle,
    Step,
    Sweep,
    Void,
)
from weft.local.record.entry import NO_PAST, End, Entry
from weft.model.decision import Assignment
from weft.model.errors import ProtocolError
from weft.model.ids import PartyId
from weft.model.placement import Seat
from weft.model.state import State
from weft.reconcile.belief import Belief, Resizing
from weft.reconcile.plans import told
from weft.reconcile.trial import shows

WAITING: Final = (State.QUEUED, State.ADMITTED)
TRAINING: Final = (State.RUNNING, State.RESIZING)
PHASES: Final = {
    State.STARTING: Phase.STARTING,
    State.RUNNING: Phase.RUNNING,
    State.RESIZING: Phase.RUNNING,
    State.STOPPING: Phase.STOPPING,
}
AGAIN_SECONDS: Final = 0.2


def next_step(look: Look) -> Step:
    """The one thing to do now."""
    entry, state = look.entry, look.belief.state
    if entry.state.final:
        over = state is not None and state.final
        return look.events(JobForgotten(look.now, entry.id)) if over else look.waiting()
    if state is None:
        return _introduce(look)
    if state.final:
        return look.act(Settle(state, _final_message(look, state)))
    if entry.cancelled and not look.belief.cancelling:
        return look.events(JobCancelled(look.now, entry.id))
    return _STEPS[state](look)


def report(entry: Entry, now: float, work_done: float) -> JobReported:
    """What the brain is to believe of the incarnation on record."""
    phase = Phase.ABSENT if entry.placement is None else PHASES.get(entry.state, Phase.ABSENT)
    return JobReported(
        now,
        entry.id,
        entry.epoch,
        phase,
        work_done,
        None if phase is Phase.ABSENT else entry.placement,
        entry.past,
        serial=max(entry.serial, entry.target_serial),
        live=entry.progress.live,
        next_seat=entry.top_seat,
        party=PartyId(entry.party),
        plan=believed(entry.plan, _width(entry.seats)),
    )


# --- jobs that the brain does not work on -------------------------------------------------------


def _introduce(look: Look) -> Step:
    """Tell the brain of a job, and of what is on record and may be running.

    Where the clock was set back since, it was not submitted after now.
    """
    entry = look.entry
    if look.job is None:
        return look.act(Settle(State.FAILED, look.fault))
    by_now = min(look.job.submit_seconds, look.now)
    events: list[Event] = [JobSubmitted(look.now, replace(look.job, submit_seconds=by_now))]
    if entry.epoch or entry.past != NO_PAST:
        events.append(report(entry, look.now, entry.work_saved))
    if events[1:] and entry.offers:
        events.append(PlansOffered(look.now, entry.id, entry.epoch, entry.offers))
    return look.events(*events)


def _final_message(look: Look, state: State) -> str:
    """Of one that failed, also why it is not tried again."""
    if state is State.CANCELLED:
        return "cancelled"
    return look.belief.why or (look.entry.end.why if look.entry.end else "")


# --- jobs that the brain works on ---------------------------------------------------------------


def _wait(look: Look) -> Step:
    """It holds no seat, so nothing of it may live."""
    entry = look.entry
    if entry.state in WAITING and not look.agent.alive:
        return look.waiting()
    if entry.end is None:
        return _parting(look) or look.act(_recorded_end(look))
    return look.act(RecordWaiting())


def _start(look: Look) -> Step:
    entry, epoch = look.entry, look.belief.epoch
    assert look.belief.assignment is not None
    if entry.epoch > epoch:
        raise ProtocolError(
            f"{entry.id} is on record with epoch {entry.epoch}, believed {epoch}",
            hint="another daemon has written to this store; this one begins afresh",
        )
    if look.note.refusal is not None and look.note.refusal[0] == epoch:
        why = look.note.refusal[1]
        return look.events(InstructionRefused(look.now, entry.id, epoch, Verb.START, why))
    if entry.epoch < epoch:
        return look.act(Record(epoch, look.belief.assignment))
    if (over := _not_started(look) or _over(look)) is not None:
        return over
    if look.agent.presence is Presence.NONE:
        return look.act(Launch())
    if look.agent.status is not None:
        return look.events(InstructionDone(look.now, entry.id, epoch, Verb.START))
    return _listen(look)


def _not_started(look: Look) -> Step | None:
    """Its end is on record before the start is refused, so that its devices are free by then."""
    entry, agent = look.entry, look.agent
    if not agent.fault:
        return None
    if entry.end is None:
        if agent.presence is Presence.NONE:
            return look.act(Void())
        return look.act(_recorded_end(look) if agent.swept else Sweep())
    why = agent.fault
    return look.events(InstructionRefused(look.now, entry.id, look.belief.epoch, Verb.START, why))


def _run(look: Look) -> Step:
    entry = look.entry
    if (over := _over(look)) is not None:
        return over
    if entry.state is not State.RUNNING:
        return look.act(RecordRunning())
    if entry.target:  # a resize that was under way when an earlier daemon ended
        return _approach(look)
    if (changed := _shrunk(look) or _other_company(look)) is not None:
        return changed
    assert look.belief.assignment is not None
    lacks = look.belief.assignment.placement.numbers - {seat.number for seat in entry.seats}
    if lacks or _computes_otherwise(entry, look.belief.assignment):
        return look.events(report(entry, look.now, look.belief.work_done))
    return _listen(look)


def _computes_otherwise(entry: Entry, assignment: Assignment) -> bool:
    """Whether another plan is on record than is believed: an earlier daemon has ordered it."""
    if believed(entry.plan) is None or is_counted(entry.plan):
        return False
    return not same(entry.plan, told(assignment.plan, assignment.width))


def _other_company(look: Look) -> Step | None:
    """Tell an agent that is in other company than it should be, or in none."""
    status = look.agent.status
    if status is None or status.company in (None, look.meeting):
        return None
    return look.act(OrderCompany(look.belief.party), look_at=look.now + 1.0)


def _resize(look: Look) -> Step:
    entry, belief, order = look.entry, look.belief, look.belief.resizing
    assert order is not None
    if (over := _over(look)) is not None:
        return over
    plan = _ordered_plan(entry, order)
    if entry.target_serial < order.serial:
        return look.act(RecordTarget(order.serial, order.target, plan))
    if entry.target:
        return _approach(look)
    as_wanted = same(entry.plan, plan)
    if {seat.number for seat in entry.seats} == order.target.numbers and as_wanted:
        return look.events(_resized(look))
    return look.events(report(entry, look.now, belief.work_done))


def _ordered_plan(entry: Entry, order: Resizing) -> str:
    """As the agent is told it; one with commands by plan keeps its plan until it starts anew."""
    return entry.plan if is_counted(entry.plan) else told(order.plan, order.target.width)


def _resized(look: Look) -> InstructionDone:
    status, belief = look.agent.status, look.belief
    return InstructionDone(
        look.now,
        look.entry.id,
        belief.epoch,
        Verb.RESIZE,
        serial=belief.serial,
        paused_seconds=None if status is None else _stood_still(status, belief),
    )


def _stood_still(status: Status, belief: Belief) -> float | None:
    """For the resize, or for the change of its plan, whichever it was."""
    order, assigned = belief.resizing, belief.assignment
    if order is not None and assigned is not None and order.plan != assigned.plan:
        return status.switch_seconds
    return status.paused_seconds


def _stop(look: Look) -> Step:
    entry, epoch = look.entry, look.belief.epoch
    if entry.epoch < epoch:  # decided and withdrawn before anything was recorded
        return look.events(_stopped(look, entry.work_saved))
    if entry.end is None:
        return _parting(look) or look.act(_recorded_end(look))
    if entry.end.outcome == Outcome.FINISHED:
        return look.events(JobFinished(look.now, entry.id, epoch))
    return look.events(_stopped(look, entry.end.kept))


_STEPS: Final[dict[State, Callable[[Look], Step]]] = {
    State.QUEUED: _wait,
    State.ADMITTED: _wait,
    State.STARTING: _start,
    State.RUNNING: _run,
    State.RESIZING: _resize,
    State.STOPPING: _stop,
}


# --- the end of an incarnation ------------------------------------------------------------------


def _over(look: Look) -> Step | None:
    """What follows from an agent that has ended by itself; None while it lives or is to come."""
    entry = look.entry
    if entry.end is not None:
        return look.events(_ending(look, entry.end))
    begun = entry.state in TRAINING  # its folder may be gone, it was there
    if not look.agent.ended and not (begun and look.agent.presence is Presence.NONE):
        return None
    if not look.agent.swept:
        return look.act(Sweep())
    return look.act(_recorded_end(look))


def _ending(look: Look, end: End) -> Event:
    """One that left because it was asked to, though not by us, has not failed."""
    entry, epoch = look.entry, look.belief.epoch
    tells_nothing = look.trial_seconds_left is not None and (
        look.has_passed or not shows(end.diagnosis)
    )
    if end.outcome == Outcome.FINISHED or tells_nothing:
        return JobFinished(look.now, entry.id, epoch)
    if end.outcome == Outcome.DRAINED:
        return WorkerLost(look.now, entry.id, epoch, entry.seats[0].node)
    return JobFailed(look.now, entry.id, epoch, end.kept, _failure(end), end.diagnosis)


def _failure(end: End) -> Failure:
    """What this machine knows of it: what was found, or whose fault its agent took it for."""
    if end.diagnosis is not None:
        return end.diagnosis.failure
    evidence = f"exit code {end.exit_code}: {end.why}" if end.why else f"exit code {end.exit_code}"
    if not end.retryable:
        return Failure(FailureClass.USER, evidence)
    outside = end.outcome == Outcome.INFRASTRUCTURE
    return Failure(FailureClass.NODE if outside else FailureClass.UNKNOWN, evidence)


def _recorded_end(look: Look) -> RecordEnd:
    """How it ended, how far it had come, and what a later incarnation can go on from."""
    entry, words = look.entry, look.agent.words or KILLED
    last = entry.progress if look.agent.status is None else look.agent.status.progress
    progress = replace(
        last,
        step=last.step if words.step is None else words.step,
        saved_step=last.saved_step if words.saved_step is None else words.saved_step,
    )
    saved = progress.saved(look.job.work) if look.job else None
    kept = entry.work_saved if saved is None else max(saved, entry.work_saved)
    done = progress.done(look.job.work) if look.job else None
    end = End(
        words.outcome,
        words.exit_code,
        words.why,
        kept,
        words.retryable,
        look.agent.diagnosis,
        entry.width * look.agent.ran_seconds * _lost_share(entry.work_saved, kept, done),
    )
    return RecordEnd(end, progress)


def _lost_share(before: float, kept: float, done: float | None) -> float:
    """Of what an incarnation has computed, the part that nobody can go on from."""
    if done is None or done <= before:
        return 1.0
    return min(max((done - kept) / (done - before), 0.0), 1.0)


def _parting(look: Look) -> Step | None:
    """What is left to do until nothing of the incarnation lives; None when nothing does."""
    entry, agent = look.entry, look.agent
    if entry.state is not State.STOPPING:
        return look.act(RecordStopping(look.belief.why))
    if agent.presence is Presence.NONE:
        return look.act(Void())
    if agent.alive:
        return _ask_to_leave(look)
    return None if agent.swept else look.act(Sweep())


def _ask_to_leave(look: Look) -> Step:
    entry, status = look.entry, look.agent.status
    since = look.now if entry.stopping_since is None else entry.stopping_since
    deadline = since + look.grace_seconds + look.rules.kill_after_seconds
    if look.now >= deadline:
        return look.act(Kill(), look_at=look.now + AGAIN_SECONDS)
    draining = status is not None and status.draining
    if draining or look.note.drained == entry.epoch:
        return look.waiting(deadline)
    left = max(since + look.grace_seconds - look.now, 0.0)
    return look.act(OrderDrain(left), look_at=look.now + 1.0)


def _stopped(look: Look, kept: float) -> InstructionDone:
    return InstructionDone(look.now, look.entry.id, look.belief.epoch, Verb.STOP, kept)


# --- a job that trains --------------------------------------------------------------------------


def _listen(look: Look) -> Step:
    """An agent that says nothing for long is of no use, and its job is begun anew.

    Neither is one of a trial that has passed.
    """
    left = look.rules.silent_seconds - look.agent.silent_seconds
    if look.trial_seconds_left is not None:
        left = min(left, look.trial_seconds_left)
    if look.agent.alive and left <= 0:
        return look.act(Kill(), look_at=look.now + AGAIN_SECONDS)
    return look.waiting(look.now + max(left, AGAIN_SECONDS))


def _approach(look: Look) -> Step:
    """From what the job has to the target on record, as far as the agent can get it."""
    entry, status = look.entry, look.agent.status
    width = _width(entry.target)
    if status is None:
        return _listen(look)
    order = entry.epoch, entry.target_serial
    if not status.live or look.note.declined == order:
        return look.act(RecordSeats(entry.target_serial, entry.seats, entry.plan))
    if look.note.ordered != order:
        return look.act(OrderResize(), look_at=look.now + 1.0)
    gave_up = status.plan_settled and not same(status.plan, entry.target_plan)
    if status.target != width or gave_up:  # on somebody who was to come, or on the plan
        return look.act(RecordSeats(entry.target_serial, _as_many(entry, status), entry.plan))
    if _has_arrived(entry, status):
        return look.act(RecordSeats(entry.target_serial, entry.target, entry.target_plan))
    return _listen(look)


def _has_arrived(entry: Entry, status: Status) -> bool:
    wanted = {device for seat in entry.target for device in seat.devices}
    there = status.settled and status.plan_settled
    return there and status.devices_in_use <= wanted


def _as_many(entry: Entry, status: Status) -> tuple[Seat, ...]:
    """As many seats as the agent has workers for, the head's first, on the devices they use."""
    seats: list[Seat] = []
    for seat in sorted(entry.held, key=lambda seat: seat.number):
        if _width(tuple(seats)) + seat.gpus <= max(status.target, 1):
            seats.append(seat)
    return on_devices(tuple(seats), status.devices_in_use)


def _shrunk(look: Look) -> Step | None:
    """Workers that could not be started again, however often: their seats are given back."""
    entry, status = look.entry, look.agent.status
    if status is None or not status.live or not status.settled:
        return None
    if status.target >= _width(entry.seats):
        return None
    return look.act(RecordSeats(look.belief.serial, _as_many(entry, status), entry.plan))


def _width(seats: tuple[Seat, ...]) -> int:
    return sum(seat.gpus for seat in seats)
