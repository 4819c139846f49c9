"""A job that is ordered to another plan while it trains: no cluster, no clock."""

from typing import Any

import pytest

from tests.kube.looks import NOW, believed, seats, step
from tests.kube.operator.reconcile.test_running import ELASTIC, VIT, on_record, pods
from tests.kube.operator.small_world import merged
from weft.brain.event import InstructionDone, InstructionRefused, JobReported, PlansOffered, Verb
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.recorded_decision import PlanOrder
from weft.kube.operator.reconcile.replanning import offered, ordered
from weft.kube.operator.reconcile.step import CreatePods, DeletePods, Note, RecordSeats, Rules, Step
from weft.kube.operator.status.patches import Standing, seats_patch
from weft.kube.reports.payload import OrderAnswer
from weft.kube.reports.server import ToldOrder
from weft.model.capability import Capability
from weft.model.decision import Assignment
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.state import State
from weft.reconcile.belief import Belief, Resizing

ONE, SPLIT = ExecutionPlan(data=1), ExecutionPlan(data=1, tensor=2)
MODEL = {"parameters": 10**9, "layers": 2, "hidden": 512, "sequence": 128, "batch": 8}
KEPT = {"checkpoint": {"path": "/ckpt"}}
OFFERS = (Capability.DATA, Capability.TENSOR)


def wants(before: set[int], target: set[int], plan: ExecutionPlan, held: ExecutionPlan) -> Belief:
    """The brain has ordered it, and holds both what the job had and what it is to get."""
    order = Resizing(1, frozenset(before), seats(*sorted(target)), plan)
    both = seats(*sorted(before | target))
    belief = believed(State.RESIZING, placement=both, live=True, resizing=order)
    return Belief(**{**_fields(belief), "assignment": Assignment(both.width, both, held)})


def _fields(belief: Belief) -> dict[str, Any]:
    return {name: getattr(belief, name) for name in Belief.__slots__}


def recorded(job: ObservedJob, action: RecordSeats) -> ObservedJob:
    """The job as it is on record after it."""
    patch = seats_patch(
        job,
        Standing(action.state),
        action.placement,
        serial=action.serial,
        joining=action.joining,
        now=NOW,
        plan=action.plan,
    )
    decision = merged(job.status["decision"], patch["status"]["decision"])
    state = "Resizing" if action.state is State.RESIZING else "Running"
    return on_record(action.placement, state=state, status={"decision": decision})


def begun(*numbers: int, plan: ExecutionPlan = ONE) -> ObservedJob:
    found = on_record(seats(*numbers))
    return recorded(found, RecordSeats(seats(*numbers), 0, state=State.RUNNING, plan=plan))


def after(job: ObservedJob, found: Step) -> ObservedJob:
    (action,) = found.actions
    assert isinstance(action, RecordSeats)
    return recorded(job, action)


WIDER = wants({0}, {0, 1}, SPLIT, ONE)
NARROWER = wants({0, 1}, {0}, ONE, SPLIT)
SAID = {"said_plans": True, "said_live": True}


def test_an_order_is_recorded_with_both_sides_and_told_before_a_pod_is_made() -> None:
    job = begun(0)
    found = step(job, *pods(0), belief=WIDER, **SAID)
    (action,) = found.actions
    why = "from 1 to 2 GPUs, from replicated to tensor=2"
    order = PlanOrder(SPLIT)
    assert action == RecordSeats(
        seats(0, 1), 1, frozenset({1}), cause="Resizing", why=why, plan=order
    )
    job = after(job, found)
    assert (job.plan, job.order, job.serial) == (ONE, order, 1)
    assert ordered(job) == ToldOrder(1, "tensor=2", 2)
    assert step(job, *pods(0), belief=WIDER, **SAID).actions == (
        CreatePods(1, seats(0, 1), (1,), serial=1),
    )


def test_it_is_done_when_its_head_says_so() -> None:
    job = after(begun(0), step(begun(0), *pods(0), belief=WIDER, **SAID))
    waits = step(job, *pods(0, 1), belief=WIDER, **SAID)
    assert waits.idle and waits.look_at == NOW + Rules().plan_seconds
    of_before = {"said_answer": OrderAnswer(0, reached=True)}
    assert step(job, *pods(0, 1), belief=WIDER, **SAID, **of_before).idle
    said = {**SAID, "said_answer": OrderAnswer(1, reached=True, paused_seconds=0.4)}
    found = step(job, *pods(0, 1), belief=WIDER, **said)
    job = after(job, found)
    assert (job.plan, job.order, job.state, job.joining) == (SPLIT, None, "Running", frozenset())
    (done,) = step(job, *pods(0, 1), belief=WIDER, **said).events
    assert done == InstructionDone(NOW, VIT, 1, Verb.RESIZE, serial=1, paused_seconds=0.4)
    assert ordered(job) is None


def test_a_plan_that_is_not_reached_is_refused_and_who_came_for_it_leaves() -> None:
    job = after(begun(0), step(begun(0), *pods(0), belief=WIDER, **SAID))
    said = {**SAID, "said_answer": OrderAnswer(1, reached=False, why="out of memory")}
    found = step(job, *pods(0, 1), belief=WIDER, **said)
    job, note = after(job, found), found.note
    assert (job.plan, job.order) == (ONE, None)
    assert step(job, *pods(0, 1), belief=WIDER, note=note, **said).actions == (DeletePods(pods(1)),)
    job = after(job, step(job, *pods(0), belief=WIDER, note=note, **said))
    (refused,) = step(job, *pods(0), belief=WIDER, note=note, **said).events
    assert refused == InstructionRefused(NOW, VIT, 1, Verb.RESIZE, "out of memory", serial=1)


