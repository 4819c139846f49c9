"""What is said of a plan that was chosen, and of the next best."""

import re

import numpy as np
import pytest

from tests.brain.test_replan import a_model, by, scene
from tests.builders import a_job
from weft.brain.considered import considered
from weft.brain.instruction import Preempt
from weft.cli.jobs.plan_words import plan_lines
from weft.model.ids import JobId
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.policy.recipes import RECIPES
from weft.reconcile.moves import why_moved


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


def test_what_is_left_is_one_figure() -> None:
    """Of its plan the same is told as of the job itself: at the speed at which it goes."""
    world = scene().submit(a_model("job", 4)).decide().wait(1e5)
    state = world.brain.state
    found = considered(world.brain, JobId("job"))
    assert found is not None and found.chosen is not None
    assert found.chosen.units_per_second == pytest.approx(float(state.jobs.speed[0]))
    done = float(state.snapshot(world.brain.now).work_done(np.array([0]))[0])
    assert found.chosen.left_seconds == pytest.approx(done / float(state.jobs.speed[0]))


def test_one_that_waits_needs_the_least_that_a_plan_of_its_is_for() -> None:
    world = scene().submit(a_job("other", 16, seconds=1e6)).decide()
    world.submit(a_model("job", 2, width=(1, 2))).decide()
    (reason, *_) = world.brain.explain(JobId("job"))
    assert "needs 1." in reason.text


def test_who_is_stopped_for_another_plan_is_told_so() -> None:
    world = scene(by(own_budget=1.0, budget=10.0))
    world.submit(a_model("job", 4), a_job("other", 14, seconds=1e6)).decide()
    world.stay_silent().wait(50_000.0).finish("other").decide()
    assert world.last(Preempt, "job").beneficiary == "job"
    told = why_moved(world.brain.state, JobId("job"))
    assert re.fullmatch(r"restarted to switch from plan '.+' to plan '.+'", told), told
