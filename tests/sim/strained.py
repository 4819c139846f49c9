"""Worlds in which neighbours slow each other, and what is promised of what is learnt of it.

Drawn apart from everything else, so that a seed without it is the world that it always was.
"""

from dataclasses import replace
from random import Random
from typing import TYPE_CHECKING

from tests.sim.promise import PromiseBroken
from weft.model.job import Job
from weft.model.truth import Strain

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

FIRST_SEED = 1_000
SHARE_OF_WORLDS = 0.25
MOST_SLOWER = 2.0
SLOWED = "slowed by a neighbour"


def strained(seed: int) -> bool:
    return seed >= FIRST_SEED and Random(f"together {seed}").random() < SHARE_OF_WORLDS


def with_strain(seed: int, jobs: tuple[Job, ...]) -> tuple[Job, ...]:
    """Most of them strain something, and mind it."""
    return tuple(_strained(Random(f"strain {seed} {row}"), job) for row, job in enumerate(jobs))


def _strained(rng: Random, job: Job) -> Job:
    if job.truth.steps is not None or rng.random() < 0.2:
        return job
    takes = Strain(*(rng.choice((0.0, 0.2, 1.0)) for _ in range(3)))
    minds = Strain(*(rng.choice((0.0, 0.3, 1.5)) for _ in range(3)))
    return replace(job, truth=replace(job.truth, strains=takes, minds=minds))


def learnt_within_bounds(world: "RandomWorld") -> None:
    """Nobody is believed to slow others without bound, nor to make them faster (N1)."""
    pairs = world.brain.state.neighbours.slowdowns.pairs
    for pair, seen in pairs.items():
        if not 0.0 <= seen.slower <= MOST_SLOWER or seen.at > world.now:
            raise PromiseBroken("N1", f"{pair}: {seen} at {world.now}")
        if seen.slower > 0.2:
            world.auditor.seen[SLOWED] += 1
