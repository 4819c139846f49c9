"""`backfill(make_way=true)`: a higher priority takes the seats of those who lose least by it."""

from typing import Any

from tests.builders import Scene, a_cluster, a_job, given, is_now, runs
from weft.brain.instruction import Preempt
from weft.model.state import State
from weft.policy.recipes import backfill

TWO = a_cluster(nodes=2, gpus=8)
HALF_AN_HOUR = 1800.0


def full(*, first: float = HALF_AN_HOUR, second: float = HALF_AN_HOUR) -> Scene:
    """Two jobs of a node each, the second ten minutes younger; they save every so often."""
    scene = given(TWO).with_recipe(backfill(make_way=True))
    saves: dict[str, Any] = {"saves_on_demand": False, "seconds": 9e4}
    scene.submit(a_job("old", 8, checkpoint_interval_seconds=first, **saves)).decide()
    scene.wait(600.0)
    scene.submit(a_job("young", 8, checkpoint_interval_seconds=second, **saves)).decide()
    return scene.expect("old", runs).expect("young", runs)


def victim(scene: Scene) -> str:
    return scene.last(Preempt).job


def test_who_has_just_saved_goes_though_it_is_the_older_one() -> None:
    scene = full().wait(1300.0)  # old saved 100 s ago, young has not saved for 1300 s
    scene.submit(a_job("urgent", 8, priority=1)).wait(30.0)
    assert victim(scene) == "old"
    scene.expect("urgent", runs).expect("old", is_now(State.QUEUED))


def test_the_youngest_goes_when_it_loses_least() -> None:
    scene = full().wait(1850.0)  # young saved 50 s ago, old 650 s ago
    scene.submit(a_job("urgent", 8, priority=1)).wait(30.0)
    assert victim(scene) == "young"


def test_who_saves_when_it_is_told_to_stop_loses_nothing() -> None:
    scene = given(TWO).with_recipe(backfill(make_way=True))
    scene.submit(a_job("saves", 8, seconds=9e4)).decide().wait(7000.0)
    scene.submit(a_job("late", 8, seconds=9e4, saves_on_demand=False)).decide().wait(1900.0)
    scene.submit(a_job("urgent", 8, priority=1)).wait(30.0)
    assert victim(scene) == "saves"


def test_equals_keep_what_they_have() -> None:
    scene = full().wait(1300.0).submit(a_job("equal", 8)).wait(600.0)
    scene.expect("equal", is_now(State.QUEUED))
    assert not scene.all(Preempt)


def test_the_lowest_priority_goes_before_who_loses_less() -> None:
    scene = given(TWO).with_recipe(backfill(make_way=True))
    saves: dict[str, Any] = {"saves_on_demand": False, "seconds": 9e4}
    scene.submit(a_job("low", 8, priority=0, **saves), a_job("middle", 8, priority=1)).decide()
    scene.wait(3000.0).submit(a_job("urgent", 8, priority=2)).wait(30.0)
    assert victim(scene) == "low"


def test_nobody_makes_way_unless_it_is_asked_for() -> None:
    scene = given(TWO).submit(a_job("a", 16, seconds=9e4)).decide().wait(2000.0)
    scene.submit(a_job("urgent", 8, priority=1)).wait(600.0)
    assert not scene.all(Preempt)