def test_seats_are_left_only_when_the_plan_without_them_is_reached() -> None:
    job = begun(0, 1, plan=SPLIT)
    job = after(job, step(job, *pods(0, 1), belief=NARROWER, **SAID))
    assert ordered(job) == ToldOrder(1, "replicated", 1, (1,))
    assert step(job, *pods(0, 1), belief=NARROWER, **SAID).idle
    said = {**SAID, "said_answer": OrderAnswer(1, reached=True)}
    job = after(job, step(job, *pods(0, 1), belief=NARROWER, **said))
    assert (job.plan, job.state) == (ONE, "Resizing")
    assert step(job, *pods(0, 1), belief=NARROWER, **said).actions == (DeletePods(pods(1)),)


def test_on_the_same_seats_the_plan_alone_tells_whether_it_is_done() -> None:
    shards = ExecutionPlan(data=2, sharding=Sharding.PARAMETERS)
    belief = wants({0, 1}, {0, 1}, shards, SPLIT)
    job = begun(0, 1, plan=SPLIT)
    job = after(job, step(job, *pods(0, 1), belief=belief, **SAID))
    assert ordered(job) == ToldOrder(1, "shard=2", 2)
    said = {**SAID, "said_answer": OrderAnswer(1, reached=False, why="no step")}
    found = step(job, *pods(0, 1), belief=belief, **said)
    job, note = after(job, found), found.note
    job = after(job, step(job, *pods(0, 1), belief=belief, note=note, **said))
    (event,) = step(job, *pods(0, 1), belief=belief, note=note, **said).events
    assert isinstance(event, InstructionRefused)


def test_a_head_that_never_answers_is_given_up() -> None:
    job = after(begun(0), step(begun(0), *pods(0), belief=WIDER, **SAID))
    note = Note(ordered_since=NOW - Rules().plan_seconds)
    found = step(job, *pods(0, 1), belief=WIDER, note=note, **SAID)
    assert after(job, found).order is None
    assert found.note.refusal is not None and "has not said" in found.note.refusal[2]


def test_a_worker_that_is_lost_meanwhile_calls_it_off() -> None:
    job = begun(0, 1, plan=ExecutionPlan(data=2))
    belief = wants({0, 1}, {0, 1, 2, 3}, ExecutionPlan(data=2, tensor=2), ExecutionPlan(data=2))
    job = after(job, step(job, *pods(0, 1), belief=belief, **SAID))
    found = step(
        job,
        *pods(0),
        *pods(1, phase="Failed", reason="NodeLost"),
        *pods(2, 3),
        belief=belief,
        **SAID,
    )
    (action,) = found.actions
    assert isinstance(action, RecordSeats)
    assert (action.placement.numbers, action.joining, action.plan) == (
        frozenset({0}),
        frozenset(),
        None,
    )


def test_what_an_earlier_operator_ordered_is_learnt_when_it_is_reached() -> None:
    job = begun(0, 1, plan=SPLIT)
    belief = believed(State.RUNNING, placement=seats(0, 1), live=True)
    (seen,) = step(job, *pods(0, 1), belief=belief, **SAID).events
    assert isinstance(seen, JobReported)
    assert (seen.plan, seen.placement) == (SPLIT, seats(0, 1))


def test_a_head_that_follows_no_orders_is_resized_by_its_pods() -> None:
    job = begun(0)
    (action,) = step(job, *pods(0), belief=WIDER, said_live=True).actions
    assert isinstance(action, RecordSeats)
    assert (action.placement, action.plan) == (seats(0, 1), None)


@pytest.mark.parametrize(
    ("spec", "heard"),
    [
        ({"model": MODEL, **KEPT}, OFFERS),
        ({"model": MODEL}, ()),
        ({"model": MODEL, "checkpoint": {"every": "5m"}}, ()),
        (KEPT, ()),
        ({"model": MODEL, **KEPT, "plans": {"tensor": "train {tensor}"}}, ()),
    ],
)
def test_only_what_can_be_handed_on_is_offered(
    spec: dict[str, Any], heard: tuple[Capability, ...]
) -> None:
    decision = {"offers": [*OFFERS, "sideways"]}
    job = on_record(seats(0), spec=ELASTIC | spec)
    job = on_record(
        seats(0), spec=ELASTIC | spec, status={"decision": job.status["decision"] | decision}
    )
    assert job.offers == OFFERS
    assert offered(job, job.offers) == heard
    events = step(job, *pods(0)).events
    told = [one.offers for one in events if isinstance(one, PlansOffered)]
    assert told == ([heard] if heard else [])


def test_an_order_to_the_jobs_own_command_is_one_to_replicas() -> None:
    job = begun(0, 1, plan=SPLIT)
    belief = wants({0, 1}, {0, 1}, AS_WRITTEN, SPLIT)
    job = after(job, step(job, *pods(0, 1), belief=belief, **SAID))
    assert ordered(job) == ToldOrder(1, "replicated", 2)
    said = {**SAID, "said_answer": OrderAnswer(1, reached=True)}
    job = after(job, step(job, *pods(0, 1), belief=belief, **said))
    assert job.plan == AS_WRITTEN
