"""What the brain believes of one job, in the words of a step and of the record."""

from weft.brain.brain import Brain
from weft.brain.event import Past
from weft.brain.state.brain_state import BrainState
from weft.local.reconcile.step import Belief
from weft.model.ids import JobId
from weft.model.state import State


def belief_of(state: BrainState, job: JobId, why: str, at: float) -> Belief:
    """Where the job stands; `why` is what was last said about stopping it."""
    slot = state.slot_of.get(job)
    if slot is None:
        closed = state.closed.get(job)
        return Belief() if closed is None else Belief(state=closed.state)
    now = state.state_of(slot)
    underway = state.seating.resizes.get(slot)
    return Belief(
        state=now,
        epoch=int(state.jobs.epoch[slot]),
        assignment=state.seating.assignments[slot],
        serial=int(state.jobs.serial[slot]),
        target=underway.target if underway else None,
        cancelling=now is State.STOPPING and state.after_stop[slot] is State.CANCELLED,
        work_done=work_done(state, slot, at),
        why=why,
    )


def work_done(state: BrainState, slot: int, at: float) -> float:
    """What is settled, and what has been done since at the present speed."""
    jobs = state.jobs
    since = max(at - float(jobs.mark[slot]), 0.0)
    return float(jobs.work_done[slot]) + float(jobs.speed[slot]) * since


def past_of(brain: Brain, job: JobId) -> Past | None:
    """What a later brain could not know: to be written down with the job."""
    state = brain.state
    slot = state.slot_of.get(job)
    if slot is None:
        closed = state.closed.get(job)
        if closed is None:
            return None
        return Past(closed.attained_gpu_seconds, closed.failures, 0, closed.preemptions)
    jobs = state.jobs
    running = float(jobs.gpu_rate[slot]) * max(brain.now - float(jobs.mark[slot]), 0.0)
    return Past(
        float(jobs.attained_gpu_seconds[slot]) + running,
        int(jobs.failures[slot]),
        int(jobs.refusals[slot]),
        int(jobs.preemptions[slot]),
        int(jobs.losses[slot]),
    )
