"""Turns: on a calm cluster, where nothing else happens, jobs of equal claims take turns."""

import pytest

from tests.builders import HOUR, a_cluster, a_job
from weft.brain.brain import Brain
from weft.policy.recipes import RECIPES
from weft.sim.world import Checks, World


@pytest.mark.parametrize("recipe", ["weave", "afs-l", "las", "gittins", "sensitivity", "tiresias"])
def test_two_long_jobs_on_one_gpu_take_turns(recipe: str) -> None:
    jobs = [
        a_job(name, at=at, seconds=100 * HOUR, tell_work=False, saves_on_demand=True)
        for name, at in (("a", 0), ("b", 10))
    ]
    brain = Brain(RECIPES[recipe]())
    world = World(a_cluster(nodes=1, gpus=1), jobs, brain, checks=Checks.FULL)
    record = world.run(horizon_seconds=50 * HOUR)
    first_starts = [line.first_start for line in record.jobs.values()]
    assert max(start for start in first_starts if start is not None) < 3 * HOUR
    if recipe in ("las", "gittins", "sensitivity"):  # the others by levels, or as service doubles
        assert min(line.starts for line in record.jobs.values()) > 5


@pytest.mark.parametrize("recipe", ["weave", "afs-l"])
def test_a_crowd_of_unknown_lengths_is_not_in_and_out_every_few_minutes(recipe: str) -> None:
    """As often as what a job has had doubles: in two days seven times, not five hundred."""
    jobs = [
        a_job(f"j{n}", at=10.0 * n, seconds=100 * HOUR, tell_work=False, saves_on_demand=True)
        for n in range(12)
    ]
    world = World(a_cluster(nodes=1, gpus=8), jobs, Brain(RECIPES[recipe]()))
    record = world.run(horizon_seconds=48 * HOUR)
    assert max(line.starts for line in record.jobs.values()) <= 10
    first_starts = [line.first_start for line in record.jobs.values()]
    assert max(start for start in first_starts if start is not None) < HOUR
