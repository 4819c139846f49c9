"""What the brain learns while jobs train, and what it does with it."""

from typing import Any

import numpy as np
import pytest

from tests.builders import Scene, a_cluster, a_job, given, is_now, runs
from weft.brain.event import JobMeasured
from weft.brain.instruction import Preempt, Resize
from weft.brain.state.measured_cost import MeasuredCost
from weft.failure.evidence import Failure, FailureClass
from weft.model.curve import Curve
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.menu import Floats
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.perf.predictability import PREDICTABLE_AFTER
from weft.policy.recipe import Recipe
from weft.policy.recipes import Maker, afs_l, afs_p, even, maxmin, optimus, weave

SECRET = Curve(((1, 10.0), (2, 15.0), (4, 22.0), (8, 25.0)))
"""What workers measure of the jobs below."""


def a_secret(name: str = "job", most: int = 8, *, least: int = 1, **fields: Any) -> Job:
    """A job of which nobody has said how it scales, nor how long it is."""
    untold = {"tell_curve": False, "tell_work": False}
    return a_job(name, most, width=(least, most), **{"curve": SECRET, **untold, **fields})


def quick(make: Maker = weave) -> Recipe:
    return make(hold=0.0, spacing=1.0)


def one_wide(recipe: Recipe | None = None, *, gpus: int = 8, **fields: Any) -> Scene:
    """A job that has all of the node, and can be resized."""
    scene = given(a_cluster(nodes=1, gpus=gpus)).with_recipe(recipe or quick())
    return scene.submit(a_secret("job", **fields)).decide().live("job")


def told(scene: Scene, job: str = "job", **said: Any) -> Scene:
    """A measurement at the width that the job has, unless something else is said."""
    gpus = said.pop("gpus", width(scene, job))
    speed = said.pop("speed", SECRET.at(max(gpus, 1)))
    epoch = said.pop("epoch", scene.epoch(job) if JobId(job) in scene.brain.state.slot_of else 1)
    said = {"nodes": 1, "seconds": 60.0, "work_done": 1000.0, **said}
    return scene.send(
        JobMeasured(scene.now, JobId(job), epoch, gpus, units_per_second=speed, **said)
    )


def measured(scene: Scene, job: str = "job", **said: Any) -> Scene:
    """A minute on it is measured, and the brain has decided."""
    return told(scene.tick(60.0), job, **said).wait(5.0)


def column(scene: Scene, name: str, job: str = "job") -> float:
    state = scene.brain.state
    return float(getattr(state.jobs, name)[state.slot_of[JobId(job)]])


def width(scene: Scene, job: str = "job") -> int:
    return int(column(scene, "width", job)) if JobId(job) in scene.brain.state.slot_of else 0


def speeds(scene: Scene, *widths: int, job: str = "job") -> list[float]:
    """As they are believed."""
    snapshot, slot = snap(scene), scene.brain.state.slot_of[JobId(job)]
    return list(snapshot.speeds(np.full(len(widths), slot), np.array(widths)))


def snap(scene: Scene) -> Snapshot:
    return scene.brain.state.snapshot(scene.now)


@pytest.mark.parametrize("make", [weave, afs_l, afs_p, optimus, even, maxmin])
def test_who_was_never_measured_grows_too(make: Maker) -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).with_recipe(quick(make))
    scene.submit(a_job("other", 4)).decide().submit(a_secret()).decide().live("job")
    scene.finish("other").wait(200.0)
    assert width(scene) == 8


# --- curves ---------------------------------------------------------------------------------------


def test_what_was_measured_is_believed_and_replaces_what_was_not() -> None:
    scene = one_wide()
    assert np.isnan(speeds(scene, 1, 8)).all(), "in units that nobody has told yet"
    told(scene)
    assert speeds(scene, 8) == pytest.approx([25.0], rel=0.01)
    assert speeds(scene, 4) == pytest.approx([12.5], rel=0.3), "without loss, as far as one knows"
    told(scene, gpus=4)
    assert speeds(scene, 4, 8) == pytest.approx([22.0, 25.0], rel=0.02)


def test_what_is_measured_again_is_the_mean_by_time() -> None:
    scene = told(told(one_wide(), speed=20.0, seconds=30.0), speed=40.0, seconds=90.0)
    assert speeds(scene, 8) == pytest.approx([35.0], rel=0.01)
    (point,) = scene.brain.learning.lessons[0].points
    assert (point.units_per_second, point.seconds) == (35.0, 120.0)


