"""What forerunners say."""

import pytest

from weft.perf.point import Point
from weft.perf.predict import predict
from weft.perf.recalled import Recalled, Run

SATURATED = tuple(Point(k, min(float(k), 4.0), seconds=60.0) for k in (1, 2, 4, 8))


def _foretold(earlier: tuple[Run, ...], *points: Point) -> list[float]:
    return list(Recalled(earlier)(points, widest=8, node_gpus=8).likely)


def test_without_forerunners_it_is_the_usual_prediction() -> None:
    points = (Point(1, 2.0), Point(4, 5.0))
    usual = predict(points, widest=8, node_gpus=8)
    assert _foretold((), *points) == list(usual.likely)


def test_a_job_that_has_not_run_is_like_its_forerunners() -> None:
    assert _foretold((SATURATED,))[8] == pytest.approx(4.0, rel=0.1)


def test_the_shape_is_the_forerunners_and_the_level_its_own() -> None:
    faster = _foretold((SATURATED,), Point(2, 20.0, seconds=60.0))
    assert faster[2] == pytest.approx(20.0, rel=0.1)
    assert faster[8] == pytest.approx(40.0, rel=0.15)


def test_what_is_measured_of_the_job_itself_counts_for_more() -> None:
    free = tuple(Point(k, float(k), seconds=60.0) for k in (1, 2, 8))
    alone = predict(free, widest=8, node_gpus=8).likely[8]
    assert _foretold((SATURATED,), *free)[8] == pytest.approx(alone, rel=0.2)


def test_history_makes_more_certain() -> None:
    own = (Point(1, 1.0, seconds=60.0),)
    alone = predict(own, widest=8, node_gpus=8).at(8)
    recalled = Recalled((SATURATED,))(own, widest=8, node_gpus=8).at(8)
    assert recalled.high / recalled.low < alone.high / alone.low
