"""Intervals over seeds, against textbook values."""

import pytest

from weft.lab.interval import Interval, interval, t_quantile


def test_one_value_has_no_interval() -> None:
    assert interval([4.0]) == Interval(4.0, None)
    assert not interval([4.0]).excludes_zero


def test_three_values() -> None:
    found = interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.303 / 3**0.5)
    assert not found.excludes_zero
    assert interval([10.0, 10.1, 9.9]).excludes_zero


@pytest.mark.parametrize(
    ("degrees", "factor"), [(1, 12.706), (2, 4.303), (30, 2.042), (35, 2.042), (10_000, 1.962)]
)
def test_between_two_entries_the_wider_counts(degrees: int, factor: float) -> None:
    assert t_quantile(degrees) == factor