@pytest.mark.parametrize("make", [weave, afs_l, afs_p, optimus, even, maxmin])
def test_who_claims_a_thousandfold_at_full_width_gets_no_more_for_it(make: Maker) -> None:
    true = {8: 8.0, 4: 4.0, 2: 2.0, 1: 1.0}
    assert _shared(make, true | {8: 8000.0}) <= _shared(make, true)


def _shared(make: Maker, claims: dict[int, float]) -> int:
    """What a job gets that claims these speeds, beside one that scales without loss."""
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick(make))
    for name in ("claims", "honest"):
        scene.submit(a_secret(name)).decide().live(name)
    for name, said in (("claims", claims), ("honest", {8: 8.0, 4: 4.0, 2: 2.0, 1: 1.0})):
        for gpus, speed in said.items():
            told(scene, name, gpus=gpus, speed=speed, work_total=1e5)
    return width(scene.wait(600.0), "claims")


def test_one_width_on_two_nodes_is_another_point() -> None:
    scene = told(told(one_wide()), nodes=2, speed=12.0)
    assert len(scene.brain.learning.lessons[0].points) == 2


def test_of_a_job_that_states_its_curve_nothing_is_learnt() -> None:
    stated = Curve(((1, 1.0), (8, 8.0)))
    scene = one_wide(curve=stated, tell_curve=True)
    before = speeds(scene, 1, 8)
    told(scene)
    assert speeds(scene, 1, 8) == before
    assert not column(scene, "explore")


def test_a_job_that_hardly_gains_by_gpus_leaves_them_to_one_that_does() -> None:
    """Believed to scale without loss they would share; measured to be flat it keeps little."""
    rival = a_job("rival", 8, width=(1, 8), tell_work=False, curve=Curve(((1, 1.0), (8, 8.0))))
    unaware = one_wide(quick(afs_p)).submit(rival).decide().live("rival").wait(60.0)
    assert width(unaware) >= 3
    aware = one_wide(quick(afs_p))
    for _ in range(3):
        measured(aware, speed=10.0)
    aware.submit(rival).decide().live("rival").wait(60.0)
    assert width(aware) <= 2
    assert width(aware, "rival") >= 6


def test_two_jobs_learn_apart() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(quick())
    scene.submit(a_secret("job"), a_secret("twin")).decide().live("job", "twin")
    told(scene, gpus=8, speed=25.0)
    told(scene, "twin", gpus=8, speed=50.0)
    assert speeds(scene, 8) == pytest.approx([25.0], rel=0.01)
    assert speeds(scene, 8, job="twin") == pytest.approx([50.0], rel=0.01)


def test_what_one_run_of_a_program_showed_is_believed_of_the_next() -> None:
    """Only of the same tenant and program: its level is new, its shape is not."""
    scene = one_wide(program="train", tenant="lab")
    for _ in range(3):
        measured(scene)
    scene.finish("job")
    for name, tenant in {"same": "lab", "foreign": "else"}.items():
        scene.submit(a_secret(name, program="train", tenant=tenant)).decide()
        told(scene, name, gpus=8, speed=50.0)
        (at_four,) = speeds(scene, 4, job=name)
        expected = 44.0 if name == "same" else 25.0
        assert at_four == pytest.approx(expected, rel=0.15), name
        scene.finish(name)


def _after_a_run(**fields: Any) -> Scene:
    """One job has shown its curve and is over."""
    scene = one_wide(**fields)
    for _ in range(3):
        measured(scene)
    return scene.finish("job")


def test_a_job_of_a_known_program_begins_with_its_forerunners_curve() -> None:
    scene = _after_a_run(program="train", tenant="lab")
    scene.submit(a_secret("same", program="train", tenant="lab"))
    assert speeds(scene, 1, 4, 8, job="same") == pytest.approx([10.0, 22.0, 25.0], rel=0.15)


def test_a_job_of_a_new_program_begins_with_what_is_typical_and_runs_wide() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick())
    assert _relative(scene.submit(a_secret("first")), "first")[8] == pytest.approx(8.0)
    scene = _after_a_run(program="train", tenant="lab")
    scene.submit(a_secret("new", program="other", tenant="lab")).decide()
    likely = _relative(scene, "new")
    assert 2.5 < likely[8] < 7.8
    assert (np.diff(likely[:9]) > 0).all()
    assert np.isnan(column(scene, "scale", "new")), "in units that nobody has told yet"
    assert width(scene, "new") == 8


def test_what_is_typical_keeps_the_unit_of_a_stated_length() -> None:
    scene = _after_a_run(program="train", tenant="lab")
    (before,) = speeds(given(a_cluster(nodes=1, gpus=8)).submit(_stated()), 8)
    assert speeds(scene.submit(_stated("new")), 8, job="new") == pytest.approx([before])


