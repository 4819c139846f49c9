"""Jobs are placed at widths at which they run: by their plan, their curve, or what they taught."""

from dataclasses import replace

import pytest

from tests.brain.test_replan import a_model
from tests.builders import Scene, a_cluster, a_job, given
from tests.perf.plans.shapes import LLAMA7
from weft.brain.instruction import Resize, Start
from weft.brain.invariants import Breach, check
from weft.failure.evidence import Failure, FailureClass
from weft.model.capability import Capability
from weft.model.claim import ClaimSource, CurveClaim
from weft.model.curve import Curve
from weft.model.decision import Decision, Grant
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.plan import ExecutionPlan
from weft.model.state import State
from weft.policy.recipes import RECIPES

REPLICAS_OF_FOUR = Curve(tuple((gpus, 0.0 if gpus % 4 else float(gpus)) for gpus in range(1, 13)))
OUT_OF_MEMORY = Failure(FailureClass.GPU_MEMORY, "CUDA out of memory")
ELASTIC = ["weave", "afs-l", "even", "maxmin", "optimus", "aiturbo"]


def scene(policy: str = "weave", gpus: int = 16, nodes: int = 1) -> Scene:
    recipe = RECIPES[policy](hold=0.0, spacing=0.0)
    return given(a_cluster(nodes=nodes, gpus=gpus)).with_recipe(recipe)


def in_fours(name: str = "job", asked: int = 4) -> Job:
    """A job whose replicas have four GPUs, though its range begins with one."""
    job = a_job(name, asked, width=(1, 12))
    curve = CurveClaim(REPLICAS_OF_FOUR, ClaimSource.TRACE)
    return Job(replace(job.request, curve=curve), replace(job.truth, curve=REPLICAS_OF_FOUR))


def a_recorded_model(name: str, plan: ExecutionPlan, gpus: int) -> Job:
    """A job of seven billion parameters whose shape and plan are on record."""
    offers = frozenset({Capability.DATA, Capability.TENSOR})
    job = a_model(name, gpus, LLAMA7, plan=plan, offers=offers)
    assert job.request.splits is not None
    splits = replace(job.request.splits, source=ClaimSource.TRACE)
    return Job(replace(job.request, splits=splits), job.truth)


def width(world: Scene, job: str = "job") -> int:
    return int(world.brain.state.jobs.width[world.brain.state.slot_of[JobId(job)]])


@pytest.mark.parametrize("policy", ELASTIC)
def test_a_job_never_gets_a_width_at_which_its_curve_is_zero(policy: str) -> None:
    """Seven GPUs are free, then eleven: it gets four, then eight."""
    world = scene(policy).submit(a_job("large", 5, seconds=1e6), a_job("small", 4, seconds=1e6))
    world.decide().submit(in_fours()).decide().live("job")
    assert width(world) == 4
    world.finish("small").wait(1000.0)
    assert width(world) == 8
    widths = {start.assignment.width for start in world.all(Start, "job")}
    widths |= {resize.assignment.width for resize in world.all(Resize, "job")}
    assert widths <= {4, 8, 12}


def test_a_job_shrinks_to_a_width_at_which_it_runs() -> None:
    world = scene("maxmin", gpus=12).submit(in_fours()).decide().live("job").wait(1000.0)
    assert width(world) == 12
    world.submit(a_job("other", 3, tenant="other", seconds=1e6)).wait(1000.0)
    assert width(world) in (4, 8)
    assert world.state("other") is State.RUNNING


def test_the_reason_for_waiting_names_the_fewest_gpus_on_which_it_runs() -> None:
    world = scene(gpus=8).submit(a_job("other", 6, seconds=1e6)).decide().submit(in_fours())
    assert world.decide().reasons("job")[0].numbers["need"] == 4


def test_a_submitted_plan_is_started_on_gpus_that_hold_it() -> None:
    plan = ExecutionPlan(data=2, tensor=8)
    job = a_recorded_model("job", plan, 16)
    assert job.request.width.min_gpus == 1
    world = scene(gpus=8, nodes=2).submit(a_job("other", 5, seconds=1e6)).decide()
    assert width(world.submit(job).decide()) == 8, "one replica of eight"


def test_a_job_that_runs_out_of_memory_on_few_gpus_gets_twice_as_many() -> None:
    world = scene().submit(a_job("other", 14, seconds=1e6)).decide()
    world.submit(a_job("job", 8, width=(1, 16), max_retries=0, tell_curve=False)).decide()
    assert width(world) == 2
    world.fail("job", failure=OUT_OF_MEMORY).finish("other").wait(1000.0)
    assert world.state("job") is State.RUNNING, "the scheduler chose the width: no retry is charged"
    slot = world.brain.state.slot_of[JobId("job")]
    assert width(world) >= 4 == int(world.brain.state.jobs.min_gpus[slot])


def test_a_job_that_runs_out_of_memory_as_asked_has_failed() -> None:
    world = scene().submit(a_job("job", 16, width=(1, 16), max_retries=0)).decide()
    assert width(world) == 16
    world.fail("job", failure=OUT_OF_MEMORY)
    assert world.brain.state.closed[JobId("job")].state is State.FAILED


def test_the_invariants_find_a_job_that_makes_no_progress() -> None:
    world = scene().submit(in_fours()).decide()
    state = world.brain.state
    assignment = state.seating.assignments[state.slot_of[JobId("job")]]
    assert assignment is not None
    idle = Decision(0.0, grants=(Grant(JobId("job"), replace(assignment, width=3)),))
    assert Breach("a job runs at its width", "job job is given 3 GPUs") in check(state, idle)
