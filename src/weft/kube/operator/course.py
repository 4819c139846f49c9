"""What is to be done about one job next: what is seen and what is believed go in, a step comes out.

The operator acts on levels, not on edges. Whenever anything about a job may have changed, it looks
at the job's object and pods, at what the brain believes, and asks here for the next step: either
events that bring the brain up to date, or deeds that bring the world in line with it. An event that
was missed, repeated or late therefore changes nothing but the time at which it is noticed, and an
operator that comes back after a crash goes on exactly where the objects say.

The order *decide, record, act* stands in `_start` and `_stop`: no pod is created before the
decision is on record, none is deleted before the job is recorded as stopping.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

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
    Verb,
    WorkerLost,
)
from weft.kube.operator.sight import NO_PAST, JobSight, PodSight
from weft.kube.operator.step import (
    AddFinalizer,
    CreatePods,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Record,
    RecordStopping,
    RemoveFinalizer,
    Settle,
    Step,
)
from weft.model.errors import ProtocolError, SpecError
from weft.model.ids import NodeId, TenantId
from weft.model.placement import Seat
from weft.model.state import State
from weft.spec.job import to_job

INFRASTRUCTURE = frozenset(
    {
        "Evicted",
        "NodeLost",
        "NodeShutdown",
        "NodeAffinity",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
NO_IMAGE = "the job names no image and the operator has no default one: add image to the job file"
KILLED_FROM_OUTSIDE = frozenset({130, 143})
HOPELESS = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
    }
)


def next_step(look: Look) -> Step:
    """The one thing to do now."""
    job, state = look.job, look.belief.state
    if job is None:
        return _without_object(look)
    if state is not None and not state.final:
        return _work_on(look, job, state)
    if job.final:
        return _afterlife(look, job)
    return (
        _introduce(look, job) if state is None else look.deeds(Settle(state, _epitaph(look, state)))
    )


def phase_seen(job: JobSight, pods: Sequence[PodSight], *, has_pods: bool = True) -> Phase:
    """What runs of the incarnation on record, as far as objects tell."""
    mine = [pod for pod in pods if pod.epoch == job.epoch and pod.owner == job.uid]
    live = any(pod.live for pod in mine)
    if job.state == "Starting":
        return Phase.STARTING
    if job.state in ("Running", "Resizing", "Migrating"):
        placement = job.placement
        seats = len(placement.seats) if placement else 0
        if not has_pods or (seats and len({pod.rank for pod in mine}) == seats):
            return Phase.RUNNING
    return Phase.STOPPING if live else Phase.ABSENT


# --- jobs that the brain does not work on -----------------------------------------------------


def _without_object(look: Look) -> Step:
    """The object is gone: its pods must go, then the brain may forget the name."""
    state = look.belief.state
    if (leaving := _to_delete(look.live)) is not None:
        return look.deeds(leaving)
    if state is None or (look.live and state.final):
        return look.waiting()
    if state.final:
        return look.events(JobForgotten(look.now, look.id))
    if not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    if look.live:
        return _fenced(look, look.live)
    return look.events(InstructionDone(look.now, look.id, look.belief.epoch, Verb.STOP, 0.0))


def _introduce(look: Look, job: JobSight) -> Step:
    """Tell the brain of a job, and of what is on record and runs already."""
    if job.spec is None:
        return look.deeds(Settle(State.FAILED, job.fault))
    if look.rules.pods and not (job.spec.image or look.rules.default_image):
        return look.deeds(Settle(State.FAILED, NO_IMAGE))
    try:
        asked = to_job(
            job.spec, id=look.id, tenant=TenantId(job.namespace), submit_seconds=job.created
        )
    except SpecError as error:
        return look.deeds(Settle(State.FAILED, str(error)))
    events: list[Event] = [JobSubmitted(look.now, asked)]
    if job.epoch or job.past != NO_PAST:
        phase = phase_seen(job, look.pods, has_pods=look.rules.pods)
        placement = None if phase is Phase.ABSENT else job.placement
        events.append(
            JobReported(look.now, look.id, job.epoch, phase, job.work_saved, placement, job.past)
        )
    return look.events(*events)


def _epitaph(look: Look, state: State) -> str:
    """Why a job failed, as far as its last pods tell."""
    if state is not State.FAILED:
        return ""
    guilty = [pod for pod in look.pods if _guilty(pod)]
    if not guilty:
        return "its workers failed"
    last = max(guilty, key=lambda pod: pod.epoch)
    return f"{last.name} on {last.node} ended with exit code {last.exit_code}"


def _afterlife(look: Look, job: JobSight) -> Step:
    """The job is over: nothing of it may live, and its object goes when it has been kept enough."""
    if (leaving := _to_delete(look.live)) is not None:
        return look.deeds(leaving)
    if job.deleting:
        held = job.finalizer and not look.live
        return look.deeds(RemoveFinalizer()) if held else look.waiting()
    return _expire(look, job)


def _expire(look: Look, job: JobSight) -> Step:
    ended, spec = job.ended, job.spec
    if spec is None or ended is None:
        return look.waiting()
    due = None
    if look.pods and job.state == "Failed" and spec.keep_on_failure_seconds is not None:
        due = ended + spec.keep_on_failure_seconds
        if due <= look.now:
            return look.deeds(DeletePods(look.pods))
    if spec.ttl_seconds is not None:
        gone = ended + spec.ttl_seconds
        if gone <= look.now:
            return look.deeds(DeleteJob())
        due = gone if due is None else min(due, gone)
    return look.waiting(due)


# --- jobs that the brain works on -------------------------------------------------------------


def _work_on(look: Look, job: JobSight, state: State) -> Step:
    if job.final:
        return _ended_by_others(look, job)
    if (job.deleting or job.cancelled) and not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    return _STEPS[state](look, job)


def _ended_by_others(look: Look, job: JobSight) -> Step:
    """Whoever runs the workers wrote the end down already."""
    epoch = look.belief.epoch
    if job.state == "Succeeded" and look.belief.state is not State.QUEUED:
        return look.events(JobFinished(look.now, look.id, epoch))
    if not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.STOP, 0.0))


def _wait(look: Look, job: JobSight) -> Step:
    """It holds no seat, so nothing of it may live."""
    leaving = _to_delete(look.live)
    return look.waiting() if leaving is None else look.deeds(leaving)


def _start(look: Look, job: JobSight) -> Step:
    epoch, assignment = look.belief.epoch, look.belief.assignment
    assert assignment is not None
    if job.epoch > epoch:
        raise ProtocolError(
            f"job {look.key} is on record with epoch {job.epoch}, believed {epoch}",
            hint="another operator decides for this cluster; the brain is rebuilt",
        )
    mine, strays = _divided(look, job)
    if live_strays := [pod for pod in strays if pod.live]:
        leaving = _to_delete(live_strays)
        return look.waiting() if leaving is None else look.deeds(leaving)
    if job.epoch < epoch:
        record = Record(epoch, assignment)
        bare = look.rules.pods and not job.finalizer
        return look.deeds(AddFinalizer(), record) if bare else look.deeds(record)
    if not look.rules.pods:
        return look.events(InstructionDone(look.now, look.id, epoch, Verb.START))
    return _gather(look, job, mine, strays)


def _gather(
    look: Look, job: JobSight, mine: Mapping[int, PodSight], strays: Sequence[PodSight]
) -> Step:
    """All workers or none: create those that are missing, wait for the others, or give up."""
    epoch, assignment = look.belief.epoch, look.belief.assignment
    assert assignment is not None
    if (given_up := _given_up(look, job, mine)) is not None:
        return given_up
    seats = range(len(assignment.placement.seats))
    if missing := tuple(rank for rank in seats if rank not in mine):
        old = (DeletePods(tuple(strays)),) if strays else ()
        return look.deeds(*old, CreatePods(epoch, assignment, missing))
    if not all(pod.running or pod.succeeded for pod in mine.values()):
        return _not_yet(look, mine)
    if all(pod.succeeded for pod in mine.values()):
        return look.events(JobFinished(look.now, look.id, epoch))
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.START))


def _given_up(look: Look, job: JobSight, mine: Mapping[int, PodSight]) -> Step | None:
    """A start that was refused before, failed, or was rejected by a node; None while it may work.

    Rejections are refusals and not losses, so that a doomed placement backs off and yields.
    """
    if look.note.refusal is not None and look.note.refusal[0] == look.belief.epoch:
        return _refuse(look, mine, look.note.refusal[1])
    if any(_guilty(pod) for pod in mine.values()):
        return _fail(look, job, mine)
    if rejected := [pod for pod in mine.values() if pod.deleting or pod.failed]:
        return _refuse(look, mine, f"{rejected[0].name}: {rejected[0].reason or 'taken away'}")
    return None


def _run(look: Look, job: JobSight) -> Step:
    epoch = look.belief.epoch
    if not look.rules.pods:
        return _run_elsewhere(look, job)
    mine, strays = _divided(look, job)
    if (broken := _broken(look, job, mine)) is not None:
        return broken
    if (gone := _missing(look, mine)) is not None:
        return look.events(WorkerLost(look.now, look.id, epoch, gone.node))
    if all(pod.succeeded for pod in mine.values()):
        return look.events(JobFinished(look.now, look.id, epoch))
    leaving = _to_delete(pod for pod in strays if pod.live)
    return look.waiting() if leaving is None else look.deeds(leaving)


def _run_elsewhere(look: Look, job: JobSight) -> Step:
    epoch, phase = job.execution
    if epoch != look.belief.epoch:
        return look.waiting()
    if phase == "Succeeded":
        return look.events(JobFinished(look.now, look.id, epoch))
    if phase == "Failed":
        return look.events(JobFailed(look.now, look.id, epoch, job.work_saved))
    return look.waiting()


def _stop(look: Look, job: JobSight) -> Step:
    epoch = look.belief.epoch
    mine, strays = _divided(look, job)
    live = [pod for pod in (*mine.values(), *strays) if pod.live]
    on_record = job.epoch == epoch and job.state == "Stopping"
    if job.epoch == epoch and not on_record and (live or not look.rules.pods):
        return look.deeds(RecordStopping(epoch, look.belief.why))
    if (leaving := _to_delete(live)) is not None:
        return look.deeds(leaving)
    if live:
        return _fenced(look, live)
    assignment = look.belief.assignment
    seats = len(assignment.placement.seats) if assignment else 0
    if seats and len(mine) == seats and all(pod.succeeded for pod in mine.values()):
        return look.events(JobFinished(look.now, look.id, epoch))
    kept = _kept(look, job, drained=True)
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.STOP, kept))


_STEPS: dict[State, Callable[[Look, JobSight], Step]] = {
    State.QUEUED: _wait,
    State.ADMITTED: _wait,
    State.STARTING: _start,
    State.RUNNING: _run,
    State.RESIZING: _run,
    State.MIGRATING: _run,
    State.STOPPING: _stop,
}


# --- helpers ----------------------------------------------------------------------------------


def _divided(look: Look, job: JobSight) -> tuple[dict[int, PodSight], list[PodSight]]:
    """Pods of the present incarnation by rank, and all others."""
    mine: dict[int, PodSight] = {}
    strays = []
    for pod in look.pods:
        if pod.epoch == look.belief.epoch and pod.owner == job.uid:
            mine[pod.rank] = pod
        else:
            strays.append(pod)
    return mine, strays


def _to_delete(pods: Iterable[PodSight]) -> DeletePods | None:
    """Those that nobody has asked to leave yet."""
    staying = tuple(pod for pod in pods if not pod.deleting)
    return DeletePods(staying) if staying else None


def _fenced(look: Look, live: Sequence[PodSight]) -> Step:
    """Pods of a node that is out of reach never confirm their end; their epoch fences them."""
    waits = [
        look.lost[pod.node] + look.rules.fence_seconds for pod in live if pod.node in look.lost
    ]
    if not waits:
        return look.waiting()
    if min(waits) > look.now:
        return look.waiting(min(waits))
    dead = [
        pod
        for pod in live
        if pod.node in look.lost and look.lost[pod.node] + look.rules.fence_seconds <= look.now
    ]
    return look.deeds(DeletePods(tuple(dead), now=True))


def _broken(look: Look, job: JobSight, mine: Mapping[int, PodSight]) -> Step | None:
    """What follows from a worker that failed or was taken away; None while all is well."""
    if any(_guilty(pod) for pod in mine.values()):
        return _fail(look, job, mine)
    taken = [pod for pod in mine.values() if pod.deleting or pod.failed]
    if not taken:
        return None
    node = NodeId(taken[0].node or _seat_of(look, taken[0].rank).node)
    return look.events(WorkerLost(look.now, look.id, look.belief.epoch, node))


def _guilty(pod: PodSight) -> bool:
    """The program failed by itself; nothing took it away."""
    if not pod.failed or pod.deleting or pod.reason in INFRASTRUCTURE:
        return False
    if pod.reason.startswith("OutOf"):
        return False
    return pod.exit_code is not None and pod.exit_code not in KILLED_FROM_OUTSIDE


def _fail(look: Look, job: JobSight, mine: Mapping[int, PodSight]) -> Step:
    """A worker failed: the others must go before the brain may hear of it."""
    live = [pod for pod in mine.values() if pod.live]
    if (leaving := _to_delete(live)) is not None:
        return look.deeds(leaving)
    if live:
        return _fenced(look, live)
    kept = _kept(look, job, drained=False)
    return look.events(JobFailed(look.now, look.id, look.belief.epoch, kept))


def _missing(look: Look, mine: Mapping[int, PodSight]) -> Seat | None:
    assignment = look.belief.assignment
    assert assignment is not None
    for rank, seat in enumerate(assignment.placement.seats):
        if rank not in mine:
            return seat
    return None


def _seat_of(look: Look, rank: int) -> Seat:
    assert look.belief.assignment is not None
    return look.belief.assignment.placement.seats[rank]


def _refuse(look: Look, mine: Mapping[int, PodSight], why: str) -> Step:
    """Undo what was begun; refused means that nothing of it is left."""
    look = replace(look, note=Note(refusal=(look.belief.epoch, why)))
    live = [pod for pod in mine.values() if pod.live]
    if (leaving := _to_delete(live)) is not None:
        return look.deeds(leaving)
    if live:
        return _fenced(look, live)
    refused = InstructionRefused(look.now, look.id, look.belief.epoch, Verb.START, why)
    return Step(events=(refused,))


def _not_yet(look: Look, mine: Mapping[int, PodSight]) -> Step:
    """Pods that nobody can bind are withdrawn after a while, images that cannot be had as well."""
    homeless = [pod for pod in mine.values() if not pod.node and pod.unschedulable]
    stuck = [pod for pod in mine.values() if pod.stuck in HOPELESS]
    note = replace(
        look.note,
        unschedulable_since=_since(look.note.unschedulable_since, bool(homeless), look.now),
        stuck_since=_since(look.note.stuck_since, bool(stuck), look.now),
    )
    due = [
        *_deadline(note.unschedulable_since, look.rules.unschedulable_seconds, homeless),
        *_deadline(note.stuck_since, look.rules.stuck_seconds, stuck),
    ]
    passed = [why for at, why in due if at <= look.now]
    if passed:
        return _refuse(look, mine, passed[0])
    return Step(note=note, look_at=min((at for at, _ in due), default=None))


def _since(before: float | None, goes_on: bool, now: float) -> float | None:
    if not goes_on:
        return None
    return now if before is None else before


def _deadline(
    since: float | None, patience_seconds: float, pods: Sequence[PodSight]
) -> list[tuple[float, str]]:
    if since is None:
        return []
    first = pods[0]
    return [(since + patience_seconds, f"{first.name}: {first.unschedulable or first.stuck}")]


def _kept(look: Look, job: JobSight, *, drained: bool) -> float:
    """Work that a later incarnation can go on from, as told by the job or else as estimated."""
    spec = job.spec
    if spec is None or spec.checkpoint is None:
        return 0.0
    if job.work_saved > 0.0 or not drained:
        return job.work_saved
    return look.belief.work_done
