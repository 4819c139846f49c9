"""What forerunners say."""

import pytest

from weft.model.ids import TenantId
from weft.perf.point import Point
from weft.perf.predict import predict
from weft.perf.recalled import CurveHistory, Recalled

ANN = TenantId("ann")
SATURATED = tuple(Point(k, min(float(k), 4.0), seconds=60.0) for k in (1, 2, 4, 8))


def _foretold(history: CurveHistory, *points: Point) -> list[float]:
    predictor = history.predictor(ANN, "train.py")
    return list(predictor(points, widest=8, node_gpus=8).likely)


def _history(*runs: tuple[Point, ...]) -> CurveHistory:
    history = CurveHistory()
    for run in runs:
        history.add(ANN, "train.py", run)
    return history


def test_without_forerunners_it_is_the_usual_prediction() -> None:
    points = (Point(1, 2.0), Point(4, 5.0))
    usual = predict(points, widest=8, node_gpus=8)
    assert _foretold(_history(), *points) == list(usual.likely)


def test_a_job_that_has_not_run_is_like_its_forerunners() -> None:
    assert _foretold(_history(SATURATED))[8] == pytest.approx(4.0, rel=0.1)


def test_the_shape_is_the_forerunners_and_the_level_its_own() -> None:
    faster = _foretold(_history(SATURATED), Point(2, 20.0, seconds=60.0))
    assert faster[2] == pytest.approx(20.0, rel=0.1)
    assert faster[8] == pytest.approx(40.0, rel=0.15)


def test_what_is_measured_of_the_job_itself_counts_for_more() -> None:
    free = tuple(Point(k, float(k), seconds=60.0) for k in (1, 2, 8))
    alone = predict(free, widest=8, node_gpus=8).likely[8]
    assert _foretold(_history(SATURATED), *free)[8] == pytest.approx(alone, rel=0.2)


def test_history_makes_more_certain() -> None:
    own = (Point(1, 1.0, seconds=60.0),)
    alone = predict(own, widest=8, node_gpus=8).at(8)
    recalled = Recalled((SATURATED,))(own, widest=8, node_gpus=8).at(8)
    assert recalled.high / recalled.low < alone.high / alone.low


def test_other_tenants_and_programs_without_a_name_are_strangers() -> None:
    history = _history(SATURATED)
    history.add(ANN, "", SATURATED)
    assert history.predictor(TenantId("bob"), "train.py").earlier == ()
    assert history.predictor(ANN, "").earlier == ()


def test_old_runs_and_rare_programs_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.perf.recalled.PROGRAMS", 2)
    history = _history(*[(Point(1, float(run)),) for run in range(1, 7)])
    latest = [run[0].units_per_second for run in history.predictor(ANN, "train.py").earlier]
    assert latest == [3.0, 4.0, 5.0, 6.0]
    for program in ("a.py", "b.py"):
        history.add(ANN, program, SATURATED)
    assert history.predictor(ANN, "train.py").earlier == ()


def test_a_copy_is_apart() -> None:
    history = _history(SATURATED)
    twin = history.copied()
    twin.add(ANN, "train.py", SATURATED)
    assert len(history.predictor(ANN, "train.py").earlier) == 1
