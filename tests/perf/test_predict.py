"""What is foretold of widths that were not measured."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from weft.model.menu import Floats, Ints
from weft.perf.evidence import Evidence
from weft.perf.point import Point
from weft.perf.predict import FARTHEST, predict
from weft.perf.prediction import Prediction
from weft.perf.prior import FREE, Prior
from weft.perf.recalled import Recalled
from weft.perf.smooth import losses_seen, smooth

NODE = 8


ORDINARY = st.builds(
    Point,
    gpus=st.integers(1, 64),
    units_per_second=st.floats(1e-3, 1e6),
    nodes=st.integers(1, 4),
    cpus_per_gpu=st.sampled_from([0.0, 1.0, 2.0, 4.0]),
    seconds=st.floats(0.1, 1e4),
)
LEGAL = st.builds(
    Point,
    gpus=st.one_of(st.integers(1, 8), st.integers(1, 4096)),
    units_per_second=st.one_of(
        st.floats(0.0, allow_infinity=False), st.sampled_from([5e-324, 1e-3, 1.0, 494.0, 1e300])
    ),
    nodes=st.integers(1, 4096),
    cpus_per_gpu=st.one_of(st.floats(0.0, allow_infinity=False), st.sampled_from([0.0, 1.0, 4.0])),
    seconds=st.floats(0.0, allow_infinity=False),
)
"""Whatever a worker may claim."""
PRIORS = st.builds(
    Prior,
    jobs=st.floats(1.0, 256.0),
    sums=st.tuples(*[st.floats(-100.0, 10.0)] * 3),
)


def _points() -> st.SearchStrategy[list[Point]]:
    return st.lists(ORDINARY, max_size=6)


def _measured(speed: Callable[[int], float], *widths: int) -> list[Point]:
    return [Point(width, speed(width), nodes=-(-width // NODE), seconds=60.0) for width in widths]


@given(
    points=st.lists(LEGAL, max_size=6),
    earlier=st.lists(st.lists(LEGAL, max_size=4).map(tuple), max_size=2),
    widest=st.integers(0, 80),
    node_gpus=st.integers(1, 16),
    prior=st.one_of(st.just(FREE), PRIORS),
)
@example([Point(46, 494.0), Point(47, 0.001)], [], 64, 8, FREE)
@example([Point(1, 5e-324), Point(2, 1e300)], [], 64, 8, FREE)
@example([Point(2, 1e308, seconds=1e308), Point(2, 1e308, seconds=1e308)], [], 4, 8, FREE)
@example([Point(3, 5e-324, seconds=5e-324, cpus_per_gpu=5e-324)], [], 4, 8, FREE)
def test_every_width_has_a_finite_speed_within_its_interval(
    points: list[Point],
    earlier: list[tuple[Point, ...]],
    widest: int,
    node_gpus: int,
    prior: Prior,
) -> None:
    foretold = Recalled(tuple(earlier))(points, widest=widest, node_gpus=node_gpus, prior=prior)
    _check_sound(foretold, widest)
    if widest:
        assert foretold.spread is not None
        _check_sound(foretold.spread, widest)


def _check_sound(row: Prediction, widest: int) -> None:
    assert len(row.likely) == len(row.low) == len(row.high) == widest + 1
    assert row.likely[0] == row.low[0] == row.high[0] == 0.0
    assert np.isfinite(row.high).all()
    assert (row.low[1:] > 0).all()
    assert (row.low <= row.likely).all() and (row.likely <= row.high).all()


@given(points=st.lists(ORDINARY, min_size=1, max_size=6), widest=st.integers(1, 80))
@example([Point(46, 494.0), Point(47, 0.001)], 64)
def test_no_width_is_far_beyond_what_was_measured(points: list[Point], widest: int) -> None:
    points = [replace(point, cpus_per_gpu=0.0) for point in points]
    foretold = predict(points, widest=widest, node_gpus=NODE)
    for width in range(1, widest + 1):
        fastest = max(p.units_per_second * max(1.0, width / p.gpus) for p in points)
        slowest = min(p.units_per_second * min(1.0, width / p.gpus) for p in points)
        assert foretold.likely[width] <= 1.01 * FARTHEST * fastest
        assert foretold.likely[width] >= 0.99 * slowest / FARTHEST


def test_thousands_of_widths_are_foretold() -> None:
    points = [Point(width, float(width) ** 0.5, nodes=-(-width // 8)) for width in range(1, 1001)]
    foretold = predict(points, widest=4096, node_gpus=NODE)
    _check_sound(foretold, 4096)
    assert foretold.likely[500] == pytest.approx(500**0.5, rel=0.05)


@given(
    points=st.lists(ORDINARY, min_size=1, max_size=4), place=st.sampled_from(["beyond", "below"])
)
def test_away_from_the_points_nothing_becomes_more_certain(points: list[Point], place: str) -> None:
    """On one side of the node's edge, where no other bound is nearer."""
    points = [replace(point, nodes=1, cpus_per_gpu=0.0) for point in points]
    doubt = _doubt(points)
    ends = [point.gpus for point in points]
    outward = doubt[max(ends) - 1 :] if place == "beyond" else doubt[min(ends) - 1 :: -1]
    assert (np.diff(outward) >= -1e-6 * (1.0 + outward[:-1])).all()


