"""What the brain believes of one job: one of the things that a step is decided from."""

from dataclasses import dataclass

from weft.brain.brain import Brain
from weft.brain.event import Past
from weft.brain.state.brain_state import BrainState
from weft.brain.state.party_name import party_of
from weft.model.decision import NO_PARTY, Assignment
from weft.model.ids import JobId, PartyId
from weft.model.placement import Placement
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.state import State


@dataclass(frozen=True, slots=True)
class Resizing:
    """A resize that the brain waits for: the seats before it, and those that are to be."""

    serial: int
    before: frozenset[int]
    target: Placement
    plan: ExecutionPlan = AS_WRITTEN


@dataclass(frozen=True, slots=True)
class Belief:
    """What the brain thinks of a job; `state` is None where it has never heard of it.

    The assignment of a job that is being resized holds both what it had and what it is to get.
    `serial` is the number of the last resize that was asked for in this epoch, and `party` the name
    of those who take turns with it; empty where it has its GPUs to itself.
    """

    state: State | None = None
    epoch: int = 0
    assignment: Assignment | None = None
    cancelling: bool = False
    work_done: float = 0.0
    why: str = ""
    live: bool = False
    serial: int = 0
    resizing: Resizing | None = None
    party: PartyId = NO_PARTY

    @property
    def seats(self) -> frozenset[int]:
        return self.assignment.placement.numbers if self.assignment else frozenset()


def belief_of(state: BrainState, job: JobId, why: str, now: float) -> Belief:
    """Where the job stands; `why` is what was last said about stopping it."""
    slot = state.slot_of.get(job)
    if slot is None:
        closed = state.closed.get(job)
        return Belief() if closed is None else Belief(state=closed.state, why=closed.why)
    where = state.state_of(slot)
    return Belief(
        state=where,
        epoch=int(state.jobs.epoch[slot]),
        assignment=state.seating.assignments[slot],
        cancelling=where is State.STOPPING and state.after_stop[slot] is State.CANCELLED,
        work_done=work_done(state, slot, now),
        why=why,
        live=bool(state.jobs.live[slot]),
        serial=int(state.jobs.serial[slot]),
        resizing=_resizing(state, slot),
        party=party_of(state, slot) if state.seating.company.shares(slot) else NO_PARTY,
    )


def company_of(state: BrainState, job: JobId) -> tuple[JobId, ...]:
    """Who else is to be on its GPUs."""
    slot = state.slot_of.get(job)
    if slot is None:
        return ()
    members = state.seating.company.members(slot)
    return tuple(state.spec(member).id for member in members if member != slot)


def work_done(state: BrainState, slot: int, now: float) -> float:
    """Work up to now: what is settled, and what has been done since at the present speed."""
    jobs = state.jobs
    since = max(now - float(jobs.mark[slot]), 0.0)
    return float(jobs.work_done[slot]) + float(jobs.speed[slot]) * since


def _resizing(state: BrainState, slot: int) -> Resizing | None:
    under_way = state.seating.resizes.get(slot)
    if under_way is None or state.state_of(slot) is not State.RESIZING:
        return None
    target = under_way.target
    serial = int(state.jobs.serial[slot])
    return Resizing(serial, under_way.before, target.placement, target.plan)


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
        state.failures.retries.get(slot),
    )
