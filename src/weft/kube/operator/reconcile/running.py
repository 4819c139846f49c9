"""A job that runs: workers that come and go while it trains, and those that are lost.

What is on record says which seats the incarnation has. A resize is recorded first; then pods are
made to follow: those of seats that the record does not name go, those of seats that are to be
joined are created, and when all are where they belong the brain hears of it. Whoever comes after a
crash finds the record and does the same, with nobody waiting for the answer. A large gang that is
to have further nodes trains on as it is until these have said that they are well.

A job whose head says that it can be resized while it trains (it is *live*) outlives workers that
are drained or lost with their node, as long as it is no narrower than it may be: the record is cut
to what is left, and the brain lets the other seats go. If its head was among them, another seat is
given time to lead. Any other job stops when it loses a worker.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from weft.brain.event import (
    InstructionDone,
    InstructionRefused,
    JobFinished,
    JobReported,
    Phase,
    Verb,
    WorkerLost,
)
from weft.kube.names import pod_name
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.gang_probe import asked_first, grown_onto, unfit_among
from weft.kube.operator.reconcile.replanning import (
    await_answer,
    called_off,
    changes_plan,
    computes_otherwise,
    is_as_ordered,
    not_begun,
    plan_of,
    record_order,
)
from weft.kube.operator.reconcile.start_deadline import start_deadline
from weft.kube.operator.reconcile.step import CreatePods, Look, RecordSeats, Step
from weft.kube.operator.reconcile.termination import fenced
from weft.kube.operator.reconcile.workers import (
    divided,
    failed,
    failure_of,
    have_finished,
    is_guilty,
    loss_of,
    to_delete,
)
from weft.model.errors import ProtocolError
from weft.model.ids import NodeId
from weft.model.placement import Placement
from weft.model.state import State
from weft.reconcile.belief import Resizing

MOST_NAMES = 3


def run(look: Look, job: ObservedJob) -> Step:
    """The next step for a job that trains, whether it is being resized or not."""
    if look.said_live is not None and look.said_live != look.belief.live:
        return look.events(_seen(look, job, placement=None, live=look.said_live))
    crew = _crew(look, job)
    if any(is_guilty(pod) for pod in crew.settled.values()):
        return failed(look, job, crew.all)
    if have_finished(crew.seats.numbers - job.joining, crew.settled):
        return _finish(look, crew)
    look = _watched(look, crew)
    for change in (_stay_headless, _record_order, _give_up_joiners, _lose):
        if (step := change(look, job, crew)) is not None:
            return step
    return _until_led(look, _converge(look, job, crew))


@dataclass(frozen=True, slots=True)
class _Crew:
    """Pods of the present incarnation by seat, and those that have to go.

    `settled` were there before the last resize, `joiners` come with it; on the seat that leads is
    the `head`, if anybody is.
    """

    seats: Placement
    head: ObservedPod | None
    settled: Mapping[int, ObservedPod]
    joiners: Mapping[int, ObservedPod]
    leaving: tuple[ObservedPod, ...]

    @property
    def all(self) -> tuple[ObservedPod, ...]:
        return (*self.settled.values(), *self.joiners.values(), *self.leaving)


def _crew(look: Look, job: ObservedJob) -> _Crew:
    mine, strays = divided(look, job)
    seats = job.placement
    if seats is None or job.epoch != look.belief.epoch:
        raise ProtocolError(
            f"job {look.key} runs in epoch {look.belief.epoch}, and on record is {job.epoch}",
            hint="somebody else writes its status; the brain is rebuilt",
        )
    steady = seats.numbers - job.joining
    leaving = [pod for number, pod in mine.items() if number not in seats.numbers]
    return _Crew(
        seats,
        mine.get(job.headship.seat),
        {number: pod for number, pod in mine.items() if number in steady},
        {number: pod for number, pod in mine.items() if number in job.joining},
        tuple(pod for pod in (*leaving, *strays) if pod.live),
    )


def _watched(look: Look, crew: _Crew) -> Look:
    """Since when nobody leads, if nobody does: whoever comes to is on record then."""
    head = crew.head
    led = head is not None and head.live and head.node not in look.lost
    since = None if led or not look.belief.live else look.note.headless_since or look.now
    return replace(look, note=replace(look.note, headless_since=since))


def _led_by(look: Look) -> float | None:
    """When another seat has to lead."""
    since = look.note.headless_since
    return None if since is None else since + look.rules.head_seconds


def _until_led(look: Look, step: Step) -> Step:
    """The same, and a look when it is time to give up."""
    until = _led_by(look)
    if until is None or step.events:
        return step
    return replace(step, look_at=until if step.look_at is None else min(step.look_at, until))


def _stay_headless(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """Nobody has come to lead: the job begins again."""
    until = _led_by(look)
    if until is None or look.now < until:
        return None
    head = crew.head
    node = NodeId(head.node) if head is not None and head.node else crew.seats.seats[0].node
    return look.events(WorkerLost(look.now, look.id, look.belief.epoch, node, failure_of(head)))


def _finish(look: Look, crew: _Crew) -> Step:
    """All is done; whoever was about to join, or to leave, is not needed any more."""
    live = [pod for pod in crew.all if pod.live]
    if (leaving := to_delete(live)) is not None:
        return look.actions(leaving)
    if live:
        return fenced(look, live)
    return look.events(JobFinished(look.now, look.id, look.belief.epoch))


# --- what has to be on record first -----------------------------------------------------------


def _record_order(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """A resize that the brain has ordered and nobody has written down."""
    if (order := _new_order(look, job)) is None:
        return None
    if why := _not_to_be(look, job, crew, order):
        return not_begun(look, job, crew.seats, order, why)
    if asked_first(look, grown_onto(look, crew.seats)) is not None:
        return None  # what else is to be done about the job is done meanwhile
    if changes_plan(look, job, order):
        note = replace(look.note, ordered_since=None)
        return Step(actions=(record_order(job, crew.seats, order),), note=note)
    added = order.target.numbers - crew.seats.numbers
    joining = added | (job.joining & order.target.numbers)
    why = f"from {crew.seats.width} to {order.target.width} GPUs"
    return look.actions(RecordSeats(order.target, order.serial, joining, cause="Resizing", why=why))


def _new_order(look: Look, job: ObservedJob) -> Resizing | None:
    """One that is not on record yet."""
    order = look.belief.resizing
    return None if order is None or job.serial >= order.serial else order


def _not_to_be(look: Look, job: ObservedJob, crew: _Crew, order: Resizing) -> str:
    """Why an order is not even begun: by its nodes, or by seats that have been left since."""
    if unfit := unfit_among(look, grown_onto(look, crew.seats)):
        return unfit
    left = [n for n in order.target.numbers - crew.seats.numbers if n < job.next_seat]
    return f"{pod_name(job.name, job.epoch, min(left))}: left meanwhile" if left else ""


def _give_up_joiners(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """New workers that cannot come are called off, all of them: the job stays as it was."""
    if not job.joining:
        return None
    why = _refused_before(look, job) or _broken_joiner(crew) or _overdue(look, crew)
    return called_off(look, job, crew.seats, why) if why else None


def _refused_before(look: Look, job: ObservedJob) -> str:
    refusal = look.note.refusal
    if refusal is None or refusal[:2] != (look.belief.epoch, job.serial):
        return ""
    return refusal[2]


def _broken_joiner(crew: _Crew) -> str:
    for pod in crew.joiners.values():
        if pod.failed:
            ended = pod.reason or f"ended with exit code {pod.exit_code}"
            return f"{pod.name}: {ended}"
        if pod.deleting:
            return f"{pod.name}: taken away"
    return ""


def _overdue(look: Look, crew: _Crew) -> str:
    """Why joiners that do not run yet are waited for no longer."""
    late = _late(crew)
    _, _, why = start_deadline(look, late)
    since = look.note.joining_since
    if why or not late or since is None or look.now < since + look.rules.join_seconds:
        return why
    return f"{late[0].name}: not started within {look.rules.join_seconds:.0f} s"


def _late(crew: _Crew) -> list[ObservedPod]:
    return [pod for pod in crew.joiners.values() if not (pod.running or pod.succeeded)]


def _lose(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """What follows from workers that were taken away; None while all is well."""
    steady = crew.seats.numbers - job.joining
    gone = {number for number in steady if number not in crew.settled}
    gone |= {number for number, pod in crew.settled.items() if pod.failed}
    fading = {number for number, pod in crew.settled.items() if pod.deleting}
    if not gone | fading:
        return None
    left = crew.seats.only(steady - gone - fading)
    if not look.belief.live or not _is_enough(job, left):
        return _worker_lost(look, crew, gone | fading)
    if not gone:
        return None  # they leave at the end of a step, and then they are gone
    if job.headship.seat in gone:
        return look.waiting(_led_by(look))
    state = State.RESIZING if look.belief.resizing or job.joining else State.RUNNING
    # a plan that was ordered for more seats than are left is called off, with who joins for it
    joining = job.joining if job.order is None else frozenset[int]()
    kept = crew.seats.only((crew.seats.numbers - gone - job.joining) | joining)
    why = f"{_named(look, crew, gone)} left; {left.width} GPUs train on"
    return look.actions(RecordSeats(kept, job.serial, joining, state, "Shrunk", why))


def _is_enough(job: ObservedJob, left: Placement) -> bool:
    least = None if job.spec is None else job.spec.resources.width.least
    return bool(left.seats) and least is not None and left.width >= least


def _worker_lost(look: Look, crew: _Crew, numbers: Collection[int]) -> Step:
    number = min(numbers)
    pod = crew.settled.get(number)
    (seat,) = crew.seats.only({number}).seats
    node = NodeId(pod.node) if pod is not None and pod.node else seat.node
    failure, found = failure_of(pod), loss_of(look, pod)
    return look.events(WorkerLost(look.now, look.id, look.belief.epoch, node, failure, found))


def _named(look: Look, crew: _Crew, numbers: Collection[int]) -> str:
    job = look.key.partition("/")[2]
    named = [
        f"{pod_name(job, look.belief.epoch, seat.number)} on {seat.node}"
        for seat in crew.seats.only(numbers).seats
    ]
    more = f" and {len(named) - MOST_NAMES} more" if len(named) > MOST_NAMES else ""
    return ", ".join(named[:MOST_NAMES]) + more


# --- what follows from the record -------------------------------------------------------------


def _converge(look: Look, job: ObservedJob, crew: _Crew) -> Step:
    """Let those go that the record does not name, let those come that it does, then tell."""
    if (leaving := to_delete(crew.leaving)) is not None:
        return look.actions(leaving)
    if missing := tuple(sorted(job.joining - crew.joiners.keys())):
        return look.actions(CreatePods(look.belief.epoch, crew.seats, missing, job.serial))
    if (waiting := _under_way(look, job, crew)) is not None:
        return waiting
    if crew.leaving:
        return fenced(look, crew.leaving)
    asking = _asking(look, job, crew)
    return _settle(look, job, crew.seats) if asking is None else asking


def _settle(look: Look, job: ObservedJob, seats: Placement) -> Step:
    """All are where they belong: that goes on record, and then to the brain."""
    if job.joining or job.state == "Resizing":
        return look.actions(RecordSeats(seats, job.serial, state=State.RUNNING))
    return _tell(look, job, seats)


def _under_way(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """Whoever is to join has to come first; then the head says whether it is under its new plan."""
    if late := _late(crew):
        return _wait_for(look, late)
    return None if job.order is None else await_answer(look, job, job.order, crew.seats)


def _asking(look: Look, job: ObservedJob, crew: _Crew) -> Step | None:
    """Nodes that it is to grow onto have not all said how they are."""
    if _new_order(look, job) is None:
        return None
    return asked_first(look, grown_onto(look, crew.seats))


def _wait_for(look: Look, joiners: list[ObservedPod]) -> Step:
    note, again, _ = start_deadline(look, joiners)
    since = look.now if note.joining_since is None else note.joining_since
    until = since + look.rules.join_seconds
    return Step(note=replace(note, joining_since=since), look_at=min(again or until, until))


def _tell(look: Look, job: ObservedJob, seats: Placement) -> Step:
    """The brain hears what has become of its order, or what it has to let go."""
    order = look.belief.resizing
    if order is None:
        lacks = look.belief.seats - seats.numbers
        news = lacks or computes_otherwise(look, job)
        return look.events(_seen(look, job, placement=seats)) if news else look.waiting()
    if seats.numbers == order.target.numbers and is_as_ordered(look, job, order):
        done = InstructionDone(
            look.now,
            look.id,
            look.belief.epoch,
            Verb.RESIZE,
            serial=order.serial,
            paused_seconds=_paused_seconds(look, order.serial),
        )
        return Step(events=(done,))
    if seats.numbers == order.before:
        known = _refused_before(look, job)
        refused = InstructionRefused(
            look.now,
            look.id,
            look.belief.epoch,
            Verb.RESIZE,
            known or "its workers could not be changed",
            serial=order.serial,
            untried=bool(known) and look.note.untried,
        )
        return Step(events=(refused,))
    return Step(events=(_seen(look, job, placement=seats),))


def _paused_seconds(look: Look, serial: int) -> float | None:
    """For the change of the plan, where it was one."""
    answer = look.said_answer
    if answer is not None and answer.serial == serial:
        return answer.paused_seconds
    return look.said_paused_seconds


def _seen(
    look: Look, job: ObservedJob, *, placement: Placement | None, live: bool | None = None
) -> JobReported:
    return JobReported(
        look.now,
        look.id,
        look.belief.epoch,
        Phase.RUNNING,
        look.belief.work_done,
        placement,
        serial=job.serial,
        next_seat=job.next_seat,
        live=live,
        plan=plan_of(job) if look.said_plans and placement is not None else None,
    )
