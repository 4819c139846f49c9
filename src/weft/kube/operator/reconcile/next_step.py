"""What is to be done about one job next: what is seen and what is believed go in, a step comes out.

The operator acts on levels, not on edges. Whenever anything about a job may have changed, it looks
at the job's object and pods, at what the brain believes, and asks here for the next step: either
events that bring the brain up to date, or actions that bring the world in line with it. An event
that was missed, repeated or late therefore changes nothing but the time at which it is noticed, and
an operator that comes back after a crash goes on exactly where the objects say.

The order *decide, record, act* stands in `_start` and `_stop`: no pod is created before the
decision is on record, none is deleted before the job is recorded as stopping.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
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
    PlansOffered,
    Verb,
)
from weft.kube.operator.observation.job import NO_PAST, ObservedJob
from weft.kube.operator.observation.parsed_request import parse_request
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.diagnosing import CERTAIN_SECONDS, why_stuck
from weft.kube.operator.reconcile.gang_probe import probed_first, started_on, unfit_among
from weft.kube.operator.reconcile.replanning import offered
from weft.kube.operator.reconcile.running import run
from weft.kube.operator.reconcile.start_deadline import start_deadline
from weft.kube.operator.reconcile.step import (
    AddFinalizer,
    CreatePods,
    DeleteJob,
    DeletePods,
    Look,
    Note,
    Record,
    RecordRefused,
    RecordStopping,
    RemoveFinalizer,
    Settle,
    Step,
)
from weft.kube.operator.reconcile.termination import (
    describe_former_worker,
    fenced,
    former_workers,
    wait_for_former_worker,
)
from weft.kube.operator.reconcile.trial import step_of_trial
from weft.kube.operator.reconcile.workers import (
    asked_to_leave,
    divided,
    failed,
    have_finished,
    is_guilty,
    to_delete,
    work_kept,
)
from weft.model.errors import ProtocolError
from weft.model.ids import PartyId, TenantId
from weft.model.request import JobRequest, Width
from weft.model.state import State
from weft.model.trial import is_trial

NO_IMAGE = "the job names no image and the operator has no default one: add image to the job file"


def next_step(look: Look) -> Step:
    """The one thing to do now."""
    return step_of_trial(look, _next_step) if is_trial(look.id) else _next_step(look)


def _next_step(look: Look) -> Step:
    job, state = look.job, look.belief.state
    if job is None:
        return look.waiting() if look.unreadable else _without_object(look)
    if state is not None and not state.final:
        return _work_on(look, job, state)
    if job.final:
        return _afterlife(look, job)
    return (
        _introduce(look, job)
        if state is None
        else look.actions(Settle(state, _final_message(look, state)))
    )


def phase_seen(
    job: ObservedJob,
    pods: Sequence[ObservedPod],
    *,
    former: Sequence[ObservedPod] = (),
    has_pods: bool = True,
) -> Phase:
    """What runs of the incarnation on record, as far as objects tell."""
    mine = [pod for pod in pods if pod.epoch == job.epoch and pod.owner == job.uid]
    live = any(pod.live for pod in (*mine, *former))
    if job.state == "Starting":
        return Phase.STARTING
    if job.state in ("Running", "Resizing") and (
        not has_pods or _are_there(job, {pod.seat for pod in mine})
    ):
        return Phase.RUNNING
    return Phase.STOPPING if live else Phase.ABSENT


def _are_there(job: ObservedJob, present: Collection[int]) -> bool:
    """All that were not still on their way; of a job that outlives its workers, any."""
    seats = _settled(job)
    return bool(seats & set(present)) if job.is_live else bool(seats) and seats <= set(present)


def _settled(job: ObservedJob) -> frozenset[int]:
    """Seats on record, but for those whose workers are still on their way."""
    return job.placement.numbers - job.joining if job.placement else frozenset()


# --- jobs that the brain does not work on -----------------------------------------------------


def _without_object(look: Look) -> Step:
    """The object is gone: its pods must go, then the brain may forget the name."""
    state = look.belief.state
    if (leaving := to_delete(look.live)) is not None:
        return look.actions(leaving)
    if state is None or (look.live and state.final):
        return look.waiting()
    if state.final:
        return look.events(JobForgotten(look.now, look.id))
    if not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    if look.live:
        return fenced(look, look.live)
    return look.events(InstructionDone(look.now, look.id, look.belief.epoch, Verb.STOP, 0.0))


def _introduce(look: Look, job: ObservedJob) -> Step:
    """Tell the brain of a job, and of what is on record and runs already.

    A job that was taken in before is never refused for what this version, or another setting of the
    operator, cannot make of it: it may be training.
    """
    why = "" if job.accepted else _slip(look, job) or hindrance(look, job)
    asked, fault = (None, why) if why else _request(look, job)
    if asked is None and job.accepted:
        asked = _request_on_record(look, job)
    if asked is None:
        return look.actions(Settle(State.FAILED, fault or job.fault))
    events: list[Event] = [JobSubmitted(look.now, asked)]
    if job.epoch or job.past != NO_PAST:
        phase = phase_seen(
            job, look.pods, former=former_workers(look, job), has_pods=look.rules.pods
        )
        placement = None if phase is Phase.ABSENT else job.placement
        events.append(
            JobReported(
                look.now,
                look.id,
                job.epoch,
                phase,
                job.work_saved,
                placement,
                job.past_by(look.now),
                serial=job.serial,
                next_seat=job.next_seat,
                live=job.is_live,
                plan=job.plan,
                party=PartyId(job.party),
            )
        )
    if events[1:] and (offers := offered(job, job.offers)):
        events.append(PlansOffered(look.now, look.id, job.epoch, offers))
    return look.events(*events)


def _slip(look: Look, job: ObservedJob) -> str:
    """What its owner seems to have mistyped.

    Where the chart's policies act, the API server has refused such a job. A field that is unknown
    here is then one of a newer version, which led when the job was created.
    """
    newer = look.rules.permissions.guarded and job.spec is not None
    return "" if newer else job.fault


def _request(look: Look, job: ObservedJob) -> tuple[JobRequest | None, str]:
    """What the spec asks for, or why it cannot be asked for."""
    parsed = job.parsed or parse_request(
        job.spec, job.fault, namespace=job.namespace, name=job.name, at=job.created
    )
    if parsed.request is None or parsed.request.submit_seconds <= look.now:
        return parsed.request, parsed.fault
    return replace(parsed.request, submit_seconds=look.now), ""


def _request_on_record(look: Look, job: ObservedJob) -> JobRequest | None:
    """What it has, where nobody can read what it asked for: to be left alone as it is."""
    if job.placement is None or not job.placement.width:
        return None
    width = job.placement.width
    return JobRequest(
        id=look.id,
        width=Width(width, width, width),
        submit_seconds=min(job.created, look.now),
        tenant=TenantId(job.namespace),
        preemptible=False,
    )


def _final_message(look: Look, state: State) -> str:
    """Why a job failed, as far as its last pods tell."""
    if state is not State.FAILED:
        return ""
    if look.belief.why:
        return look.belief.why
    guilty = [pod for pod in look.pods if is_guilty(pod)]
    if not guilty:
        return "its workers failed"
    last = max(guilty, key=lambda pod: pod.epoch)
    return f"{last.name} on {last.node} ended with exit code {last.exit_code}"


def _afterlife(look: Look, job: ObservedJob) -> Step:
    """The job is over: nothing of it may live, and its object goes when it has been kept enough."""
    if (leaving := to_delete(look.live)) is not None:
        return look.actions(leaving)
    if job.deleting:
        held = job.finalizer and not look.live
        return look.actions(RemoveFinalizer()) if held else look.waiting()
    return _expire(look, job)


def _expire(look: Look, job: ObservedJob) -> Step:
    if job.ended is None:
        return look.waiting()
    due = _pods_go_at(look, job)
    if due is not None and due <= look.now:
        return look.actions(DeletePods(look.pods))
    kept = None if job.spec is None else job.spec.ttl_seconds
    kept_seconds = look.rules.keep_seconds if kept is None else kept
    if kept_seconds is not None:
        gone = job.ended + kept_seconds
        if gone <= look.now:
            return look.actions(DeleteJob())
        due = gone if due is None else min(due, gone)
    return look.waiting(due)


def _pods_go_at(look: Look, job: ObservedJob) -> float | None:
    """When what a failed job has left for its logs is taken away."""
    kept = None if job.spec is None else job.spec.keep_on_failure_seconds
    if not look.pods or job.state != "Failed" or kept is None or job.ended is None:
        return None
    return job.ended + kept


# --- jobs that the brain works on -------------------------------------------------------------


def _work_on(look: Look, job: ObservedJob, state: State) -> Step:
    if job.final:
        return _ended_by_others(look, job)
    if (job.deleting or job.cancelled) and not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    return _STEPS[state](look, job)


def _ended_by_others(look: Look, job: ObservedJob) -> Step:
    """Whoever runs the workers wrote the end down already."""
    epoch = look.belief.epoch
    if job.state == "Succeeded" and look.belief.state is not State.QUEUED:
        return look.events(JobFinished(look.now, look.id, epoch))
    if not look.belief.cancelling:
        return look.events(JobCancelled(look.now, look.id))
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.STOP, 0.0))


def _wait(look: Look, job: ObservedJob) -> Step:
    """It holds no seat, so nothing of it may live; a start that was refused is over at once."""
    if (leaving := to_delete(look.live)) is not None:
        return look.actions(leaving)
    state, was_starting = look.belief.state, job.state == "Starting"
    if state is None or not was_starting or job.epoch != look.belief.epoch:
        return look.waiting()
    return look.actions(RecordRefused(state))


def _start(look: Look, job: ObservedJob) -> Step:
    epoch, assignment = look.belief.epoch, look.belief.assignment
    assert assignment is not None
    if job.epoch > epoch:
        raise ProtocolError(
            f"job {look.key} is on record with epoch {job.epoch}, believed {epoch}",
            hint="another operator decides for this cluster; the brain is rebuilt",
        )
    mine, strays = divided(look, job)
    if live_strays := [pod for pod in strays if pod.live]:
        leaving = to_delete(live_strays)
        return fenced(look, live_strays) if leaving is None else look.actions(leaving)
    if former := former_workers(look, job):
        return _refuse(look, mine, describe_former_worker(former[0]))
    if (why := hindrance(look, job)) and set(mine) < set(assignment.placement.numbers):
        return _refuse(look, mine, why)
    if job.epoch < epoch:
        return _record_start(look, job, mine)
    if not look.rules.pods:
        return look.events(InstructionDone(look.now, look.id, epoch, Verb.START))
    return _gather(look, job, mine, strays)


def _record_start(look: Look, job: ObservedJob, mine: Mapping[int, ObservedPod]) -> Step:
    assert look.belief.assignment is not None
    if unfit := unfit_among(look, started_on(look)):
        return _refuse(look, mine, unfit)
    if (first := probed_first(look, job)) is not None:
        return first
    record = Record(look.belief.epoch, look.belief.assignment)
    bare = look.rules.pods and not job.finalizer
    return look.actions(AddFinalizer(), record) if bare else look.actions(record)


def _gather(
    look: Look, job: ObservedJob, mine: Mapping[int, ObservedPod], strays: Sequence[ObservedPod]
) -> Step:
    """All workers or none: create those that are missing, wait for the others, or give up."""
    epoch, assignment = look.belief.epoch, look.belief.assignment
    assert assignment is not None
    if (given_up := _given_up(look, job, mine)) is not None:
        return given_up
    placement = assignment.placement
    if missing := tuple(seat.number for seat in placement.seats if seat.number not in mine):
        old = (DeletePods(tuple(strays)),) if strays else ()
        return look.actions(*old, CreatePods(epoch, placement, missing))
    if not all(pod.running or pod.succeeded for pod in mine.values()):
        return _not_yet(look, mine)
    if all(pod.succeeded for pod in mine.values()):
        return look.events(JobFinished(look.now, look.id, epoch))
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.START))


def _given_up(look: Look, job: ObservedJob, mine: Mapping[int, ObservedPod]) -> Step | None:
    """A start that was refused before, failed, or was rejected by a node; None while it may work.

    Rejections are refusals and not losses, so that a doomed placement backs off and yields.
    """
    if look.note.refusal is not None and look.note.refusal[:2] == (look.belief.epoch, 0):
        return _refuse(look, mine, look.note.refusal[2])
    if any(is_guilty(pod) for pod in mine.values()):
        return failed(look, job, mine.values())
    if rejected := [pod for pod in mine.values() if pod.deleting or pod.failed]:
        return _refuse(look, mine, f"{rejected[0].name}: {rejected[0].reason or 'taken away'}")
    return None


def _run(look: Look, job: ObservedJob) -> Step:
    return run(look, job) if look.rules.pods else _run_elsewhere(look, job)


def _run_elsewhere(look: Look, job: ObservedJob) -> Step:
    epoch, phase = job.execution
    if epoch != look.belief.epoch:
        return look.waiting()
    if phase == "Succeeded":
        return look.events(JobFinished(look.now, look.id, epoch))
    if phase == "Failed":
        return look.events(JobFailed(look.now, look.id, epoch, job.work_saved))
    return look.waiting()


def _stop(look: Look, job: ObservedJob) -> Step:
    epoch = look.belief.epoch
    mine, strays = divided(look, job)
    live = [pod for pod in (*mine.values(), *strays) if pod.live]
    on_record = job.epoch == epoch and job.state == "Stopping"
    drained = asked_to_leave(mine)
    if job.epoch == epoch and not on_record and (live or drained or not look.rules.pods):
        return look.actions(RecordStopping(epoch, _why_stopped(look, drained)))
    if (leaving := to_delete(_first_to_leave(look, job, mine, live))) is not None:
        return look.actions(leaving)
    if live:
        return fenced(look, live)
    if have_finished(_settled(job), mine):
        return look.events(JobFinished(look.now, look.id, epoch))
    if (former := former_workers(look, job)) and not look.belief.cancelling:
        return wait_for_former_worker(look, job, former[0])
    kept = work_kept(look, job, drained=True)
    return look.events(InstructionDone(look.now, look.id, epoch, Verb.STOP, kept))


def _why_stopped(look: Look, drained: ObservedPod | None) -> str:
    """What the brain gives as its reason, unless somebody else took a worker away before."""
    if drained is None:
        return look.belief.why
    where = f" on {drained.node}" if drained.node else ""
    return f"drained: {drained.name}{where} was asked to leave"


def _first_to_leave(
    look: Look, job: ObservedJob, mine: Mapping[int, ObservedPod], live: Sequence[ObservedPod]
) -> Sequence[ObservedPod]:
    """A live job is drained by its head: the others leave with it, all at the end of one step."""
    head = mine.get(job.headship.seat)
    if not look.belief.live or head is None or not head.live or head.node in look.lost:
        return live
    return (head,)


_STEPS: dict[State, Callable[[Look, ObservedJob], Step]] = {
    State.QUEUED: _wait,
    State.ADMITTED: _wait,
    State.STARTING: _start,
    State.RUNNING: _run,
    State.RESIZING: _run,
    State.STOPPING: _stop,
}


# --- helpers ----------------------------------------------------------------------------------


def hindrance(look: Look, job: ObservedJob) -> str:
    """Why no worker of the job could be made now; empty where one could."""
    if not look.rules.pods:
        return ""
    if job.spec is None:
        return job.fault
    if not (job.spec.image or look.rules.default_image):
        return NO_IMAGE
    return look.rules.permissions.refusal(job.spec)


def _refuse(look: Look, mine: Mapping[int, ObservedPod], why: str) -> Step:
    """Undo what was begun; refused means that nothing of it is left."""
    hopeless = look.note.hopeless
    look = replace(look, note=Note(refusal=(look.belief.epoch, 0, why), hopeless=hopeless))
    live = [pod for pod in mine.values() if pod.live]
    if (leaving := to_delete(live)) is not None:
        return look.actions(leaving)
    if live:
        return fenced(look, live)
    epoch = look.belief.epoch
    if hopeless is not None:
        failed = JobFailed(look.now, look.id, epoch, 0.0, hopeless.failure, hopeless)
        return Step(events=(failed,))
    return Step(events=(InstructionRefused(look.now, look.id, epoch, Verb.START, why),))


def _not_yet(look: Look, mine: Mapping[int, ObservedPod]) -> Step:
    note, again, why = start_deadline(look, tuple(mine.values()))
    hopeless = why_stuck(replace(look, note=note), mine.values())
    if hopeless is not None:
        return _refuse(replace(look, note=replace(note, hopeless=hopeless)), mine, str(hopeless))
    if note.stuck_since is not None and again is not None:
        again = min(again, max(note.stuck_since + CERTAIN_SECONDS, look.now + 1.0))
    return _refuse(look, mine, why) if why else Step(note=note, look_at=again)
