"""How the elastic benchmarks judge, and what they take for a tenant's share."""

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.elastic.contest import best_other, grouped, judged, kept, markdown
from benchmarks.elastic.trials import Outcome, Shares, TimedBrain
from benchmarks.elastic.workloads import generated
from benchmarks.row import Row
from tests.builders import a_job
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.sim.world import World
from weft.spec.recipe import make_recipe

PLAIN = Outcome(
    name="some work",
    recipe="afs-l",
    seed=0,
    jobs=10,
    finished=10,
    mean_jct_seconds=1000.0,
    p50_jct_seconds=500.0,
    p99_jct_seconds=5000.0,
    utilisation=0.8,
    resizes=2.0,
    preemptions=0.0,
    worst_share=0.9,
    rounds=50,
    events=200,
    brain_cpu_seconds=1.0,
    cpu_seconds=2.0,
)


def over_seeds(recipe: str, *, factor: float = 1.0, **fields: float) -> list[Outcome]:
    """Five seeds, alike but for a little; average times are `factor` of the base's."""
    return [
        replace(
            PLAIN,
            recipe=recipe,
            seed=seed,
            mean_jct_seconds=(1000.0 + seed) * factor,
            **fields,  # type: ignore[arg-type]
        )
        for seed in range(5)
    ]


def failing(own: list[Outcome], *others: list[Outcome]) -> list[str]:
    outcomes = [*over_seeds("afs-l"), *own, *(o for many in others for o in many)]
    return [row.name.split(": ")[1] for row in judged(outcomes) if row.fails]


def test_a_recipe_that_is_better_in_everything_passes() -> None:
    assert failing(over_seeds("weave", factor=0.9, resizes=1.5, worst_share=0.95)) == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"factor": 0.96}, "average JCT, weave / afs-l"),
        ({"resizes": 2.1}, "resizes per job"),
        ({"p99_jct_seconds": 5100.0}, "p99 JCT, weave / afs-l"),
        ({"worst_share": 0.89}, "worst tenant's share, weave / afs-l"),
        ({"finished": 9}, "jobs not finished under any recipe"),
    ],
)
def test_each_bar_can_fail(fields: dict[str, float], named: str) -> None:
    assert failing(over_seeds("weave", **{"factor": 0.9, **fields})) == [named]


def test_the_best_other_recipe_is_a_bar_of_its_own() -> None:
    own, better = over_seeds("weave", factor=0.9), over_seeds("srtf", factor=0.86)
    assert best_other(grouped([*own, *over_seeds("afs-l"), *better]), PLAIN.name) == "srtf"
    assert failing(own, better) == ["average JCT, weave / best other (srtf)"]


def test_recipes_are_compared_over_the_seeds_that_both_have() -> None:
    own, other = over_seeds("weave", factor=0.9), over_seeds("srtf", factor=0.95)[:2]
    slow = [replace(o, mean_jct_seconds=9.0) for o in over_seeds("afs-l")[2:]]
    results = grouped([*own, *over_seeds("afs-l")[:2], *slow, *other])
    assert best_other(results, PLAIN.name) == "srtf", "not by means of different seeds"


def test_the_table_shows_what_was_not_run_as_a_dash() -> None:
    elsewhere = [replace(o, name="other work") for o in over_seeds("afs-l")]
    own = [replace(o, name="other work") for o in over_seeds("weave", factor=0.9)]
    both = [*over_seeds("afs-l"), *over_seeds("weave", factor=0.9), *over_seeds("srtf")]
    lines = markdown([*both, *elsewhere, *own]).splitlines()
    assert lines[2].startswith("| some work | 0.278")
    assert lines[2].endswith("| 1.00 |")
    assert lines[3].endswith("| – |")


def test_a_tenant_that_is_starved_is_seen() -> None:
    """Two tenants are due a half each; under first come, first served one holds all for an hour."""
    jobs = [of("first", gpus=4, at=0.0), of("second", gpus=4, at=1.0)]
    assert worst_share(jobs) == pytest.approx(0.67, abs=0.02)


def test_equal_tenants_have_all_that_is_due_to_them() -> None:
    jobs = [of("first", gpus=2, at=0.0), of("second", gpus=2, at=0.0)]
    assert worst_share(jobs) == pytest.approx(1.0, abs=0.01)


def test_generated_work_has_the_load_that_it_is_asked_for() -> None:
    given = generated(3, load=0.7, jobs=400, gpus=64)
    asked = sum(
        job.width.asked_gpus * job.work.amount / job.units_per_second(job.width.asked_gpus)
        for job in given.jobs
    )
    span = given.jobs[-1].submit_seconds - given.jobs[0].submit_seconds
    assert asked / (given.cluster.gpus * span) == pytest.approx(0.7, rel=0.1)


def test_rows_without_a_bar_cannot_fail() -> None:
    rows: list[Row] = [row for row in judged([*over_seeds("afs-l"), *over_seeds("weave")])]
    assert [row.bar for row in rows[-2:]] == [None, None]


def of(tenant: str, *, gpus: int, at: float) -> Job:
    return a_job(tenant, gpus=gpus, seconds=3600.0, at=at, tenant=tenant)


def worst_share(jobs: list[Job]) -> float:
    brain = TimedBrain(make_recipe("fifo"))
    shares = Shares(brain, 4)
    World(Cluster.uniform(1, 4), jobs, brain, journal=shares).run()
    return shares.worst()


def test_what_was_run_holds_its_bars_but_for_what_the_readme_says() -> None:
    missed = [row.name for row in judged(kept()) if row.holds is False]
    assert missed == ["Philly 103959: resizes per job"]


def test_the_readme_shows_what_was_run() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert markdown(kept()) in readme
