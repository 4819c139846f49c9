"""Recipes against the first one, in words."""

from dataclasses import replace

import pytest

from weft.lab.change import change
from weft.lab.comparison import METRICS, Row, compare
from weft.lab.experiment import Experiment
from weft.lab.interval import Interval
from weft.lab.workloads.source import Generated

JCT = METRICS[0]


@pytest.fixture(scope="module")
def row() -> Row:
    tiny = Experiment(source=Generated(jobs=10), cluster="1x8")
    return compare(tiny, recipes=["fifo"], seeds=[0]).rows[0]


def told(row: Row, ratio: Interval | None, apart: Interval | None = None) -> str:
    changed = replace(
        row,
        ratio_to_first={JCT.field: ratio},
        versus_first={JCT.field: apart or Interval(0.0, None)},
    )
    return change(changed, row, JCT).text


def test_a_share_of_the_first_with_its_interval(row: Row) -> None:
    assert told(row, Interval(0.64, 0.05)) == "−36 % ± 5"
    assert told(row, Interval(13.5, 2.0)) == "+1,250 % ± 200"


def test_what_may_be_chance_says_so(row: Row) -> None:
    assert told(row, Interval(0.97, 0.08)) == "≈ −3 % ± 8"
    assert told(row, Interval(1.001, 0.0)) == "0 % ± 0"


def test_one_seed_has_no_interval_and_claims_none(row: Row) -> None:
    assert told(row, Interval(0.64, None)) == "−36 %"


def test_where_the_first_has_a_zero_the_difference_is_told_as_it_is(row: Row) -> None:
    assert told(row, None, Interval(5400.0, 600.0)) == "+90 min ± 10"
    assert told(row, None, Interval(0.0, None)) == "0 s"


def test_where_no_job_ended_there_is_nothing_to_tell(row: Row) -> None:
    never = replace(row, ended=0)
    assert change(never, row, JCT).text == change(row, never, JCT).text == "–"
