"""How much work there is in all: who is asked, in which order, and who says so."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.loss import LossCurve
from weft.perf.loss import NO_LOSSES, Losses, Target
from weft.perf.precedent import LATEST, total_like
from weft.perf.predictability import (
    PREDICTABLE_AFTER,
    check_is_due,
    checked,
    predictable,
    streaks,
)
from weft.perf.remaining import total_work
from weft.perf.total import Remaining, Source, Total


def falling(target: float = 1.0) -> Losses:
    curve = LossCurve.through(first=5.0, target=target, floor=0.2, steps=1000.0)
    losses = NO_LOSSES
    for step in range(10, 500, 10):
        losses = losses.with_one(float(step), curve.at(float(step)))
    return losses


def test_what_is_stated_goes_before_all_else() -> None:
    found = total_work(stated=70.0, losses=falling(), goal=Target(1.0), earlier=(5.0, 6.0))
    assert found == Total(70.0, 70.0, 70.0, Source.STATED) and found.exact


def test_a_loss_goes_before_the_past() -> None:
    found = total_work(losses=falling(), goal=Target(1.0), earlier=(5.0, 6.0))
    assert found is not None and found.source is Source.LOSS
    assert found.likely == pytest.approx(1000.0, rel=0.05)


@pytest.mark.parametrize(
    ("losses", "goal"), [(NO_LOSSES, Target(1.0)), (falling(), Target(0.1)), (falling(), None)]
)
def test_the_past_goes_before_a_loss_that_tells_nothing(
    losses: Losses, goal: Target | None
) -> None:
    found = total_work(losses=losses, goal=goal, earlier=(5.0, 6.0, 7.0))
    assert found is not None and found.source is Source.HISTORY
    assert found.likely == 6.0


def test_where_nobody_knows_nobody_pretends() -> None:
    assert total_work(earlier=(5.0,)) is None
    assert total_work(earlier=(5.0, 6.0, 7.0), done=6.5) is None


@given(st.lists(st.floats(1.0, 1e6), min_size=2, max_size=LATEST), st.floats(0.0, 1e6))
def test_what_is_done_rules_out_shorter_runs(totals: list[float], done: float) -> None:
    found = total_like(tuple(totals), done)
    beyond = [total for total in totals if total > done]
    if len(beyond) < 2:
        assert found is None
        return
    assert found is not None
    assert done <= found.low <= found.likely * (1 + 1e-9)
    assert found.likely == np.median(beyond) and found.likely <= found.high
    assert not np.isnan([found.low, found.high]).any()


@pytest.mark.parametrize("runs", [3, 6, 8, 9, 20, 32])
def test_the_next_run_falls_into_the_interval_eight_times_in_ten(runs: int) -> None:
    rng = np.random.default_rng(runs)
    inside = 0
    for _ in range(1500):
        *earlier, following = rng.lognormal(3.0, 0.7, runs + 1).tolist()
        found = total_like(tuple(earlier))
        assert found is not None
        inside += found.low <= following <= found.high
    assert inside / 1500 == pytest.approx(0.8, abs=0.05)


# --- predictability -----------------------------------------------------------------------------


def total(low: float, likely: float, high: float) -> Total:
    return Total(low, likely, high, Source.LOSS)


def test_three_narrow_checks_make_a_job_predictable_and_one_wide_takes_it_back() -> None:
    narrow, wide, streak = total(90.0, 100.0, 110.0), total(60.0, 100.0, 110.0), 0
    seen = [streak := checked(streak, found, 20.0) for found in (narrow, narrow, narrow, wide)]
    assert seen == [1, 2, 3, 0]
    assert predictable(np.array(seen)).tolist() == [False, False, True, False]


def test_what_counts_is_the_interval_of_what_is_left() -> None:
    assert checked(0, total(90.0, 100.0, 110.0), 50.0) == 1
    assert checked(0, total(90.0, 100.0, 110.0), 70.0) == 0
    assert checked(2, total(90.0, 100.0, 110.0), 120.0) == 0


def test_who_stated_its_total_has_nothing_to_prove() -> None:
    stated = Total(100.0, 100.0, 100.0, Source.STATED)
    assert checked(0, stated, 0.0) == PREDICTABLE_AFTER == checked(0, stated, 200.0)
    endless = total(np.inf, np.inf, np.inf)
    assert checked(5, endless, 0.0) == 0


@given(
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.floats(0, 100),
            st.floats(0, 100),
            st.floats(0, 100),
            st.floats(0, 99),
        ),
        min_size=1,
    )
)
def test_columns_say_the_same_as_single_jobs(
    rows: list[tuple[int, float, float, float, float]],
) -> None:
    so_far, *parts, done = (np.array(column) for column in zip(*rows, strict=True))
    low, likely, high = np.sort(parts, axis=0)
    found = streaks(so_far, low, likely, high, done=done)
    single = [
        checked(int(so_far[i]), total(*(float(p[i]) for p in (low, likely, high))), float(done[i]))
        for i in range(len(rows))
    ]
    assert found.tolist() == single


def test_columns_of_unknown_totals_are_not_predictable() -> None:
    nan = np.array([np.nan])
    assert streaks(np.array([3]), nan, nan, nan, done=np.zeros(1)).tolist() == [0]


def test_a_look_is_worth_it_when_a_tenth_more_is_done() -> None:
    assert check_is_due(0.0, 0.0) and check_is_due(111.0, 100.0)
    assert not check_is_due(105.0, 100.0)


def test_nobody_has_less_than_nothing_left() -> None:
    assert total(5.0, 8.0, 12.0).remaining(10.0) == Remaining(0.0, 0.0, 2.0)
