"""One unit for whatever is said of a job's work."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.claim import WorkClaim
from weft.spec.counted import stated_by_script, work_in_steps

HOUR = WorkClaim(3600.0)


def test_steps_are_a_share_of_a_stated_duration() -> None:
    assert work_in_steps(HOUR, 50, 200) == 900.0
    assert stated_by_script(HOUR, 200) is None


def test_without_a_duration_steps_are_the_unit_and_the_script_tells_their_total() -> None:
    assert work_in_steps(None, 50, 200) == 50
    assert work_in_steps(None, 50, None) == 50
    assert stated_by_script(None, 200) == 200.0


@pytest.mark.parametrize("total", [None, 0, -1])
def test_a_share_of_nothing_cannot_be_said(total: int | None) -> None:
    assert work_in_steps(HOUR, 50, total) is None
    assert stated_by_script(None, total) is None


@given(
    st.sampled_from([HOUR, None]),
    st.floats(0.1, 1e3),
    st.floats(0.0, 1e4),
    st.integers(1, 10**6),
)
def test_a_speed_and_what_it_does_are_counted_alike(
    work: WorkClaim | None, rate: float, seconds: float, total: int
) -> None:
    """So many units per second for so many seconds are what as many steps are."""
    speed, done = work_in_steps(work, rate, total), work_in_steps(work, rate * seconds, total)
    assert speed is not None and done is not None
    assert speed * seconds == pytest.approx(done)
