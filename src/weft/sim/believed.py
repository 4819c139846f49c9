"""A moment as the brain believes it: for a world that nobody can look into.

Runs are where the brain thinks they are. How long a start, a stop or a resize will still take is
drawn from what such changes cost, given that it has not been answered so far.
"""

from collections.abc import Mapping

from weft.brain.brain import Brain
from weft.brain.event import Fed, Phase
from weft.brain.state.brain_state import BrainState
from weft.brain.state.party_name import party_of
from weft.model.errors import SpecError
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.model.state import State
from weft.model.truth import JobTruth
from weft.sim.chance import Chance
from weft.sim.costs import Costs, Distribution
from weft.sim.moment import InFlight, Moment

PHASES = {
    State.STARTING: Phase.STARTING,
    State.RUNNING: Phase.RUNNING,
    State.RESIZING: Phase.RUNNING,
    State.STOPPING: Phase.STOPPING,
}


def believed(brain: Brain, costs: Costs, chance: Chance) -> Moment:
    """All runs that hold seats, and the one wake-up that the brain waits for."""
    state, wake_at = brain.state, brain.outbox.wake_at
    runs = [
        _run(brain, slot, costs, chance)
        for slot in state.slot_of.values()
        if state.state_of(slot).holds_seats
    ]
    return Moment(tuple(runs), () if wake_at is None else (wake_at,))


def _run(brain: Brain, slot: int, costs: Costs, chance: Chance) -> InFlight:
    state, jobs = brain.state, brain.state.jobs
    placement, target = _seats(state, slot)
    fed, assignment = state.fed(slot), state.seating.assignments[slot]
    assert assignment is not None
    done, mark = float(jobs.work_done[slot]), float(jobs.mark[slot])
    return InFlight(
        job=state.spec(slot).id,
        epoch=int(jobs.epoch[slot]),
        phase=PHASES[state.state_of(slot)],
        placement=placement,
        plan=assignment.plan,
        party=party_of(state, slot),
        work_done=done,
        since=mark,
        saved=_saved(state, slot),
        begun=float(jobs.started[slot]),
        ready_at=_ready_at(brain, slot, costs, chance),
        target=target,
        serial=int(jobs.serial[slot]),
        next_seat=int(jobs.next_seat[slot]),
        fed=Fed(fed.cores, fed.memory_gib, int(jobs.fed_serial[slot])),
        foreseen=mark,
    )


def _seats(state: BrainState, slot: int) -> tuple[Placement, Placement | None]:
    """What it trains on, and what it is being resized to."""
    placement, underway = state.placement(slot), state.seating.resizes.get(slot)
    if underway is None:
        return placement, None
    return placement.only(underway.before), underway.target.placement


def _saved(state: BrainState, slot: int) -> float:
    """Work at the last checkpoint before `mark`, as often as it is said to save."""
    jobs, interval = state.jobs, state.spec(slot).checkpoint_interval_seconds
    done = float(jobs.work_done[slot])
    if state.state_of(slot) in (State.STARTING, State.STOPPING):
        return done
    if interval <= 0:
        return 0.0
    since = float(jobs.mark[slot] - jobs.started[slot]) % interval
    return max(done - float(jobs.speed[slot]) * since, 0.0)


def _ready_at(brain: Brain, slot: int, costs: Costs, chance: Chance) -> float:
    """When what is under way will be answered."""
    state, now = brain.state, brain.now
    status, job = state.state_of(slot), state.spec(slot).id
    taken, epoch = brain.outbox.taken_seconds(slot), int(state.jobs.epoch[slot])
    cost: Distribution
    if status is State.STARTING:
        cost, draw = costs.start, chance.uniform("start", job, epoch)
    elif status is State.STOPPING:
        cost, draw = costs.stop, chance.uniform("stop", job, epoch)
    elif status is State.RESIZING:
        cost, draw = costs.resize, chance.uniform("resize", job, int(state.jobs.serial[slot]))
        taken = now - float(state.jobs.mark[slot])
    else:
        return now
    return now - taken + cost.beyond(taken, draw)


def truth_of(job: JobId, truths: Mapping[JobId, JobTruth]) -> JobTruth:
    """How it really behaves, of a job that is not over."""
    if job not in truths:
        raise SpecError(f"job {job} is active and has no truth", hint="draw one: sim.sampled")
    return truths[job]