def _stated(name: str = "job") -> Job:
    return a_secret(name, seconds=100.0, tell_work=True)


def _relative(scene: Scene, job: str) -> Floats:
    curves = scene.brain.state.menus.table
    return np.asarray(curves.likely[int(column(scene, "menu", job))])


# --- exploring ------------------------------------------------------------------------------------


def test_it_is_taken_down_by_halves_until_three_widths_are_known() -> None:
    scene, seen = one_wide(), []
    for _ in range(3):
        seen.append(width(scene))
        measured(scene, work_done=100.0)
    assert seen == [8, 4, 2]
    assert not column(scene, "explore")
    assert {point.gpus for point in scene.brain.learning.lessons[0].points} == {8, 4, 2}
    assert not scene.all(Preempt)


def test_when_enough_is_known_it_grows_again_into_what_is_idle() -> None:
    scene = one_wide()
    for step in range(3):
        measured(scene, work_done=1e4 * (step + 1))
    scene.wait(60.0)
    assert width(scene) == 8
    resizes = len(scene.all(Resize))
    measured(scene, work_done=5e4).wait(60.0)
    assert (width(scene), len(scene.all(Resize))) == (8, resizes), "and is explored no more"


def test_a_growth_that_was_not_worth_it_is_thought_of_again_as_the_job_goes_on() -> None:
    scene = one_wide()
    scene.brain.state.resize_cost = MeasuredCost(30.0, 50)
    for _ in range(3):
        measured(scene, work_done=500.0)
    assert width(scene) == 2
    for hour in range(1, 11):
        told(scene.tick(3600.0), work_done=54_000.0 * hour).wait(60.0)
    assert width(scene) == 8


def test_a_width_that_is_known_is_passed_over() -> None:
    scene = told(one_wide(), gpus=4)
    assert column(scene, "explore") == 2
    measured(scene, gpus=8)
    assert width(scene) == 2


def test_it_goes_no_lower_than_it_may() -> None:
    scene = one_wide(least=3)
    measured(scene, work_done=100.0)
    assert width(scene) == 4
    measured(scene, work_done=100.0)
    assert width(scene) == 3
    measured(scene, work_done=100.0)
    assert (width(scene), column(scene, "explore")) == (3, 0.0)


@pytest.mark.parametrize("make", [afs_l, afs_p, optimus])
def test_recipes_that_use_curves_explore(make: Maker) -> None:
    assert width(measured(one_wide(quick(make)))) == 4


@pytest.mark.parametrize("make", [even, maxmin])
def test_recipes_that_use_no_curves_explore_nobody(make: Maker) -> None:
    scene = one_wide(quick(make))
    for _ in range(4):
        measured(scene)
    assert width(scene) == 8
    assert not scene.all(Resize)


def test_only_who_can_be_resized_live_is_explored() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick()).submit(a_secret()).decide()
    measured(scene).wait(60.0)
    assert width(scene) == 8
    assert not scene.all(Resize) and not scene.all(Preempt)


def test_a_job_of_one_width_is_not_explored() -> None:
    scene = one_wide(least=8)
    measured(scene)
    assert (width(scene), column(scene, "explore")) == (8, 0.0)


# --- what does no harm ----------------------------------------------------------------------------


def believed(scene: Scene) -> dict[str, Any]:
    state = scene.brain.state
    names = ("menu", "scale", "pace", "explore", "work_total", "steady", "width", "speed")
    columns = {name: getattr(state.jobs, name)[: state.size].tolist() for name in names}
    rows = state.menus.table.likely[: len(state.menus.table.widest)].tolist()
    return {**columns, "rows": rows, "scores": scene.brain.learning.curve_scores.count}


@pytest.mark.parametrize(
    "absurd",
    [
        {"gpus": 0, "speed": 1.0},
        {"gpus": -1, "speed": 1.0},
        {"gpus": 9, "speed": 1.0},
        {"gpus": 4, "speed": 0.0},
        {"gpus": 4, "speed": -3.0},
        {"gpus": 4, "speed": float("nan")},
        {"gpus": 4, "speed": float("inf")},
    ],
)
def test_an_absurd_speed_is_not_believed(absurd: dict[str, Any]) -> None:
    scene = told(one_wide(), speed=25.0)
    before, points = str(believed(scene)), scene.brain.learning.lessons[0].points
    told(scene, **absurd)
    assert str(believed(scene)) == before
    assert scene.brain.learning.lessons[0].points == points


