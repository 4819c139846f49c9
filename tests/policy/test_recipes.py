"""Every named recipe builds, says what it is, and can schedule a simple day."""

import inspect

import numpy as np
import pytest

from tests.builders import a_cluster, a_job, a_snapshot, given, jobs
from weft.policy.order.attained import FeedbackLevels
from weft.policy.recipe import Passing, Recipe
from weft.policy.recipes import RECIPES, backfill, fair, fifo, tiresias
from weft.policy.share.alone import alone

EVERY = pytest.mark.parametrize("name", RECIPES)


@EVERY
def test_a_recipe_carries_the_name_it_is_called_by(name: str) -> None:
    recipe = RECIPES[name]()
    assert isinstance(recipe, Recipe)
    assert recipe.name == name


@EVERY
def test_a_recipe_says_in_one_sentence_what_it_is(name: str) -> None:
    told = inspect.getdoc(RECIPES[name])
    assert told and told.endswith(".") and "\n\n" not in told


@EVERY
def test_all_parameters_have_names_and_defaults(name: str) -> None:
    for parameter in inspect.signature(RECIPES[name]).parameters.values():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        assert parameter.default is not inspect.Parameter.empty


@EVERY
def test_a_simple_day_ends_with_every_job_done(name: str) -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(RECIPES[name]())
    scene.submit(*jobs(9, "small", 3, seconds=100.0), a_job("gang", 16, seconds=50.0))
    for _ in range(200):
        scene.wait(120.0)
        done = scene.brain.state.jobs.work_done
        for job, slot in list(scene.brain.state.slot_of.items()):
            view = scene.brain.state.snapshot(scene.now).job(slot)
            if job in scene.running() and view.remaining_seconds <= 0 and done[slot] >= 0:
                scene.finish(job)
        if not scene.brain.state.slot_of:
            return
    pytest.fail(f"{len(scene.brain.state.slot_of)} jobs never ended")


def test_parameters_reach_their_part() -> None:
    assert backfill(reserve=False).passing is Passing.ANYBODY
    assert backfill(reserve=False).reserving is None
    reserving = backfill(reserve_after=60.0).reserving
    assert reserving is not None and reserving.after_seconds == 60.0
    assert fair(preempt=False).yielding is None
    assert fifo(spacing=7.0).rounds.spacing_seconds == 7.0
    assert tiresias(limits=(1.0,), promote=None).order == FeedbackLevels((1.0,), None)


def test_every_job_is_alone_on_its_gpus() -> None:
    assert alone(a_snapshot({}), np.array([0])) == {}
