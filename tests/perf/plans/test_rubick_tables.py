"""Steps that Rubick's authors measured, foretold from at most seven points of each model."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.plans.cliffs import (
    LLAMA,
    ROBERTA,
    best_split,
    speed_at,
    table_curve,
)
from benchmarks.plans.tables import WORKS, disturbed, measured, of_another_batch
from benchmarks.plans.time import NOT_REACHED, foretold
from weft.perf.plans.envelope import shared_out

pytestmark = pytest.mark.traces


@pytest.mark.parametrize("name", WORKS)
def test_few_points_foretell_a_table(traces: Path, name: str) -> None:
    outcome = foretold(traces, name)
    assert len(outcome.chosen) <= 7
    errors = outcome.errors[outcome.sound]
    assert errors.mean() <= 7.0
    if name not in NOT_REACHED:
        assert errors.max() <= 12.0


def test_intervals_cover_what_they_say(traces: Path) -> None:
    outcomes = [foretold(traces, name) for name in WORKS]
    inside = np.concatenate([one.inside[one.sound] for one in outcomes])
    assert 0.75 <= inside.mean() <= 0.85


def test_odd_rows_are_found_by_the_tables_alone(traces: Path) -> None:
    counts = {}
    for name in WORKS:
        table = measured(traces, name)
        counts[name] = sum(disturbed(table)) + sum(of_another_batch(table))
    assert counts == {
        "vit": 49,
        "roberta": 3,
        "bert": 9,
        "t5": 29,
        "gpt2": 5,
        "llama7": 0,
        "llama30": 0,
    }


@pytest.mark.parametrize(("gpus", "llama", "roberta"), [(16, 16, 0), (24, 16, 8)])
def test_a_cliff_is_crossed_when_that_is_best(
    traces: Path, gpus: int, llama: int, roberta: int
) -> None:
    curves = {job: table_curve(traces, job) for job in (LLAMA, ROBERTA)}
    asked = {job: speed_at(curve, 8) for job, curve in curves.items()}
    given = shared_out(curves, asked, gpus)
    have = {job: one.allocation.gpus for job, one in given.items()}
    assert have.get(LLAMA, 0) == llama
    assert have.get(ROBERTA, 0) == roberta
    reached = sum(one.speed / asked[job] for job, one in given.items())
    assert reached == pytest.approx(best_split(curves, asked, gpus))
