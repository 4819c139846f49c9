"""A recipe of one's own to begin with, and the tests that belong to it."""

RECIPE = '''"""The recipe `{name}`: narrow jobs first, and nobody is left behind.

    weft recipes {name}.py:{name}                   what can be set
    weft compare --recipe fifo,{name}.py:{name}     against others
    pytest test_{name}.py                           its own tests

A recipe is made of small functions over a snapshot. `order` says who goes first; `size` says how
wide and `place` where, and may be left out. docs/recipes.md tells what each gets and returns.
"""

from dataclasses import dataclass

from weft.model.snapshot import Ints, Snapshot
from weft.policy.order.ranking import Ranking
from weft.policy.recipe import Passing, Recipe, Rounds


@dataclass(frozen=True)
class NarrowFirst:
    """Ranks jobs by GPUs; so many seconds of waiting count as much as one GPU less."""

    seconds_per_gpu: float

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        """A key for each of these jobs: the smallest goes first."""
        gpus = snapshot.jobs.asked_gpus[slots]
        waited = snapshot.now - snapshot.jobs.submitted[slots]
        return Ranking((gpus - waited / self.seconds_per_gpu,))


def {name}(*, aging: float = 3600.0, spacing: float = 1.0) -> Recipe:
    """Narrow jobs first; whoever waits counts as narrower and narrower.

    aging: seconds of waiting that count as much as one GPU less
    spacing: the least time between two rounds in seconds
    """
    return Recipe(
        name="{name}",
        order=NarrowFirst(seconds_per_gpu=aging),
        passing=Passing.ANYBODY,  # who cannot start does not hold up those behind
        rounds=Rounds(spacing_seconds=spacing),
    )
'''

TESTS = '''"""Tests of the recipe `{name}`: pytest test_{name}.py"""

from pathlib import Path

from weft import lab

MINE = f"{{Path(__file__).with_name('{name}.py')}}:{name}"


def test_every_job_ends() -> None:
    run = lab.simulate(lab.generated(60), recipe=MINE, cluster="2x4")
    assert run.summary.unfinished == 0


def test_the_narrow_job_starts_before_the_wide_one() -> None:
    jobs = lab.workload(
        [
            {{"job_id": "first", "submit_seconds": 0, "duration_seconds": 600, "gpus": 4}},
            {{"job_id": "wide", "submit_seconds": 10, "duration_seconds": 600, "gpus": 4}},
            {{"job_id": "narrow", "submit_seconds": 20, "duration_seconds": 600, "gpus": 1}},
        ]
    )
    run = lab.simulate(jobs, recipe=MINE, cluster="1x4", costs="free")
    start = dict(zip(run.jobs.column("job"), run.jobs.column("first_start")))
    assert start["narrow"] < start["wide"]


def test_it_is_compared_with_first_come_first_served() -> None:
    both = lab.compare(lab.generated(60), recipes=["fifo", MINE], cluster="2x4", seeds=2)
    assert {{row["recipe"] for row in both.trials}} == {{"fifo", MINE}}
'''


def recipe_template(name: str) -> str:
    """A file with the recipe of that name, which runs as it is."""
    return RECIPE.format(name=name)


def tests_template(name: str) -> str:
    """Its tests, which pass as they are."""
    return TESTS.format(name=name)
