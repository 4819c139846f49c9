"""Noise: stages that were told wrong, by up to a half, and what is measured meanwhile.

Claims of every stage are off by a factor drawn for each job; how jobs really run stays the same.
Once a party is measured, its speeds correct what is believed of such parties; what a job measures
of its own steps while it takes no turns goes before its claim, as in the other worlds.

A schedule of hundreds of jobs is chaotic: claims that are off by one part in a hundred move the
mean of a single run by up to six. So several worlds are run, which differ in what starts cost, each
with right claims and with wrong ones.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.interleaving.ordinary import SHORT_JOBS, TRUTH
from benchmarks.interleaving.workload import ordinary
from benchmarks.row import Row, at_most, told
from weft.brain.brain import Brain
from weft.model.claim import ClaimSource, StageClaim
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.snapshot import Floats
from weft.model.stages import StageProfile
from weft.sim.costs import COSTS
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

OFF = 0.5
RECIPES = ("muri-l", "weave")
SEEDS = (0, 1, 2, 3, 4)
WORST = 1.05


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    recipes = RECIPES[:1] if short else RECIPES
    seeds = SEEDS[:1] if short else SEEDS
    runs = [
        Run(recipe, seed, wrong) for recipe in recipes for seed in seeds for wrong in (False, True)
    ]
    with ProcessPoolExecutor(2) as pool:
        means = pool.map(partial(_mean_seconds, traces, short=short), runs)
        ran = dict(zip(runs, means, strict=True))
    for recipe in recipes:
        right, wrong = (
            np.array([ran[Run(recipe, seed, wrong)] for seed in seeds]) for wrong in (False, True)
        )
        yield from _compared(recipe, right, wrong, short=short)


def _compared(recipe: str, right: Floats, wrong: Floats, *, short: bool) -> Iterator[Row]:
    name = f"{recipe} on trace3, stages told wrong by up to {OFF:.0%}: average JCT over right"
    ratio = round(float(wrong.mean() / right.mean()), 3)
    yield told(name, ratio, "×") if short else at_most(name, ratio, "×", WORST)
    for what, each in (("least", (wrong / right).min()), ("most", (wrong / right).max())):
        yield told(f"… {what} of {len(right)} worlds", round(float(each), 3), "×")


@dataclass(frozen=True, slots=True)
class Run:
    """Of one world, with right claims or with wrong ones."""

    recipe: str
    seed: int
    wrong: bool


def _mean_seconds(traces: Path, run: Run, *, short: bool) -> float:
    jobs = ordinary(traces, "trace3")
    jobs = jobs[:SHORT_JOBS] if short else jobs
    if run.wrong:
        chance = np.random.default_rng(run.seed)
        jobs = [_misjudged(job, chance) for job in jobs]
    world = World(
        Cluster.uniform(8, 8),
        jobs,
        Brain(make_recipe(run.recipe)),
        costs=COSTS["tacc"],
        checks=Checks.TOUCHED,
        cycles=TRUTH,
        seed=run.seed,
    )
    lines = world.run().jobs.values()
    return float(np.mean([line.jct_seconds for line in lines if line.jct_seconds is not None]))


def _misjudged(job: Job, chance: np.random.Generator) -> Job:
    """The same job with another claim of its stages."""
    stages = job.truth.stages
    assert stages is not None
    wrong = StageClaim(_off(stages, chance), ClaimSource.USER)
    return replace(job, request=replace(job.request, stages=wrong))


def _off(stages: StageProfile, chance: np.random.Generator) -> StageProfile:
    factors = iter(chance.uniform(1.0 - OFF, 1.0 + OFF, 6).tolist())
    return stages.timed(lambda seconds: seconds * next(factors))
