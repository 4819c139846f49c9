"""Nobody waits for ever: a wide gang among many small jobs starts within its bound."""

from dataclasses import replace
from random import Random

import numpy as np
import pytest

from tests.builders import HOUR, a_cluster, a_job, a_node
from weft.brain.brain import Brain
from weft.model.job import Job
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipe import Recipe, Yielding
from weft.policy.recipes import RECIPES
from weft.policy.waiting import Waiting
from weft.sim.world import Checks, World

LONGEST = 2 * HOUR
#: One of each kind of order and size; random worlds promise the bound of all (`I17`).
NAMES = ["fifo", "maxmin", "rubick", "srsf", "weave"]
SETTLING = Yielding().min_run_seconds + 300.0
"""Whoever has just started is not stopped, not even for a job that has waited too long."""


def crowd(seed: int, gangs: int = 4) -> list[Job]:
    """Small jobs, nearly as many as 32 GPUs can take, and gangs of 24 GPUs among them."""
    rng, at = Random(seed), 0.0
    jobs: list[Job] = []
    while at < 24 * HOUR:
        at += rng.expovariate(32 * 0.85 / HOUR / 2.0)
        gpus = rng.choice((1, 1, 2, 4))
        width = (1, 2 * gpus) if rng.random() < 0.5 else None
        seconds = rng.uniform(0.5, 1.5) * HOUR
        jobs.append(
            a_job(f"s{len(jobs)}", gpus, seconds=seconds, width=width, at=at, locality=Locality())
        )
    for number in range(gangs):
        jobs.append(a_job(f"gang{number}", 24, seconds=HOUR / 6, at=(1 + 2 * number) * HOUR))
    return jobs


def longest_delays(recipe: Recipe, jobs: list[Job]) -> dict[str, float]:
    """For how many seconds on end each job has waited longer than its bound."""
    brain = Brain(recipe)
    world = World(a_cluster(nodes=4, gpus=8), jobs, brain, checks=Checks.TOUCHED)
    since: dict[str, float] = {}
    worst: dict[str, float] = {}
    while world.pending and world.now < 60 * HOUR:
        world.step()
        late = overdue(brain, world.now)
        since = {name: since.get(name, world.now) for name in late}
        for name, begin in since.items():
            worst[name] = max(worst.get(name, 0.0), world.now - begin)
    return worst


def overdue(brain: Brain, now: float) -> list[str]:
    """Who has waited longer than its bound."""
    state = brain.state
    active, status = state.jobs.active[: state.size], state.jobs.state[: state.size]
    slots = np.flatnonzero(active & (status == State.QUEUED))
    waited = now - state.jobs.queued_since[slots]
    if waited.max(initial=0.0) <= LONGEST:
        return []
    over = waited > brain.recipe.waiting.bounds(state.snapshot(now), slots)
    return [str(state.spec(slot).id) for slot in slots[over].tolist()]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_gang_among_small_jobs_starts_within_its_bound(name: str) -> None:
    over = longest_delays(RECIPES[name](longest_wait=LONGEST), crowd(seed=1))
    assert max(over.values(), default=0.0) < 2 * SETTLING


def test_whoever_has_waited_too_long_takes_seats_apart() -> None:
    """Others sit on both racks: as long as they do, no wait of the gang is for a better place."""
    cluster = a_cluster(a_node("n0", 4, rack="r0"), a_node("n1", 4, rack="r1"))
    jobs = [a_job(f"s{i}", 4, seconds=50 * HOUR) for i in range(2)]
    jobs.append(a_job("gang", 8, seconds=100 * HOUR, at=60.0, locality=Locality()))
    recipe = replace(RECIPES["srtf"](), waiting=Waiting(HOUR, fair_times=0.0))
    record = World(cluster, jobs, Brain(recipe)).run(horizon_seconds=3 * HOUR)
    start = record.jobs[jobs[-1].id].first_start
    assert start is not None and start <= HOUR + SETTLING


def test_whoever_has_waited_too_long_takes_parts_of_nodes_that_others_keep() -> None:
    """One node would hold it, but for somebody who need not go: so it takes two in part."""
    cluster = a_cluster(a_node("n0", 4), a_node("n1", 1))
    jobs = [
        a_job("firm", 2, seconds=50 * HOUR, preemptible=False),
        a_job("s0", 2, seconds=50 * HOUR, at=1.0),
        a_job("s1", 1, seconds=50 * HOUR, at=2.0),
        a_job("gang", 3, seconds=100 * HOUR, at=60.0, locality=Locality()),
    ]
    recipe = replace(RECIPES["srtf"](), waiting=Waiting(HOUR, fair_times=0.0))
    record = World(cluster, jobs, Brain(recipe)).run(horizon_seconds=3 * HOUR)
    start = record.jobs[jobs[-1].id].first_start
    assert start is not None and start <= HOUR + SETTLING


@pytest.mark.slow
@pytest.mark.parametrize("name", ["srsf", "weave"])
def test_without_a_bound_gangs_wait_for_hours_in_this_crowd(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Waiting, "overdue", lambda _, __, waiting: (waiting[:0], None))
    over = longest_delays(RECIPES[name](longest_wait=LONGEST), crowd(seed=1))
    assert max(over.values()) > 3 * HOUR
