"""What is foretold of widths that were not measured."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.perf.point import Point
from weft.perf.predict import predict, predict_by_belief, predict_by_fit, predict_by_table
from weft.perf.prediction import Predictor

PREDICTORS: list[Predictor] = [predict, predict_by_table, predict_by_fit, predict_by_belief]
NODE = 8


@st.composite
def _points(draw: st.DrawFn) -> list[Point]:
    return draw(
        st.lists(
            st.builds(
                Point,
                gpus=st.integers(1, 64),
                units_per_second=st.floats(1e-3, 1e6),
                nodes=st.integers(1, 4),
                cpus_per_gpu=st.sampled_from([0.0, 1.0, 2.0, 4.0]),
                seconds=st.floats(0.1, 1e4),
            ),
            max_size=6,
        )
    )


def _measured(speed: Callable[[int], float], *widths: int) -> list[Point]:
    return [Point(width, speed(width), nodes=-(-width // NODE), seconds=60.0) for width in widths]


@pytest.mark.parametrize("predictor", PREDICTORS)
@given(points=_points(), widest=st.integers(0, 80), node_gpus=st.integers(1, 16))
def test_every_width_has_a_finite_speed_within_its_interval(
    predictor: Predictor, points: list[Point], widest: int, node_gpus: int
) -> None:
    foretold = predictor(points, widest=widest, node_gpus=node_gpus)
    for row in (foretold, foretold.spread):
        if row is None:
            assert widest == 0
            continue
        assert len(row.likely) == len(row.low) == len(row.high) == widest + 1
        assert row.likely[0] == row.low[0] == row.high[0] == 0.0
        assert np.isfinite(row.high).all()
        assert (row.low[1:] > 0).all()
        assert (row.low <= row.likely).all() and (row.likely <= row.high).all()


@given(points=_points(), factor=st.sampled_from([1e-3, 0.5, 7.0, 1e4]))
def test_units_do_not_matter(points: list[Point], factor: float) -> None:
    scaled = [
        Point(p.gpus, factor * p.units_per_second, p.nodes, p.cpus_per_gpu, p.seconds)
        for p in points
    ]
    one, other = (predict(given, widest=64, node_gpus=NODE) for given in (points, scaled))
    expected = one.likely * (factor if points else 1.0)
    assert other.likely == pytest.approx(expected, rel=1e-4)


@given(points=_points().flatmap(lambda given: st.tuples(st.just(given), st.permutations(given))))
def test_the_order_of_points_does_not_matter(points: tuple[list[Point], list[Point]]) -> None:
    one, other = (predict(given, widest=64, node_gpus=NODE) for given in points)
    assert one.likely == pytest.approx(other.likely, rel=1e-4)


@pytest.mark.parametrize("predictor", PREDICTORS)
def test_nothing_measured_is_free_scaling_and_may_be_far_off(predictor: Predictor) -> None:
    foretold = predictor([], widest=16, node_gpus=16)
    assert foretold.likely.tolist() == pytest.approx(range(17))
    assert foretold.low[16] < 0.5 * foretold.likely[16]


@pytest.mark.parametrize("width", [1, 4, 8])
def test_one_point_scales_freely_within_the_node(width: int) -> None:
    foretold = predict([Point(width, 3.0 * width)], widest=8, node_gpus=8)
    assert foretold.likely.tolist() == pytest.approx([3.0 * k for k in range(9)])


def test_points_without_a_speed_say_nothing() -> None:
    nothing = [Point(2, 0.0), Point(4, float("nan")), Point(4, 1.0, seconds=0.0)]
    foretold, unmeasured = (predict(given, widest=8, node_gpus=8) for given in (nothing, []))
    assert foretold.likely.tolist() == unmeasured.likely.tolist()


@pytest.mark.parametrize("fixed", [0.0, 0.05, 0.3])
def test_amdahls_curves_are_found(fixed: float) -> None:
    def speed(width: int) -> float:
        return 1.0 / (1.0 / width + fixed)

    points = _measured(speed, 1, 2, 4, 8)
    foretold, fit = (of(points, widest=16, node_gpus=16) for of in (predict, predict_by_fit))
    for width, off in ((3, 0.03), (6, 0.03), (12, 0.1), (16, 0.15)):
        assert foretold.likely[width] == pytest.approx(speed(width), rel=off)
        assert foretold.low[width] <= speed(width) <= foretold.high[width]
        assert fit.likely[width] == pytest.approx(speed(width), rel=0.03)


def test_far_from_what_was_measured_is_less_certain() -> None:
    foretold = predict(_measured(lambda width: width**0.8, 2, 4, 8), widest=64, node_gpus=64)
    doubt = {width: foretold.high[width] / foretold.low[width] for width in (4, 6, 16, 32, 64)}
    assert doubt[4] < doubt[6] < doubt[16] < doubt[32] < doubt[64]


def test_points_that_fit_badly_make_less_certain() -> None:
    calm, odd = (
        predict([Point(1, 1.0), Point(2, 1.9), Point(4, at_four)], widest=8, node_gpus=8).at(8)
        for at_four in (3.6, 1.2)
    )
    assert odd.high / odd.low > 1.5 * calm.high / calm.low


def test_a_longer_measurement_counts_for_more() -> None:
    def off(seconds: float) -> float:
        points = [*_measured(float, 1, 2, 8), Point(4, 2.5, seconds=seconds)]
        return abs(predict(points, widest=8, node_gpus=8).at(4).likely - 2.5)

    offs = [off(seconds) for seconds in (0.01, 0.1, 1.0, 60.0)]
    assert offs == sorted(offs, reverse=True)
    assert offs[-1] < offs[0]


def test_measured_twice_is_the_mean_by_time() -> None:
    twice = [Point(4, 2.0, seconds=30.0), Point(4, 4.0, seconds=10.0)]
    assert predict(twice, widest=4, node_gpus=4).likely[4] == pytest.approx(2.5)


@given(points=_points())
def test_a_fit_is_never_faster_on_more_nodes(points: list[Point]) -> None:
    foretold = predict_by_fit(points, widest=32, node_gpus=NODE)
    assert foretold.spread is not None
    assert (foretold.spread.likely <= foretold.likely * (1 + 1e-9)).all()


def test_nodes_never_seen_are_believed_to_cost_little() -> None:
    foretold = predict(_measured(float, 1, 2, 4, 8), widest=16, node_gpus=8)
    assert foretold.at(8, nodes=2).likely >= 0.9 * foretold.at(8).likely
    assert foretold.at(16, nodes=2).likely >= 0.9 * 16


def test_a_slow_network_once_seen_is_expected_again() -> None:
    slow = [*_measured(float, 1, 2, 4), Point(4, 2.0, nodes=2, seconds=60.0)]
    foretold = predict(slow, widest=8, node_gpus=8)
    assert foretold.at(8, nodes=2).likely < 0.8 * foretold.at(8).likely


def test_fewer_cores_are_slower_where_that_was_seen() -> None:
    points = [
        Point(2, 10.0, cpus_per_gpu=4.0, seconds=60.0),
        Point(2, 5.0, cpus_per_gpu=2.0, seconds=60.0),
        Point(4, 10.0, cpus_per_gpu=2.0, seconds=60.0),
    ]
    foretold = predict(points, widest=8, node_gpus=8)
    assert foretold.cpus_per_gpu == 4.0
    assert foretold.at(4, cpus_per_gpu=2.0).likely == pytest.approx(10.0, rel=0.1)
    assert foretold.at(4, cpus_per_gpu=4.0).likely == pytest.approx(20.0, rel=0.1)
    assert foretold.at(4).likely == foretold.at(4, cpus_per_gpu=4.0).likely


def test_cores_never_varied_do_not_matter() -> None:
    foretold = predict([Point(2, 10.0, cpus_per_gpu=4.0)], widest=4, node_gpus=4)
    assert foretold.at(2, cpus_per_gpu=1.0) == foretold.at(2)
