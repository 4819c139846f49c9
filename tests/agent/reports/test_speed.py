"""What becomes a measurement of speed, and what does not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.agent.reports.speed import FEWEST_STEPS, LEAST_SECONDS, Measured, Speedometer


def report(
    steps: int = 20, mean_step: float = 0.1, epoch: int = 3, width: int = 2
) -> dict[str, Any]:
    return {"steps": steps, "mean_step": mean_step, "epoch": epoch, "width": width}


def heard(speed: Speedometer, *reports: dict[str, Any]) -> list[bool]:
    return [speed.hear(one, epoch=3, width=2) for one in reports]


def test_enough_steps_are_a_measurement() -> None:
    speed = Speedometer()
    assert heard(speed, report()) == [True]
    assert speed.newest == Measured(1, 2, 10.0, 2.0)
    assert heard(speed, report(mean_step=0.2)) == [True]
    assert speed.newest == Measured(2, 2, 5.0, 4.0)


def test_few_steps_wait_for_more_of_the_same_epoch() -> None:
    speed = Speedometer()
    assert heard(speed, report(2, 5.0), report(2, 5.0), report(1, 5.0)) == [False, False, True]
    assert speed.newest == Measured(1, 2, 0.2, 25.0)
    assert heard(speed, report(4, 5.0)) == [False]
    assert not speed.hear(report(1, 5.0, epoch=4), epoch=4, width=2), "others train now"


def test_where_steps_are_long_two_of_them_do() -> None:
    speed = Speedometer()
    assert heard(speed, report(1, 90.0), report(1, 110.0)) == [False, True]
    assert speed.newest == Measured(1, 2, 0.01, 200.0)


@pytest.mark.parametrize("stale", [report(epoch=2), report(width=3)])
def test_what_others_measured_is_not_taken(stale: dict[str, Any]) -> None:
    speed = Speedometer()
    assert heard(speed, stale) == [False]
    assert speed.newest is None


JUNK = st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"epoch": st.just(3), "width": st.just(2)}, optional={"steps": JUNK, "mean_step": JUNK}
        )
        | st.builds(report, st.integers(-2, 100), st.floats(-1.0, 1e6)),
        max_size=8,
    )
)
def test_whatever_a_worker_says_a_measurement_means_something(
    reports: list[dict[str, Any]],
) -> None:
    speed = Speedometer()
    heard(speed, *reports)
    if speed.newest is not None:
        assert 0.0 < speed.newest.steps_per_second < float("inf")
        assert speed.newest.seconds >= LEAST_SECONDS
        steps = speed.newest.steps_per_second * speed.newest.seconds
        assert round(steps) >= FEWEST_STEPS or speed.newest.seconds >= 60.0


def test_steps_in_company_and_steps_alone_are_never_one_measurement() -> None:
    speed = Speedometer()
    assert not speed.hear(report(4, 5.0), epoch=3, width=2)
    assert not speed.hear(report(1, 5.0), epoch=3, width=2, shared=True), "it begins anew"
    assert speed.hear(report(4, 5.0), epoch=3, width=2, shared=True)
    assert speed.newest == Measured(1, 2, 0.2, 25.0, shared=True)
    assert not speed.hear(report(4, 5.0), epoch=3, width=2)
