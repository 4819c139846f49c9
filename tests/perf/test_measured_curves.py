"""Predictions on the tables of other systems, with limits looser than the benchmark's."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.elastic.curve_tables import at_global_batch, measured_curves
from benchmarks.elastic.curves import Score, forerunners, left_out
from weft.perf.recalled import Recalled

STRIDE = {"sia": 8, "pollux": 3}
LIMITS = {
    "gavel": (0.12, 0.60),
    "elasticflow": (0.08, 0.25),
    "afs": (0.05, 0.12),
    "pollux": (0.08, 0.25),
    "sia": (0.06, 0.25),
}


@pytest.fixture(scope="module")
def scores(traces: Path) -> list[Score]:
    curves = measured_curves(traces)
    return [
        score
        for source in LIMITS
        for curve in [c for c in curves if c.source == source][:: STRIDE.get(source, 1)]
        for score in left_out(curve)
    ]


@pytest.mark.parametrize("source", LIMITS)
def test_widths_that_were_left_out_are_foretold(source: str, scores: list[Score]) -> None:
    errors = [score.error for score in scores if score.source == source]
    median, p90 = LIMITS[source]
    assert len(errors) > 50
    assert np.median(errors) <= median
    assert np.quantile(errors, 0.9) <= p90


def test_intervals_hold_about_as_often_as_they_say(scores: list[Score]) -> None:
    assert 0.7 <= np.mean([score.reach <= 1 for score in scores]) <= 0.9


def test_at_a_fixed_global_batch_earlier_runs_foretell_the_next(traces: Path) -> None:
    every = at_global_batch(traces)
    scores = [
        score
        for curve in every[::5]
        if (runs := forerunners(curve, every))
        for score in left_out(curve, Recalled(runs))
    ]
    errors = [score.error for score in scores]
    assert len(errors) > 200
    assert np.median(errors) <= 0.08
    assert np.quantile(errors, 0.9) <= 0.28
    assert 0.7 <= np.mean([score.reach <= 1 for score in scores]) <= 0.9


def test_no_curve_is_foretold_from_its_own_measurements(traces: Path) -> None:
    every = at_global_batch(traces)
    for curve in every[::5]:
        for run in forerunners(curve, every):
            assert set(run).isdisjoint(curve.points)
