"""Jobs that slow each other are put apart where there is a choice, by what was measured alone."""

from typing import Any

from tests.builders import Scene, a_cluster, a_job, given, is_now, runs
from weft.brain.beside import slowed_by
from weft.brain.event import JobMeasured
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipes import RECIPES

HOUR = 3600.0


def measured(
    scene: Scene, job: str, speed: float, *, passed: float = 65.0, seconds: float = 60.0
) -> Scene:
    """Its workers tell what they did in the time that has just passed."""
    scene.now += passed
    nodes = scene.nodes(job)
    news = JobMeasured(
        scene.now,
        JobId(job),
        scene.epoch(job),
        gpus=sum(nodes.values()),
        nodes=len(nodes),
        units_per_second=speed,
        seconds=seconds,
        work_done=speed * scene.now,
    )
    return scene.send(news)


def a_loud_one(name: str, **fields: Any) -> Job:
    return a_job(name, 1, program="loud", seconds=10 * HOUR, **fields)


def a_sensitive_one(name: str, **fields: Any) -> Job:
    return a_job(name, 1, program="sensitive", seconds=10 * HOUR, **fields)


def learnt(nodes: int = 2, **settings: Any) -> Scene:
    """A sensitive job was seen at full speed alone, and at two thirds beside a loud one."""
    scene = given(a_cluster(nodes=nodes, gpus=4)).with_settings(**settings)
    scene.with_recipe(RECIPES["backfill"]())
    scene.submit(a_sensitive_one("first")).decide()
    measured(scene, "first", 1.0)
    scene.submit(a_loud_one("noise")).decide()
    for speed in (0.66, 0.67, 0.665):
        measured(scene, "first", speed)
    return scene


def test_the_next_one_is_put_elsewhere() -> None:
    scene = learnt().submit(a_sensitive_one("second")).decide()
    assert scene.nodes("second").keys() != scene.nodes("noise").keys()


def test_so_is_one_that_would_slow_others() -> None:
    scene = learnt().finish("noise").submit(a_loud_one("more")).decide()
    assert scene.nodes("more").keys() != scene.nodes("first").keys()


def test_others_are_packed_as_ever() -> None:
    scene = learnt().submit(a_job("quiet", 1, program="quiet")).decide()
    assert scene.nodes("quiet").keys() == scene.nodes("noise").keys()


def test_nobody_waits_for_a_kinder_place() -> None:
    scene = learnt().submit(a_job("wall", 4)).decide()
    scene.submit(a_sensitive_one("second")).decide().expect("second", runs)
    assert scene.nodes("second").keys() == scene.nodes("noise").keys()


def test_a_gang_is_not_spread_for_it() -> None:
    """Two GPUs are free beside the loud one, and one on each of two other nodes."""
    scene = learnt(nodes=3).submit(a_job("wall0", 3), a_job("wall1", 3)).decide()
    scene.submit(a_job("gang", 2, program="sensitive", locality=Locality())).decide()
    assert scene.nodes("gang").keys() == scene.nodes("noise").keys()


def test_why_can_name_it() -> None:
    scene = learnt()
    (beside,) = slowed_by(scene.brain, JobId("first"))
    assert beside.job == "noise"
    assert beside.nodes == tuple(scene.nodes("noise"))
    assert 0.3 < beside.slower < 0.55
    assert slowed_by(scene.brain, JobId("noise")) == ()
    assert slowed_by(scene.brain, JobId("nobody")) == ()


def test_where_it_is_not_to_learn_it_does_not() -> None:
    scene = learnt(learns_neighbours=False).submit(a_sensitive_one("second")).decide()
    assert scene.nodes("second").keys() == scene.nodes("noise").keys()


def test_a_time_in_which_somebody_came_or_went_says_nothing() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).submit(a_sensitive_one("first")).decide()
    measured(scene, "first", 1.0)
    scene.submit(a_loud_one("noise")).decide()
    measured(scene, "first", 0.6, seconds=500.0)
    scene.finish("noise")
    measured(scene, "first", 0.7, seconds=500.0)
    assert not scene.brain.state.neighbours.slowdowns.pairs


def test_a_message_that_comes_twice_was_measured_once() -> None:
    scene = learnt()
    before = dict(scene.brain.state.neighbours.slowdowns.pairs)
    last = JobMeasured(
        scene.now,
        JobId("first"),
        scene.epoch("first"),
        gpus=1,
        nodes=1,
        units_per_second=0.665,
        seconds=60.0,
        work_done=0.665 * scene.now,
    )
    scene.send(last)
    assert scene.brain.state.neighbours.slowdowns.pairs == before


def test_what_is_slow_alone_is_nobodys_fault() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).submit(a_sensitive_one("first")).decide()
    measured(scene, "first", 1.0)
    measured(scene, "first", 0.5)
    scene.submit(a_loud_one("noise")).decide()
    measured(scene, "first", 0.5)
    assert slowed_by(scene.brain, JobId("first")) == ()
    scene.expect("first", is_now(State.RUNNING))
