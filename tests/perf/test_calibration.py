"""Scores of what was foretold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.perf.calibration import PER_DOUBLING, Calibration


def _scored(*actuals: float) -> Calibration:
    """Each was foretold as 10, between 8 and 12."""
    scores = Calibration()
    for actual in actuals:
        scores = scores.with_score(10.0, 8.0, 12.0, actual)
    return scores


def test_nothing_scored_tells_nothing() -> None:
    scores = Calibration()
    assert (scores.coverage, scores.mean_error, scores.median_error) == (None, None, None)


def test_intervals_hold_up_to_their_ends() -> None:
    assert _scored(8.0, 12.0, 10.0, 7.9).coverage == 0.75


def test_errors_are_shares_of_the_truth() -> None:
    assert _scored(5.0).mean_error == pytest.approx(1.0)
    assert _scored(20.0).mean_error == pytest.approx(0.5)


@pytest.mark.parametrize("actual", [0.0, -1.0, float("nan"), float("inf")])
def test_what_has_no_truth_is_not_scored(actual: float) -> None:
    assert _scored(actual) == Calibration()


def test_a_likely_value_that_is_none_is_not_scored() -> None:
    assert Calibration().with_score(float("nan"), 1.0, 2.0, 1.0) == Calibration()


@given(st.lists(st.floats(2.0, 9.9), min_size=1, max_size=40))
def test_quantiles_are_right_to_a_bin(actuals: list[float]) -> None:
    scores = _scored(*actuals)
    errors = [abs(10.0 - actual) / actual for actual in actuals]
    for share, found in ((0.5, scores.median_error), (0.9, scores.p90_error)):
        exact = float(np.quantile(errors, share, method="inverted_cdf"))
        assert found is not None
        assert exact <= found * (1 + 1e-9) <= max(exact, 0.005) * 2 ** (1 / PER_DOUBLING) * 1.001


def test_two_sets_of_scores_add_up() -> None:
    assert _scored(9.0, 5.0).with_all(_scored(11.0)) == _scored(9.0, 5.0, 11.0)


def test_errors_beyond_all_bins_count_as_the_last() -> None:
    scores = _scored(1e-9)
    assert scores.median_error is not None and scores.median_error > 5
