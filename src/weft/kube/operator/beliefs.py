"""What the brain believes of one job, in the words of a step and of a status."""

from collections.abc import Iterable

from weft.brain.brain import Brain
from weft.brain.event import Past
from weft.brain.state import BrainState
from weft.kube.operator.progress import Told
from weft.kube.operator.sight import PodSight
from weft.kube.operator.status import Standing
from weft.kube.operator.step import Belief
from weft.model.ids import JobId
from weft.model.state import State

WAITING = (State.QUEUED, State.ADMITTED)


def belief_of(state: BrainState, job: JobId, why: str) -> Belief:
    """Where the job stands; `why` is what was last said about stopping it."""
    slot = state.slot_of.get(job)
    if slot is None:
        closed = state.closed.get(job)
        return Belief() if closed is None else Belief(state=closed.state)
    now = state.state_of(slot)
    return Belief(
        state=now,
        epoch=int(state.jobs.epoch[slot]),
        assignment=state.assignments[slot],
        cancelling=now is State.STOPPING and state.after_stop[slot] is State.CANCELLED,
        work_done=float(state.jobs.work_done[slot]),
        why=why,
    )


def standing_of(
    brain: Brain, job: JobId, state: State, message: str, told: Told | None
) -> Standing:
    """All there is to tell of a job that stands so."""
    slot = brain.state.slot_of.get(job)
    return Standing(
        state=state,
        gpus=0 if slot is None or state in WAITING else int(brain.state.jobs.width[slot]),
        reasons=brain.explain(job) if state in WAITING else (),
        message=message,
        past=past_of(brain, job),
        progress=told.percent if told else None,
        work=told.work if told else None,
        metrics=told.metrics if told else None,
    )


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
    )


def slow_start(belief: Belief, pods: Iterable[PodSight]) -> str:
    """What a start waits for; empty where the job is not starting, or all its workers run."""
    if belief.state is not State.STARTING:
        return ""
    mine = sorted((pod for pod in pods if pod.epoch == belief.epoch), key=lambda pod: pod.rank)
    late = [pod for pod in mine if pod.live and not pod.running]
    if not late:
        return ""
    first = late[0]
    what = first.unschedulable or first.stuck or ("starting" if first.node else "not bound yet")
    return f"{len(mine) - len(late)} of {len(mine)} workers run; {first.name}: {what}"
