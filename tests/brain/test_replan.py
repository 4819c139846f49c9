"""Plans chosen for jobs that claim a shape: what they are, when they change, and when not."""

import re
from dataclasses import replace
from typing import Any

import pytest

from tests.builders import Scene, a_cluster, a_job, a_node, given, seats
from tests.perf.plans.shapes import BERT, LLAMA7
from weft.brain.considered import considered
from weft.brain.event import JobMeasured, Past, PastRecalled, Phase
from weft.brain.instruction import Preempt, Start
from weft.brain.round.session import Session
from weft.brain.state.plan_book import units_per_second
from weft.model.capability import EVERYTHING, Capability
from weft.model.claim import PlanClaim
from weft.model.curve import Curve
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.request import WorkUnit
from weft.model.shape import ModelShape
from weft.model.snapshot import Bools, Ints
from weft.model.truth import Work
from weft.perf.plans.laws import breaches
from weft.policy.recipe import Recipe, Yielding
from weft.policy.recipes import RECIPES

TWO_NODES = a_cluster(nodes=2, gpus=8)
BATCH = 16
OVER_BUDGET = r"over the budget of changes: it costs \d+ GPU-seconds, \d+ are left"


def a_model(
    name: str,
    gpus: int,
    shape: ModelShape = BERT,
    *,
    width: tuple[int, int] = (1, 16),
    plan: ExecutionPlan | None = None,
    offers: frozenset[Capability] = EVERYTHING,
    **fields: Any,
) -> Job:
    """A job that claims this shape; what it has to do is nobody's knowledge."""
    splits = PlanClaim(shape, BATCH, tuple(sorted(offers)))
    job = a_job(name, gpus, width=width, splits=splits, **fields)
    listed = (plan or ExecutionPlan(data=gpus),)
    request = replace(job.request, plans=listed, unit=WorkUnit.SAMPLES, work=None, curve=None)
    truth = replace(job.truth, work=Work(1e6, WorkUnit.SAMPLES), curve=Curve(((1, 1.0),)))
    return Job(request, truth)


def by(name: str = "rubick", **parts: object) -> Recipe:
    recipe = RECIPES[name](spacing=0.0)
    assert recipe.planning is not None
    return replace(recipe, planning=replace(recipe.planning, **parts))  # type: ignore[arg-type]


def scene(recipe: Recipe | None = None) -> Scene:
    return given(TWO_NODES).with_recipe(recipe or by())


def test_a_job_without_a_shape_computes_as_written() -> None:
    start = scene().submit(a_job("job", 4)).decide().last(Start)
    assert (start.assignment.width, start.assignment.plan) == (4, AS_WRITTEN)


def test_a_plan_fills_the_width_and_keeps_the_batch() -> None:
    world = scene().submit(a_model("job", 4))
    given_ = world.decide().last(Start).assignment
    state = world.brain.state
    found = state.plan_book.options(state.slot_of[JobId("job")], state.spec(0))
    assert found is not None
    assert not breaches(given_.plan, given_.width, found.bounds)
    assert given_.plan != AS_WRITTEN


def test_a_model_that_does_not_fit_is_split() -> None:
    """Seven billion parameters with their moments do not fit a GPU as they are."""
    offers = EVERYTHING - {Capability.OFFLOAD}
    job = a_model("job", 16, LLAMA7, plan=ExecutionPlan(tensor=8, data=2), offers=offers)
    given_ = scene().submit(job).decide().last(Start).assignment
    assert given_.plan.gpus_per_replica > 1 or given_.plan.sharding is Sharding.PARAMETERS
    assert given_.width > 1


def test_only_what_the_program_offers_is_chosen() -> None:
    job = a_model("job", 4, offers=frozenset({Capability.DATA}))
    plan = scene().submit(job).decide().last(Start).assignment.plan
    assert replace(plan, data=0) == AS_WRITTEN


def test_only_listed_plans_are_chosen() -> None:
    listed = (ExecutionPlan(data=4), ExecutionPlan(tensor=2, data=2), ExecutionPlan(data=2))
    job = a_model("job", 4)
    job = Job(replace(job.request, plans=listed), job.truth)
    assert scene().submit(job).decide().last(Start).assignment.plan in listed


@pytest.mark.parametrize(("name", "width"), [("rubick-r", None), ("rubick-p", 4)])
def test_ablations_choose_one_of_two(name: str, width: int | None) -> None:
    start = scene(by(name)).submit(a_model("job", 4)).decide().last(Start).assignment
    if width is not None:
        assert start.width == width
    else:
        assert replace(start.plan, data=0) == AS_WRITTEN


def test_one_that_is_guaranteed_is_not_given_less() -> None:
    world = scene().submit(a_model("job", 8, guaranteed=True))
    start = world.decide().last(Start).assignment
    state = world.brain.state
    found, spec = state.plan_book.options(0, state.spec(0)), state.spec(0)
    assert found is not None
    promised = units_per_second(spec, found, found.as_asked().seconds)
    assert state.speed_on(0, start.placement) >= promised


def test_it_changes_once_that_is_worth_a_restart() -> None:
    """Of unknown length it is expected to go on for as long again, and the others have gone."""
    world = scene(by(own_budget=1.0, budget=10.0))
    world.submit(a_model("job", 4), a_job("other", 14, seconds=1e6)).decide()
    narrow = world.last(Start, job="job").assignment.width
    world.wait(50_000.0).finish("other").decide()
    wide = world.last(Start, job="job").assignment
    assert wide.width > narrow
    assert wide.plan.fits_width(wide.width)