def _doubt(points: list[Point]) -> Floats:
    widths = np.arange(1.0, 129.0)
    return smooth(Evidence.of(points), widths, np.zeros_like(widths), FREE)[1]


@given(
    points=_points(),
    widths=st.sets(st.integers(1, 64), max_size=12).map(lambda found: np.array(sorted(found), int)),
)
def test_asked_for_some_widths_the_answer_is_the_same(points: list[Point], widths: Ints) -> None:
    every = predict(points, widest=64, node_gpus=NODE)
    some = predict(points, widest=64, node_gpus=NODE, widths=widths)
    for width in widths.tolist():
        for nodes in (1, 2):
            one, other = (foretold.at(width, nodes=nodes) for foretold in (every, some))
            assert one.likely == pytest.approx(other.likely, rel=1e-6)
            assert (one.low, one.high) == pytest.approx((other.low, other.high), rel=1e-6)


def test_a_width_that_was_not_asked_for_has_no_answer() -> None:
    some = predict([Point(2, 4.0)], widest=8, node_gpus=8, widths=np.array([1, 4]))
    with pytest.raises(KeyError):
        some.at(2)


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


def test_nothing_measured_is_free_scaling_and_may_be_far_off() -> None:
    foretold = predict([], widest=16, node_gpus=16)
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
    foretold = predict(points, widest=16, node_gpus=16)
    for width, off in ((3, 0.03), (6, 0.03), (12, 0.1), (16, 0.15)):
        assert foretold.likely[width] == pytest.approx(speed(width), rel=off)
        assert foretold.low[width] <= speed(width) <= foretold.high[width]


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


def test_nodes_never_seen_are_believed_to_cost_little() -> None:
    foretold = predict(_measured(float, 1, 2, 4, 8), widest=16, node_gpus=8)
    assert foretold.at(8, nodes=2).likely >= 0.9 * foretold.at(8).likely
    assert foretold.at(16, nodes=2).likely >= 0.9 * 16


def test_a_slow_network_once_seen_is_expected_again() -> None:
    slow = [*_measured(float, 1, 2, 4), Point(4, 2.0, nodes=2, seconds=60.0)]
    foretold = predict(slow, widest=8, node_gpus=8)
    assert foretold.at(8, nodes=2).likely < 0.8 * foretold.at(8).likely


# --- what is typical ------------------------------------------------------------------------------


def _typical(jobs: int) -> Prior:
    """After so many jobs whose speed grows with the root of the width."""
    prior = FREE
    for _ in range(jobs):
        seen = Evidence.of(_measured(lambda width: width**0.5, 1, 2, 4, 8))
        prior = prior.with_job(losses_seen(seen, prior))
    return prior


def test_a_new_job_is_believed_to_be_somewhat_better_than_is_typical() -> None:
    foretold = predict([], widest=8, node_gpus=8, prior=_typical(30))
    assert 8**0.5 < foretold.likely[8] < 0.8 * 8
    assert (np.diff(foretold.likely) > 0).all(), "it runs wide first"


def test_measured_once_a_job_is_believed_to_be_typical() -> None:
    wide = [Point(8, 80.0, seconds=60.0)]
    free, typical = (predict(wide, widest=8, node_gpus=8, prior=_typical(n)) for n in (0, 30))
    assert free.likely[1] == pytest.approx(10.0)
    assert typical.likely[1] == pytest.approx(80.0 / 8**0.5, rel=0.15)


def test_one_job_alone_is_not_typical() -> None:
    one, many = (predict([], widest=8, node_gpus=8, prior=_typical(n)).likely[8] for n in (1, 30))
    assert one > many + 0.5 * (8.0 - many)


def test_what_is_typical_changes_with_the_jobs() -> None:
    prior = _typical(300)
    free = Evidence.of(_measured(float, 1, 2, 4, 8))
    for _ in range(600):
        prior = prior.with_job(losses_seen(free, prior))
    assert predict([], widest=8, node_gpus=8, prior=prior).likely[8] == pytest.approx(8.0, rel=0.1)


# --- cores ----------------------------------------------------------------------------------------


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
