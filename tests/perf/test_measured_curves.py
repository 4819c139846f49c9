"""Predictions on the tables of other systems, with limits looser than the benchmark's."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.elastic.curve_tables import measured_curves
from benchmarks.elastic.curves import Score, left_out

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
