"""A job that goes to another plan while it trains: what is recorded, told, and waited for.

The order is put on record beside the seats that the job has, those that it is to have among them.
Its head reads it there with the operator's word on who leads, waits for pods that are to come, and
says what came of it. Only then are the seats given back that the job is to leave: workers of the
plan before need all of theirs. If the plan is not reached, the record is as it was, without those
who came for it. So whoever comes after a crash finds an order, and waits for the same answer.
"""

from dataclasses import replace

from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.recorded_decision import PlanOrder
from weft.kube.operator.reconcile.step import Look, Note, RecordSeats, Step
from weft.kube.operator.status.progress import Told
from weft.kube.reports.payload import OrderAnswer
from weft.kube.reports.server import ToldOrder
from weft.model.capability import Capability
from weft.model.placement import Placement
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.state import State
from weft.reconcile.belief import Resizing
from weft.reconcile.plans import told

REPLICATED = "replicated"


def follows(job: ObservedJob) -> bool:
    """Whether its plan may be changed while it trains, if its program offers others.

    Not that of one that has commands by plan, which is started anew for another; nor of one whose
    pods share no folder, by which they could hand on the state.
    """
    spec = job.spec
    if spec is None or spec.model is None or spec.plans is not None:
        return False
    return spec.checkpoint is not None and spec.checkpoint.path is not None


def offered(job: ObservedJob, said: tuple[Capability, ...]) -> tuple[Capability, ...]:
    """What of it is for the scheduler to choose from while it trains."""
    return said if follows(job) else ()


def has_offered(job: ObservedJob | None, epoch: int, told: Told | None) -> bool:
    """Whether its head has told, to this operator or to one before, what its program offers."""
    on_record = job is not None and job.epoch == epoch and bool(job.offers)
    return on_record or (told is not None and told.epoch == epoch and bool(told.offers))


def changes_plan(look: Look, job: ObservedJob, order: Resizing) -> bool:
    """Whether its head is to be told, and not only its pods: it follows orders, and this is one."""
    return look.said_plans and (order.plan != plan_of(job) or job.order is not None)


def record_order(job: ObservedJob, seats: Placement, order: Resizing) -> RecordSeats:
    """Both what it has and what it is to have; whoever was to join for an older order is not."""
    kept = seats.only(seats.numbers - (job.joining - order.target.numbers))
    both = kept.joined_with(order.target)
    joining = both.numbers - (seats.numbers - job.joining)
    wanted = PlanOrder(order.plan, both.numbers - order.target.numbers)
    why = _why(job, seats.only(seats.numbers - job.joining).width, order)
    return RecordSeats(both, order.serial, joining, cause="Resizing", why=why, plan=wanted)


def ordered(job: ObservedJob) -> ToldOrder | None:
    """What the head is told: nothing where no order is on record."""
    if job.order is None or job.placement is None:
        return None
    leaving = job.order.leaving
    width = job.placement.only(job.placement.numbers - leaving).width
    plan = told(job.order.plan, width) or REPLICATED
    return ToldOrder(job.serial, plan, width, tuple(sorted(leaving)))


def await_answer(look: Look, job: ObservedJob, order: PlanOrder, seats: Placement) -> Step:
    """Until the head has said what came of it, or has had time enough."""
    answer = look.said_answer
    if answer is not None and answer.serial == job.serial:
        return _settled(look, job, order, seats, answer)
    since = look.now if look.note.ordered_since is None else look.note.ordered_since
    until = since + look.rules.plan_seconds
    if look.now >= until:
        why = f"its head has not said within {look.rules.plan_seconds:.0f} s what came of it"
        return _settled(look, job, order, seats, OrderAnswer(job.serial, reached=False, why=why))
    return Step(note=replace(look.note, ordered_since=since), look_at=until)


def called_off(look: Look, job: ObservedJob, seats: Placement, why: str) -> Step:
    """The record as it was, without those who were to join."""
    return _not_resized(look, job, seats, Note(refusal=(look.belief.epoch, job.serial, why)))


def not_begun(look: Look, job: ObservedJob, seats: Placement, order: Resizing, why: str) -> Step:
    """The same of an order that is not on record: it is, and that nothing came of it."""
    note = Note(refusal=(look.belief.epoch, order.serial, why), untried=True)
    return _not_resized(look, job, seats, note)


def _not_resized(look: Look, job: ObservedJob, seats: Placement, note: Note) -> Step:
    assert note.refusal is not None
    _, serial, why = note.refusal
    left = seats.only(seats.numbers - job.joining)
    return Step(actions=(RecordSeats(left, serial, cause="NotResized", why=why),), note=note)


def _settled(
    look: Look, job: ObservedJob, order: PlanOrder, seats: Placement, answer: OrderAnswer
) -> Step:
    if not answer.reached:
        return called_off(look, job, seats, answer.why or "its workers did not come to a step")
    left = seats.only(seats.numbers - order.leaving)
    state = State.RESIZING if order.leaving else State.RUNNING
    return look.actions(RecordSeats(left, job.serial, state=state, plan=order.plan))


def is_as_ordered(look: Look, job: ObservedJob, order: Resizing) -> bool:
    """Whether it computes so; of one whose head follows no orders nobody can say otherwise."""
    return not look.said_plans or order.plan == plan_of(job)


def computes_otherwise(look: Look, job: ObservedJob) -> bool:
    """Whether another plan is on record than is believed: an earlier operator has ordered it."""
    assignment = look.belief.assignment
    return look.said_plans and assignment is not None and assignment.plan != plan_of(job)


def plan_of(job: ObservedJob) -> ExecutionPlan:
    return job.plan or AS_WRITTEN


def _why(job: ObservedJob, width: int, order: Resizing) -> str:
    """What changes of width and plan: one of them may stay as it is."""
    before, after = _name(job.plan, width), _name(order.plan, order.target.width)
    plans = [f"from {before} to {after}"] if before != after else []
    if width == order.target.width and plans:
        return f"{plans[0]} on {width} GPUs"
    return ", ".join([f"from {width} to {order.target.width} GPUs", *plans])


def _name(plan: ExecutionPlan | None, width: int) -> str:
    return told(plan or AS_WRITTEN, width) or REPLICATED
