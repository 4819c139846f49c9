"""Weave with plans: its own order and sizes, and the best plan on what each job gets."""

from dataclasses import replace

from tests.brain.test_replan import a_model
from tests.brain.test_switching import EVERY, offer
from tests.builders import Scene, a_cluster, a_job, given
from tests.perf.plans.shapes import LLAMA7
from weft.brain.considered import considered
from weft.brain.instruction import Resize, Start
from weft.model.capability import EVERYTHING, Capability
from weft.model.claim import ClaimSource
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.perf.plans.laws import breaches
from weft.policy.recipes import RECIPES


def scene(*, plans: bool = True) -> Scene:
    recipe = RECIPES["weave"](plans=plans, hold=0.0, spacing=0.0, min_run=0.0)
    return given(a_cluster(nodes=2, gpus=8)).with_recipe(recipe)


def a_claim(name: str, gpus: int = 4, *, source: ClaimSource = ClaimSource.USER) -> Job:
    job = a_model(name, gpus, width=(1, 8))
    assert job.request.splits is not None
    splits = replace(job.request.splits, source=source)
    return Job(replace(job.request, splits=splits), job.truth)


def test_the_plan_fills_what_weave_gives() -> None:
    start = scene().submit(a_claim("job")).decide().last(Start).assignment
    assert start.plan != AS_WRITTEN
    assert start.plan.fits_width(start.width)


def test_without_plans_it_measures_as_ever() -> None:
    """What a person says of a model is of no use to who does not choose plans."""
    world = scene(plans=False).submit(a_claim("job")).decide()
    assert world.last(Start).assignment.plan == AS_WRITTEN
    assert world.brain.state.spec(0).splits is None
    recorded = scene(plans=False).submit(a_claim("job", source=ClaimSource.TRACE)).decide()
    assert recorded.brain.state.spec(0).splits is not None


def test_others_are_as_ever() -> None:
    start = scene().submit(a_job("plain", 4)).decide().last(Start).assignment
    assert (start.width, start.plan) == (4, AS_WRITTEN)


def test_a_width_that_no_plan_fills_is_not_taken() -> None:
    """A batch of 16 does not divide by what is left of the nodes."""
    world = scene().submit(a_job("left", 3), a_job("right", 8)).decide()
    start = world.submit(a_claim("job", 8)).decide().last(Start, "job").assignment
    assert start.width <= 5
    assert start.plan.fits_width(start.width)


def test_no_job_is_given_fewer_gpus_than_any_plan_fits() -> None:
    """Seven billion parameters, their gradients and moments are more than one GPU holds."""
    offers = EVERYTHING - {Capability.OFFLOAD}
    job = a_model("job", 16, LLAMA7, plan=ExecutionPlan(tensor=8, data=2), offers=offers)
    world = scene().submit(a_job("other", 15, seconds=1e6)).decide().submit(job).wait(1_000.0)
    world.finish("other").wait(1_000.0)
    state = world.brain.state
    slot = state.slot_of[JobId("job")]
    found = state.plan_book.options(slot, state.spec(slot))
    assert found is not None
    for start in world.all(Start, "job"):
        given_ = start.assignment
        assert given_.width > 1
        assert not breaches(given_.plan, given_.width, found.bounds)


def test_a_plan_that_cannot_follow_keeps_its_width() -> None:
    world = scene().submit(a_job("other", 15, seconds=1e6)).decide().submit(a_claim("job"))
    world.decide().live("job").wait(10_000.0).finish("other").wait(10_000.0)
    assert not world.all(Resize, "job")


def test_one_that_can_follows_its_width() -> None:
    world = scene().submit(a_job("other", 15, seconds=1e6)).decide().submit(a_claim("job"))
    offer(world.decide().wait(10_000.0), *EVERY).finish("other").wait(10_000.0)
    wider = world.last(Resize, "job").assignment
    assert wider.width > 1
    assert wider.plan.fits_width(wider.width)
    assert wider.plan not in (AS_WRITTEN, ExecutionPlan(data=1))


def test_why_its_plan() -> None:
    world = scene().submit(a_claim("job")).decide()
    found = considered(world.brain, JobId("job"))
    assert found is not None and found.chosen is not None
    assert "on the GPUs that it was given" in found.chosen.why
    assert found.rejected