def test_measurements_that_took_no_time_do_no_harm() -> None:
    scene = told(told(one_wide(), seconds=0.0), seconds=0.0)
    assert speeds(told(scene), 8) == pytest.approx([25.0], rel=0.01)


def test_work_that_is_no_number_is_not_believed() -> None:
    scene = told(one_wide(), work_done=float("nan"))
    assert np.isfinite(column(scene, "work_done"))


def test_news_of_a_job_that_nobody_knows_or_that_is_over_changes_nothing() -> None:
    scene = told(one_wide())
    before = str(believed(scene))
    told(scene, "stranger", gpus=4)
    assert str(believed(scene)) == before
    scene.finish("job")
    told(scene, gpus=4)
    assert not scene.brain.learning.lessons


def test_of_another_incarnation_the_speed_counts_but_not_the_work() -> None:
    scene = told(one_wide(), work_done=500.0)
    told(scene, gpus=4, epoch=scene.epoch("job") - 1, work_done=77.0)
    assert speeds(scene, 4) == pytest.approx([22.0], rel=0.05)
    assert column(scene, "work_done") == 500.0


def test_the_work_that_workers_count_is_the_truth() -> None:
    scene = measured(one_wide(), work_done=123.0)
    done = float(snap(scene).work_done(np.array([0]))[0])
    assert done == pytest.approx(123.0 + 5.0 * column(scene, "speed"), rel=0.3)
    told(scene, work_done=400.0)
    assert column(scene, "work_done") == 400.0


def test_a_job_that_waits_may_be_measured_late() -> None:
    """Old news of a job that has been stopped: a speed is a fact of its width."""
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick())
    scene.submit(a_job("other", 8, preemptible=False)).decide()
    scene.submit(a_secret()).decide().expect("job", is_now(State.QUEUED))
    told(scene, gpus=4, work_done=500.0).expect("job", is_now(State.QUEUED))
    assert speeds(scene, 4) == pytest.approx([22.0], rel=0.01)
    assert (column(scene, "work_done"), column(scene, "speed")) == (0.0, 0.0)
    scene.finish("other").decide().expect("job", runs)


def test_news_that_is_none_asks_for_no_round() -> None:
    scene = one_wide(quick(), least=8)
    measured(scene).wait(600.0)
    rounds = scene.brain.rounds
    told(scene.tick(60.0)).wait(600.0)
    assert scene.brain.rounds == rounds
    told(scene.tick(60.0), speed=100.0, seconds=6000.0).wait(600.0)
    assert scene.brain.rounds > rounds


# --- lengths --------------------------------------------------------------------------------------


def is_predictable(scene: Scene, job: str = "job") -> bool:
    return column(scene, "steady", job) >= PREDICTABLE_AFTER


def interval(scene: Scene) -> tuple[float, float, float]:
    low, likely, high = (column(scene, f"work_{part}") for part in ("low", "total", "high"))
    return low, likely, high


def test_a_total_that_the_script_states_is_known_at_once() -> None:
    scene = one_wide()
    assert not is_predictable(scene)
    told(scene, work_total=5000.0)
    assert interval(scene) == (5000.0, 5000.0, 5000.0)
    assert is_predictable(scene)
    assert snap(scene).remaining_work(np.array([0])).tolist() == [4000.0]


@pytest.mark.parametrize("first", [None, 5000.0])
def test_a_total_that_is_stated_later_or_anew_is_known_at_once(first: float | None) -> None:
    scene = told(told(one_wide(), work_total=first), work_total=8000.0, work_done=1001.0)
    assert interval(scene) == (8000.0, 8000.0, 8000.0)


def test_a_total_that_was_stated_is_not_forgotten_by_a_report_without_one() -> None:
    scene = told(told(one_wide(), work_total=8000.0), work_done=2000.0)
    assert interval(scene) == (8000.0, 8000.0, 8000.0)


def test_what_its_owner_said_is_not_replaced() -> None:
    scene = told(one_wide(seconds=3600.0, tell_work=True), work_total=5.0)
    assert interval(scene) == (3600.0, 3600.0, 3600.0)


def test_a_job_becomes_predictable_by_its_loss_on_three_checks_in_a_row() -> None:
    loss = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=10_000.0)
    scene, done, steady = one_wide(loss=loss), 2000.0, []
    for _ in range(40):
        told(scene.tick(10.0), work_done=done, loss=loss.at(done))
        steady.append(int(column(scene, "steady")))
        done += 150.0
    assert is_predictable(scene)
    assert interval(scene)[1] == pytest.approx(10_000.0, rel=0.1)
    assert steady.index(1) < steady.index(2) < steady.index(3)
    assert steady.count(1) > 1, "a check that comes at once after another does not count"


