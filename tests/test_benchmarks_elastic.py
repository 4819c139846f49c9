"""How the elastic benchmarks judge, what they keep from the brain, and what they take for fair."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from benchmarks.elastic import record, split
from benchmarks.elastic.columns import COLUMNS, CONFIGURATIONS, ELASTIC, FIXED, OWN, Column
from benchmarks.elastic.contest import (
    KEPT,
    SHORT_BAR,
    missing,
    short_verdict,
    trials,
    worth_going_on,
)
from benchmarks.elastic.contest_table import HEADER, markdown
from benchmarks.elastic.fairness import max_min, worst_share
from benchmarks.elastic.mixes import mix
from benchmarks.elastic.record import code, keep, kept, latest
from benchmarks.elastic.settings import (
    LEAST_PER_DOUBLING,
    MOST_PER_DOUBLING,
    SCORED,
    Setting,
    kept_back,
)
from benchmarks.elastic.trials import Outcome, TimedBrain
from benchmarks.elastic.verdict import Contest, column_of, judged
from benchmarks.elastic.waits import fair_seconds
from benchmarks.elastic.workloads import VIRTUAL_CLUSTERS, generated
from tests.builders import a_job
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.model.request import Locality
from weft.policy.plans.recipes import PLANNED
from weft.policy.recipes import RECIPES
from weft.policy.replays import REPLAYS
from weft.sim.world import World
from weft.spec.recipe import make_recipe

RIVAL = Column("afs-l", "packed")
WORSE = Column("srtf")

PLAIN = Outcome(
    name="some work",
    recipe=RIVAL.recipe,
    parameters=RIVAL.parameters,
    setting=SCORED,
    seed=0,
    jobs=10,
    finished=10,
    mean_jct_seconds=1000.0,
    p50_jct_seconds=500.0,
    p99_jct_seconds=5000.0,
    utilisation=0.8,
    resizes=2.0,
    preemptions=1.0,
    worst_share=0.9,
    rounds=50,
    events=200,
    brain_cpu_seconds=1.0,
    cpu_seconds=2.0,
)


def over_seeds(
    column: Column, *, factor: float = 1.0, name: str = "some work", **fields: float
) -> list[Outcome]:
    """Five seeds, alike but for a little; average times are `factor` of the plain ones."""
    return [
        replace(
            PLAIN,
            name=name,
            recipe=column.recipe,
            parameters=column.parameters,
            seed=seed,
            mean_jct_seconds=(1000.0 + seed) * factor,
            **fields,  # type: ignore[arg-type]
        )
        for seed in range(5)
    ]


def contest(*many: Sequence[Outcome]) -> Contest:
    return Contest.of([outcome for some in many for outcome in some])


def failing(own: list[Outcome], *others: list[Outcome]) -> list[str]:
    found = contest(own, over_seeds(RIVAL), *others)
    return [row.name for row in judged(found) if row.fails]


# --- the verdict ----------------------------------------------------------------------------------


def test_a_recipe_that_is_better_in_everything_passes() -> None:
    assert failing(over_seeds(OWN, factor=0.9)) == []


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"factor": 0.96}, "mean JCT"),
        ({"p50_jct_seconds": 530.0}, "median JCT"),
        ({"p99_jct_seconds": 5300.0}, "p99 JCT"),
        ({"preemptions": 1.6}, "preemptions per job"),
        ({"finished": 9}, "jobs not finished"),
    ],
)
def test_each_bar_can_fail(fields: dict[str, float], named: str) -> None:
    own = over_seeds(OWN, **{"factor": 0.9, **fields})  # type: ignore[arg-type]
    (missed,) = failing(own)
    assert named in missed


def test_to_be_far_behind_on_one_workload_is_a_miss_of_its_own() -> None:
    others = [over_seeds(column, name=name) for column in (RIVAL,) for name in ("a", "b", "c")]
    own = [over_seeds(OWN, factor=0.8, name=name) for name in ("a", "b")]
    missed = failing(
        over_seeds(OWN, factor=0.9), *others, *own, over_seeds(OWN, factor=1.03, name="c")
    )
    assert missed == ["weave / best other there, where that is most: c (afs-l packed)"]


def test_the_best_other_recipe_is_named_with_its_configuration() -> None:
    found = contest(over_seeds(OWN, factor=1.2), over_seeds(RIVAL), over_seeds(WORSE, factor=2.0))
    assert found.best() == found.best_on("some work") == RIVAL
    assert any("best is afs-l packed" in row.name for row in judged(found))


def test_another_configuration_of_our_own_recipe_is_no_rival() -> None:
    other = over_seeds(Column(OWN.recipe, "packed"), factor=0.1)
    assert contest(over_seeds(OWN), over_seeds(RIVAL), other).best() == RIVAL


def test_only_what_was_run_everywhere_can_be_best_over_all() -> None:
    lucky = over_seeds(WORSE, factor=0.5)
    elsewhere = [over_seeds(column, name="other work") for column in (OWN, RIVAL)]
    found = contest(over_seeds(OWN), over_seeds(RIVAL), lucky, *elsewhere)
    assert (found.best(), found.best_on("some work")) == (RIVAL, WORSE)


def test_recipes_are_compared_over_the_seeds_that_both_have() -> None:
    slow = [replace(one, mean_jct_seconds=9.0) for one in over_seeds(OWN)[2:]]
    found = contest(over_seeds(OWN)[:2], slow, over_seeds(RIVAL)[:2])
    assert found.quotient("some work", RIVAL).mean == pytest.approx(1.0)


def test_settings_are_judged_apart() -> None:
    elsewhere = [replace(one, setting=Setting.TOLD) for one in over_seeds(RIVAL, factor=0.1)]
    assert contest(over_seeds(OWN), over_seeds(WORSE), elsewhere).best() == WORSE


def test_without_a_rival_there_is_no_verdict() -> None:
    (row,) = judged(contest(over_seeds(OWN)))
    assert row.fails


def test_the_short_form_can_fail() -> None:
    def holds(factor: float) -> list[bool]:
        found = contest(over_seeds(OWN, factor=factor), over_seeds(RIVAL))
        return [row.holds for row in short_verdict(found)]

    assert holds(SHORT_BAR - 0.01) == [True, True]
    assert holds(SHORT_BAR + 0.01) == [False, True]


def test_a_column_far_behind_is_not_run_with_more_seeds() -> None:
    found = contest(over_seeds(OWN), over_seeds(RIVAL), over_seeds(WORSE, factor=1.3))
    wanted = {
        (trial.recipe, trial.parameters): trial
        for trial in trials({"some work": generated}, [9], (OWN, RIVAL, WORSE))  # type: ignore[dict-item]
    }
    going_on = [key for key, trial in wanted.items() if worth_going_on(trial, found, 1.1)]
    assert going_on == [(one.recipe, one.parameters) for one in (OWN, RIVAL)]


# --- columns and workloads ------------------------------------------------------------------------


def test_every_elastic_recipe_enters_with_every_placement() -> None:
    assert len(CONFIGURATIONS) == 8
    entered = {(column.recipe, column.configuration) for column in COLUMNS}
    assert {(recipe, one) for recipe in ELASTIC for one in CONFIGURATIONS} <= entered
    for column in COLUMNS:
        made = make_recipe(f"{column.recipe}({column.parameters})")
        assert (made.resizing is not None) == (column.recipe in ELASTIC)
        assert (
            column_of(replace(PLAIN, recipe=column.recipe, parameters=column.parameters)) == column
        )


def test_every_recipe_that_people_use_enters() -> None:
    left_out = {name for name in RECIPES if name not in (*ELASTIC, *FIXED)}
    assert left_out == {"afs", "sensitivity", "muri-s", "muri-l", *REPLAYS, *PLANNED}


def test_our_own_column_is_our_recipe_as_it_is() -> None:
    assert make_recipe(f"{OWN.recipe}({OWN.parameters})") == make_recipe(OWN.recipe)


def test_nothing_that_is_scored_is_used_to_choose() -> None:
    assert not {*split.SCORED_SEEDS} & {*split.DEVELOPMENT_SEEDS}
    assert not {*split.SCORED_LOADS} & {*split.DEVELOPMENT_LOADS}
    clusters = {one.tenant for one in split.DEVELOPMENT_CLUSTERS}
    assert not clusters & {one.tenant for one in VIRTUAL_CLUSTERS}
    somewhere = Path("traces")
    assert len(split.scored(somewhere)) == 14
    assert not {*split.scored(somewhere)} & {*split.development(somewhere), *split.short()}


def test_generated_work_has_the_load_that_it_is_asked_for() -> None:
    given_ = generated(3, load=0.7, jobs=400, gpus=64)
    asked = sum(job.width.asked_gpus * job.truth.seconds_as_asked for job in given_.jobs)
    span = given_.jobs[-1].submit_seconds - given_.jobs[0].submit_seconds
    assert asked / (given_.cluster.gpus * span) == pytest.approx(0.7, rel=0.1)


# --- what is told ---------------------------------------------------------------------------------


@pytest.mark.parametrize("setting", Setting)
def test_a_setting_tells_no_more_than_it_says(setting: Setting) -> None:
    jobs = mix(0, unpredictable=0.5, jobs=40).jobs
    for job, one in zip(jobs, kept_back(jobs, setting, seed=0), strict=True):
        assert (one.request.curve is not None) is setting.tells_curves
        told = setting.tells_lengths and job.request.work is not None
        assert (one.request.work is not None) is told
        assert one.request.locality == Locality()
        assert replace(one.truth, locality=job.truth.locality) == job.truth


def test_what_being_spread_costs_is_not_what_is_believed() -> None:
    jobs = generated(0, load=0.9, jobs=200, gpus=64).jobs
    drawn = {
        (one.request.model, one.truth.locality.per_node_doubling)
        for one in kept_back(jobs, SCORED, seed=0)
    }
    costs = [cost for _, cost in drawn]
    assert len(drawn) == len({model for model, _ in drawn}) > 5, "one for each model"
    assert LEAST_PER_DOUBLING <= min(costs) < 0.15 < max(costs) <= MOST_PER_DOUBLING


# --- the record -----------------------------------------------------------------------------------


def test_outcomes_of_other_code_are_not_mixed_in(tmp_path: Path) -> None:
    file = tmp_path / "record.jsonl"
    file.write_text(json.dumps({"code": "another", **asdict(PLAIN)}) + "\n")
    assert list(keep(file, [PLAIN])) == [PLAIN]
    assert kept(file) == {"another": [PLAIN], code(): [PLAIN]}
    assert latest(file) == (code(), [PLAIN])


def test_a_trial_that_was_run_is_not_run_again() -> None:
    wanted = trials({"some work": generated}, [0, 1], (RIVAL, OWN))  # type: ignore[dict-item]
    assert missing(wanted, [PLAIN]) == len(wanted) - 1
    assert missing(wanted, [replace(PLAIN, setting=Setting.TOLD)]) == len(wanted)


def test_a_better_word_does_not_change_the_code_and_a_number_does() -> None:
    plain = '"""A."""\n\ndef f():\n    """B."""\n    return 1\n'
    meaning = record._meaning(plain)
    assert record._meaning("# more\n" + plain.replace("A.", "C.").replace("B.", "D.")) == meaning
    assert record._meaning(plain.replace("1", "2")) != meaning


def test_what_no_decision_reaches_is_not_the_code() -> None:
    source = Path(weft.__file__).parents[1]
    reached = {file.relative_to(source).as_posix() for file in record._reached(source)}
    assert {"weft/brain/round/round.py", "weft/perf/predict.py", "weft/model/menu.py"} <= reached
    assert not any(name.startswith(("weft/spec", "weft/kube", "weft/train")) for name in reached)


def test_the_page_shows_what_was_run_and_nothing_else() -> None:
    page = (Path(__file__).parents[1] / "docs" / "benchmarks.md").read_text()
    digest, outcomes = latest(KEPT)
    if outcomes:
        assert markdown(outcomes) in page
        assert digest in page
    else:
        assert " | ".join(HEADER[1:]) not in page


def test_the_table_names_the_best_other() -> None:
    lines = markdown([*over_seeds(OWN, factor=0.9), *over_seeds(RIVAL)]).splitlines()
    assert lines[2].startswith("| some work | 0.25")
    assert "| `afs-l packed` | **0.9 ± " in lines[2]


# --- fairness and waits ---------------------------------------------------------------------------


def test_a_tenant_that_is_starved_is_seen() -> None:
    """Two tenants are due a half each; under first come, first served one holds all for an hour."""
    jobs = [of("first", gpus=4, at=0.0), of("second", gpus=4, at=1.0)]
    assert share(jobs) == pytest.approx(0.67, abs=0.02)


def test_equal_tenants_have_all_that_is_due_to_them() -> None:
    jobs = [of("first", gpus=2, at=0.0), of("second", gpus=2, at=0.0)]
    assert share(jobs) == pytest.approx(1.0, abs=0.01)


def test_nothing_is_told_of_a_single_tenant() -> None:
    assert share([of("first", gpus=2, at=0.0)]) is None


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.integers(1, 60))
def test_a_max_min_division_gives_all_up_to_one_level(wanted: list[int], gpus: int) -> None:
    (parts,) = max_min(np.array([wanted], float), gpus)
    assert parts.sum() == pytest.approx(min(sum(wanted), gpus))
    assert (parts <= np.array(wanted) + 1e-9).all()
    short = parts[parts < np.array(wanted) - 1e-9]
    assert not len(short) or parts.max() <= short.min() + 1e-9


def test_a_fair_share_of_time_is_that_of_a_fluid() -> None:
    jobs = [
        of("first", gpus=4, at=0.0),
        of("second", gpus=4, at=0.0),
        of("third", gpus=1, at=90_000.0),
    ]
    assert fair_seconds(jobs, 4) == pytest.approx([7200.0, 7200.0, 3600.0])


def of(tenant: str, *, gpus: int, at: float) -> Job:
    return a_job(tenant, gpus=gpus, seconds=3600.0, at=at, tenant=tenant)


def share(jobs: list[Job]) -> float | None:
    world = World(Cluster.uniform(1, 4), jobs, TimedBrain(make_recipe("fifo")), keep_sittings=True)
    return worst_share(world.run(), jobs)
