"""What is said of a plan that was chosen, and of the next best."""

from tests.brain.test_replan import a_model, by, scene
from tests.builders import a_job
from weft.brain.considered import considered
from weft.cli.jobs.plan_words import plan_lines
from weft.model.ids import JobId
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.policy.recipes import RECIPES


def test_what_it_runs_as_and_three_that_it_does_not() -> None:
    world = scene().submit(a_model("job", 4)).decide()
    found = considered(world.brain, JobId("job"))
    assert found is not None and found.chosen is not None
    assert found.chosen.gpus == world.brain.state.jobs.width[0]
    assert 1 <= len(found.rejected) <= 3
    assert all(one.why and one.left_seconds > 0.0 for one in found.rejected)
    lines = plan_lines(found)
    assert lines[0].startswith("It runs as") and lines[1].startswith("  rejected: ")


def test_of_one_that_waits_only_what_it_could_be() -> None:
    world = scene().submit(a_job("other", 16, seconds=1e6)).decide().submit(a_model("job", 4))
    found = considered(world.decide().brain, JobId("job"))
    assert found is not None and found.chosen is None and found.rejected


def test_nothing_where_no_plan_is_chosen() -> None:
    world = scene().submit(a_job("job", 4)).decide()
    assert considered(world.brain, JobId("job")) is None
    plain = scene(RECIPES["fifo"]()).submit(a_model("job", 4)).decide()
    assert considered(plain.brain, JobId("job")) is None
    assert considered(scene(by()).brain, JobId("job")) is None


def test_plans_in_words() -> None:
    plan = ExecutionPlan(data=2, tensor=8, sharding=Sharding.GRADIENTS, recompute=True)
    assert plan.text == "data 2 × tensor 8, gradients shared out, recomputed"
    assert AS_WRITTEN.text == "as written"
    assert ExecutionPlan(data=1).text == "one GPU"


def test_what_it_runs_as_is_not_among_what_was_rejected() -> None:
    """Other cores beside the same GPUs are no other way to run."""
    world = scene().submit(a_model("job", 4)).decide()
    found = considered(world.brain, JobId("job"))
    assert found is not None and found.chosen is not None
    ways = [(one.gpus, one.plan) for one in (found.chosen, *found.rejected)]
    assert len(ways) == len(set(ways))
