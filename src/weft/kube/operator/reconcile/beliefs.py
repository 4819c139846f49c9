"""What the brain believes of one job, in the words of a step and of a status."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from weft.brain.brain import Brain
from weft.brain.considered import considered
from weft.brain.explain import Survey
from weft.brain.instruction import Preempt, Resize, Start, Stop
from weft.brain.state.brain_state import BrainState
from weft.kube.names import WorkerName
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.status.patches import Standing
from weft.kube.operator.status.progress import Told
from weft.model.ids import JobId
from weft.model.placement import Seat
from weft.model.reason import Reason
from weft.model.state import State
from weft.reconcile.belief import Belief, Resizing, past_of
from weft.reconcile.company import company_seen, no_company_seen
from weft.reconcile.moves import why_moved

WAITING = (State.QUEUED, State.ADMITTED)
HOLDER, NOBODY = "holder", "nobody"


@dataclass(frozen=True, slots=True)
class BoundWorker:
    """A worker by its pod's name, and what that pod holds where."""

    name: WorkerName
    node: str
    gpus: int

    def is_on(self, seats: Sequence[Seat]) -> bool:
        """Whether one of the seats accounts for it; none does elsewhere, or for more GPUs."""
        seat = _seat_of(seats, self.name.seat)
        return seat is not None and seat.node == self.node and self.gpus <= seat.gpus


def is_counted(state: BrainState, job: JobId, worker: BoundWorker) -> bool | None:
    """Whether the brain counts the GPUs of this worker; None where it does not know its job."""
    slot = state.slot_of.get(job)
    if slot is None:
        return False if job in state.closed else None
    if not state.state_of(slot).holds_seats or int(state.jobs.epoch[slot]) != worker.name.epoch:
        return False
    assignment = state.seating.assignments[slot]
    return assignment is not None and worker.is_on(assignment.placement.seats)


def _seat_of(seats: Sequence[Seat], number: int) -> Seat | None:
    """Until a job is resized, a seat's number is its place."""
    if number < len(seats) and seats[number].number == number:
        return seats[number]
    return next((seat for seat in seats if seat.number == number), None)


def why_of(instruction: Start | Stop | Preempt | Resize, state: BrainState) -> str:
    """What is said about it to the owner of the job: of other namespaces no names."""
    if isinstance(instruction, Preempt) and instruction.beneficiary == instruction.job:
        return why_moved(state, instruction.job)
    if isinstance(instruction, Preempt):
        return f"preempted for {known_as(instruction.beneficiary, instruction.job)}"
    if isinstance(instruction, Resize):
        return f"resized to {instruction.assignment.width} GPUs"
    return instruction.why if isinstance(instruction, Stop) else ""


def known_as(other: str, job: JobId) -> str:
    """How the owner of a job may hear of another one."""
    namespace = job.partition("/")[0]
    return other if other.partition("/")[0] == namespace else "a job of another namespace"


def _discreet(reasons: Sequence[Reason], job: JobId) -> list[Reason]:
    """Who a reservation is for is nobody's business in another namespace."""
    return [
        replace(one, numbers={**one.numbers, HOLDER: known_as(str(one.numbers[HOLDER]), job)})
        if HOLDER in one.numbers and one.numbers[HOLDER] != NOBODY
        else one
        for one in reasons
    ]


def reasons_of(survey: Survey, job: JobId) -> list[Reason]:
    """Why a job waits, as its owner may hear it."""
    return _discreet(survey.reasons(job), job)


def standing_of(
    brain: Brain, job: JobId, state: State, message: str, told: Told | None
) -> Standing:
    """All there is to tell of a job that stands so."""
    slot = brain.state.slot_of.get(job)
    epoch = None if slot is None else int(brain.state.jobs.epoch[slot])
    closed = brain.state.closed.get(job) if slot is None else None
    failure = brain.state.failures.last.get(slot) if slot is not None else None
    return Standing(
        state=state,
        gpus=0 if slot is None or state in WAITING else int(brain.state.jobs.width[slot]),
        reasons=reasons_of(brain.survey(), job) if state in WAITING else (),
        message=message,
        past=past_of(brain, job),
        progress=told.percent if told else None,
        work=told.work if told else None,
        metrics=told.metrics if told else None,
        live=told.live if told and told.epoch == epoch else None,
        offers=told.offers if told and told.epoch == epoch else (),
        failure=failure if closed is None else closed.diagnosis,
        did="" if closed is None else closed.why,
        company=company_seen(brain, job),
        no_company=no_company_seen(brain, job) if state in WAITING else None,
        plan=None if state in WAITING else considered(brain, job),
    )


def slow_change(belief: Belief, pods: Iterable[ObservedPod]) -> str:
    """What a start or a resize waits for; empty where there is none, or all its workers run."""
    mine = sorted((pod for pod in pods if pod.epoch == belief.epoch), key=lambda pod: pod.seat)
    if belief.state is State.STARTING:
        return _slow_start(mine)
    if belief.state is State.RESIZING and belief.resizing is not None:
        return _slow_resize(belief.resizing, mine)
    return ""


def _slow_start(mine: Sequence[ObservedPod]) -> str:
    late = [pod for pod in mine if pod.live and not pod.running]
    if not late:
        return ""
    return f"{len(mine) - len(late)} of {len(mine)} workers run; {_what_is_with(late[0])}"


def _slow_resize(resizing: Resizing, mine: Sequence[ObservedPod]) -> str:
    wanted = resizing.target.numbers
    late = [
        pod
        for pod in mine
        if pod.live and (pod.seat not in wanted or not (pod.running or pod.seat in resizing.before))
    ]
    on_its_way = f"on its way to {resizing.target.width} GPUs"
    return f"{on_its_way}; {_what_is_with(late[0])}" if late else on_its_way


def _what_is_with(pod: ObservedPod) -> str:
    if pod.deleting:
        return f"{pod.name}: leaving"
    what = pod.unschedulable or pod.stuck or ("starting" if pod.node else "not bound yet")
    return f"{pod.name}: {'leaving' if pod.running else what}"