def test_one_that_stays_far_off_keeps_its_plan() -> None:
    world = scene(by(own_budget=1.0, budget=10.0))
    world.submit(a_model("job", 4), a_job("other", 14, seconds=1e6)).decide()
    state = world.brain.state
    speed = state.speed_on(0, state.placement(0))
    for number in range(1, 5):
        world.wait(100.0)
        told = JobMeasured(world.now, JobId("job"), 1, 2, 1, speed / 2**number, 90.0, 10.0 * number)
        world.send(told)
    assert state.plan_book.entry(0).watch.held
    world.wait(50_000.0).finish("other").wait(1000.0)
    assert not world.all(Preempt)


def test_what_is_measured_moves_what_is_believed() -> None:
    world = scene().submit(a_model("job", 4)).decide()
    state = world.brain.state
    placement = state.placement(0)
    before = state.speed_on(0, placement)
    told = JobMeasured(world.now, JobId("job"), 1, placement.width, 1, before * 0.9, 1e4, 10.0)
    world.send(told)
    assert state.speed_on(0, placement) == pytest.approx(before * 0.9, rel=0.03)


def test_offload_takes_cores_where_they_help() -> None:
    """On one GPU only offload fits, and its optimizer runs on the cores beside it."""
    offers = frozenset({Capability.OFFLOAD, Capability.RECOMPUTE, Capability.ACCUMULATION})
    job = a_model(
        "job",
        1,
        LLAMA7,
        width=(1, 1),
        plan=ExecutionPlan(offload=True, recompute=True),
        offers=offers,
        cpus_per_gpu=2.0,
        tell_host=False,
    )
    world = given(a_cluster(a_node("n0", cpus=96.0, memory_gib=1600.0))).with_recipe(by())
    start = world.submit(job).decide().last(Start).assignment
    assert start.plan.offload
    assert start.placement.seats[0].cpus > 2.0


def test_a_node_too_broken_up_is_waited_for_and_then_taken() -> None:
    """Half a node on each of two: tensor ranks would talk over the network."""
    world = scene(by("rubick-p"))
    world.submit(a_job("left", 4), a_job("right", 8, seconds=1e6)).decide()
    world.submit(a_model("job", 4, width=(4, 4))).decide()
    assert world.last(Start, job="job").assignment.width == 4


def test_who_waits_is_not_asked_whether_it_could_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be ten thousand of them in a round."""
    asked: set[int] = set()
    may_go = Session.may_go

    def noted(session: Session, slots: Ints, yielding: Yielding) -> Bools:
        asked.update(slots.tolist())
        return may_go(session, slots, yielding)

    monkeypatch.setattr(Session, "may_go", noted)
    world = scene().submit(a_job("runs", 16, seconds=1e6)).decide()
    world.submit(*(a_model(f"waits-{n}", 16, width=(16, 16)) for n in range(3))).decide()
    assert asked == {world.brain.state.slot_of[JobId("runs")]}


def begun_anew(past: Past, *recalled: PastRecalled) -> Scene:
    """A brain that has just begun finds a model on 4 of 16 GPUs, which has run for long."""
    world = scene(by("rubick", own_budget=1.0))
    for event in recalled:
        world.send(replace(event, at=world.now))
    world.submit(a_model("job", 4))
    placement, plan = seats(n0=4), ExecutionPlan(data=4)
    world.report("job", Phase.RUNNING, done=1e6, epoch=1, placement=placement, plan=plan, past=past)
    return world.decide()


def test_what_jobs_have_had_before_a_brain_began_pays_for_restarts() -> None:
    """It decides as the one before it would have, and does not wait until all is served again."""
    assert begun_anew(Past(attained_gpu_seconds=1e6)).all(Preempt, "job")
    poor = begun_anew(Past())
    assert not poor.all(Preempt, "job")
    told = considered(poor.brain, JobId("job"))
    assert told is not None
    reasons = [one.why for one in told.rejected]
    assert any(re.fullmatch(OVER_BUDGET, why) for why in reasons), reasons


def test_what_jobs_had_that_are_over_pays_too_less_their_own_restarts() -> None:
    rich = PastRecalled(0.0, served_gpu_seconds=1e6)
    assert begun_anew(Past(), rich).all(Preempt, "job")
    spent = replace(rich, restarted_gpus=int(1e6 * 0.01 / 30.0) + 1)
    assert not begun_anew(Past(), spent).all(Preempt, "job")
    huge = begun_anew(Past(), replace(rich, restarted_gpus=10**9))
    assert not huge.all(Preempt, "job"), "a long history is no reason to refuse it"


def test_a_brain_that_has_seen_a_job_end_knows_better() -> None:
    world = scene().submit(a_job("over", 4)).decide().wait(100.0).finish("over")
    book = world.brain.state.plan_book
    before = book.served_gpu_seconds
    world.send(PastRecalled(world.now, 1e6, 5))
    assert (book.served_gpu_seconds, book.paid_gpu_seconds) == (before, 0.0)


def test_a_recipe_that_chooses_no_plans_has_no_use_for_it() -> None:
    world = given(TWO_NODES).with_recipe(RECIPES["fifo"]())
    world.send(PastRecalled(world.now, 1e6, 5))
    assert world.brain.state.plan_book.served_gpu_seconds == 0.0


def test_restarts_before_a_brain_began_are_not_forgotten() -> None:
    served = Past(attained_gpu_seconds=1e6, preemptions=3)
    assert not begun_anew(served).all(Preempt, "job"), "three are enough for a job"
    book = begun_anew(Past(attained_gpu_seconds=1e6, preemptions=1)).brain.state.plan_book
    assert book.paid_gpu_seconds >= 4 * 30.0
