"""The loss of a simulated job: its law, its noise, and losses that follow none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.model.errors import SpecError
from weft.model.loss import ErraticLoss, LossCurve


@given(
    first=st.floats(1.0, 20.0),
    part=st.floats(0.0, 0.5),
    nearer=st.floats(1.5, 50.0),
    steps=st.floats(10.0, 1e7),
)
def test_a_curve_goes_through_its_ends_and_falls(
    first: float, part: float, nearer: float, steps: float
) -> None:
    floor = part * first
    target = floor + (first - floor) / nearer
    curve = LossCurve.through(first=first, target=target, floor=floor, steps=steps)
    assert curve.at(0.0) == pytest.approx(first)
    assert curve.at(steps) == pytest.approx(target)
    assert curve.steps_to_target == pytest.approx(steps)
    assert curve.at(0.0) > curve.at(steps / 2) > curve.at(steps) > floor


@pytest.mark.parametrize(
    ("curve", "steps"),
    [
        (LossCurve(1.0, 1.0, 0.5, target=0.5), math.inf),
        (LossCurve(1.0, 1.0, 0.5), math.inf),
        (LossCurve(0.0, 1.0, 0.0, target=0.5), math.inf),
        (LossCurve(0.0, 1.0, 0.0, target=2.0), 0.0),
        (LossCurve(1.0, 1.0, 0.0, target=0.5), 1.0),
    ],
)
def test_a_target_may_be_out_of_reach_or_behind(curve: LossCurve, steps: float) -> None:
    assert curve.steps_to_target == steps


def test_noise_is_relative_and_a_function_of_the_draw() -> None:
    curve = LossCurve(0.01, 0.5, 0.1, noise=0.02)
    exact = LossCurve(0.01, 0.5, 0.1)
    assert curve.at(7.0, 0.5) == pytest.approx(exact.at(7.0, 0.9))
    assert curve.at(7.0, 0.8413447) == pytest.approx(1.02 * exact.at(7.0))
    assert curve.at(7.0, 0.0) >= 0.0
    assert curve.at(7.0, 0.3) == curve.at(7.0, 0.3)


@pytest.mark.parametrize("fields", [(-1.0, 1.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, -0.1)])
def test_nothing_of_a_curve_is_negative(fields: tuple[float, float, float]) -> None:
    with pytest.raises(SpecError, match="never falls"):
        LossCurve(*fields)


def test_pieces_begin_anew() -> None:
    loss = ErraticLoss(((0.0, LossCurve(1.0, 1.0, 0.0)), (10.0, LossCurve(0.0, 0.5, 0.0))))
    assert loss.at(9.0) == pytest.approx(0.1)
    assert loss.at(10.0) == loss.at(500.0) == pytest.approx(2.0)


@pytest.mark.parametrize("begins", [(), (1.0,), (0.0, 5.0, 5.0), (0.0, 5.0, 3.0)])
def test_pieces_follow_each_other_from_the_first_step(begins: tuple[float, ...]) -> None:
    with pytest.raises(SpecError, match="begin at rising steps from 0"):
        ErraticLoss(tuple((begin, LossCurve(1.0, 1.0, 0.0)) for begin in begins))