def test_without_a_target_a_loss_says_nothing_of_the_end() -> None:
    loss = LossCurve(0.001, 0.2, 0.5)
    scene = one_wide(loss=loss)
    for done in (1000.0, 2000.0, 3000.0, 4000.0):
        told(scene.tick(10.0), work_done=done, loss=loss.at(done))
    assert np.isnan(interval(scene)).all()


def test_earlier_runs_of_the_same_program_tell_how_long_the_next_is() -> None:
    fields: dict[str, Any] = {"program": "train", "tenant": "lab"}
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick())
    for name, total in (("one", 9_000.0), ("two", 10_000.0), ("three", 11_000.0)):
        scene.submit(a_secret(name, **fields)).decide()
        told(scene, name, work_done=total).finish(name)
    scene.submit(a_secret("foreign", program="train", tenant="else")).decide()
    told(scene, "foreign", work_done=100.0)
    assert np.isnan(column(scene, "work_total", "foreign"))
    scene.finish("foreign").submit(a_secret("job", **fields)).decide()
    told(scene, work_done=100.0)
    low, likely, high = interval(scene)
    assert low < likely < high
    assert likely == pytest.approx(10_000.0, rel=0.05)


def test_a_run_that_failed_is_no_lesson_in_length() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(quick())
    for name in ("one", "two", "three"):
        scene.submit(a_secret(name, program="train")).decide()
        told(scene, name, work_done=50.0).fail(name, failure=Failure(FailureClass.USER))
    scene.submit(a_secret(program="train")).decide()
    told(scene, work_done=10.0)
    assert np.isnan(column(scene, "work_total"))


# --- scores ---------------------------------------------------------------------------------------


def test_a_width_that_was_foretold_is_scored_once_when_it_is_measured() -> None:
    scene = told(one_wide())
    assert scene.brain.learning.curve_scores.count == 0, "nothing had been foretold"
    (foretold,) = speeds(scene, 4)
    told(scene, gpus=4, speed=foretold)
    scores = scene.brain.learning.curve_scores
    assert (scores.count, scores.covered) == (1, 1)
    assert scores.mean_error == pytest.approx(0.0)
    told(scene, gpus=4, speed=foretold)
    assert scene.brain.learning.curve_scores.count == 1, "it was known"
    told(scene, gpus=2, speed=1e6)
    assert scene.brain.learning.curve_scores.count == 2
    assert scene.brain.learning.curve_scores.covered == 1


@pytest.mark.parametrize(("truth", "covered"), [(10_000.0, 1), (90_000.0, 0)])
def test_a_length_that_was_foretold_is_scored_at_the_end(truth: float, covered: int) -> None:
    loss = LossCurve.through(first=5.0, target=1.0, floor=0.5, steps=10_000.0)
    scene = one_wide(loss=loss)
    for done in np.arange(500.0, 9_500.0, 500.0):
        told(scene.tick(10.0), work_done=float(done), loss=loss.at(float(done)))
    told(scene, work_done=truth)
    scene.finish("job")
    scores = scene.brain.learning.work_scores
    assert (scores.count, scores.covered) == (1, covered)


def test_a_length_that_was_never_foretold_is_not_scored() -> None:
    assert told(one_wide()).finish("job").brain.learning.work_scores.count == 0
    assert (
        one_wide(seconds=10.0, tell_work=True).finish("job").brain.learning.work_scores.count == 0
    )


# --- copies ---------------------------------------------------------------------------------------


def test_a_copied_brain_learns_apart() -> None:
    scene = told(one_wide())
    twin, before = scene.brain.copied(), str(believed(scene))
    event = JobMeasured(scene.now, JobId("job"), 1, 4, 1, 22.0, 60.0, 1000.0)
    twin.handle(event)
    assert str(believed(scene)) == before
    assert len(scene.brain.learning.lessons[0].points) == 1
    assert len(twin.learning.lessons[0].points) == 2


def test_a_slot_that_is_used_again_has_learnt_nothing() -> None:
    scene = told(one_wide(), work_total=5000.0)
    scene.finish("job").submit(a_secret("next")).decide()
    assert scene.brain.state.slot_of[JobId("next")] == 0
    assert np.isnan(speeds(scene, 8, job="next")).all()
    assert np.isnan(column(scene, "work_total", "next"))
    assert not column(scene, "explore", "next") and not is_predictable(scene, "next")
    assert 0 not in scene.brain.learning.lessons
