"""Jobs that count samples and claim no speed: of unknown length until they are measured."""

from typing import Any

import numpy as np
import pytest

from tests.builders import Scene, a_cluster, a_job, a_node, given, is_now, runs, waits_because
from weft.brain.event import JobMeasured, JobSubmitted
from weft.model.curve import Curve
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.reason import ReasonCode
from weft.model.request import Locality, WorkUnit
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.model.truth import Work
from weft.policy.recipes import RECIPES
from weft.spec.job_file import JobSpec
from weft.spec.request import to_request

FAST, SLOW = Curve(((1, 175.0), (8, 700.0))), Curve(((1, 1.75), (8, 7.0)))
SAMPLES = Work(1e5, WorkUnit.SAMPLES)


def counting(name: str, curve: Curve = FAST, gpus: int = 8, **fields: Any) -> Job:
    """It says how many samples, and not how fast."""
    words = {"width": (1, gpus), "work": SAMPLES, "curve": curve, "tell_curve": False}
    return a_job(name, gpus, **{**words, **fields})


def snap(scene: Scene) -> Snapshot:
    return scene.brain.state.snapshot(scene.now)


def measured(scene: Scene, job: str, speed: float, **said: Any) -> Scene:
    state = scene.brain.state
    gpus = int(state.jobs.width[state.slot_of[JobId(job)]])
    news = {"nodes": 1, "seconds": 60.0, "work_done": 100.0, **said}
    epoch = news.pop("epoch", scene.epoch(job))
    return scene.send(
        JobMeasured(scene.now, JobId(job), epoch, gpus, units_per_second=speed, **news)
    )


def test_a_speed_that_nobody_told_is_not_known() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(counting("a", FAST), counting("b", SLOW))
    snapshot, both = snap(scene), np.arange(2)
    assert np.isnan(snapshot.jobs.pace[both]).all() and np.isnan(snapshot.jobs.scale[both]).all()
    assert np.isnan(snapshot.remaining_seconds(both)).all()
    assert snapshot.remaining_work(both).tolist() == [1e5, 1e5], "in samples it is known"


def test_once_measured_its_length_is_known() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(RECIPES["weave"]())
    scene.submit(counting("a")).decide().expect("a", runs)
    measured(scene.tick(60.0), "a", 700.0)
    left = float(snap(scene).remaining_seconds(np.array([0]))[0])
    assert left == pytest.approx((1e5 - 100.0) / 700.0, rel=0.01)


@pytest.mark.parametrize("recipe", sorted(RECIPES))
def test_every_recipe_lives_with_it(recipe: str) -> None:
    with np.errstate(all="raise"):
        scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(RECIPES[recipe]())
        jobs = [counting(f"j{n}", gpus=6, width=(2, 6), locality=Locality()) for n in range(4)]
        scene.submit(*jobs, a_job("plain", 2)).decide()
        for name in sorted(scene.running()):
            if name != "plain":
                measured(scene.tick(60.0), name, 50.0)
        scene.wait(2000.0)
        for _ in range(8):
            for name in sorted(scene.running()):
                scene.finish(name)
            scene.wait(1000.0)
    ended = {scene.state(name) for name in ("j0", "j1", "j2", "j3", "plain")}
    assert ended == {State.SUCCEEDED}


def test_it_may_not_pass_a_gang_that_has_a_reservation() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(RECIPES["backfill"](reserve_after=60.0))
    scene.submit(a_job("first", 8, seconds=4000.0)).decide()
    scene.submit(a_job("gang", 16)).decide().tick(1800.0)
    scene.submit(counting("samples", gpus=8, width=(8, 8))).tick(1.0)
    scene.expect("samples", is_now(State.QUEUED), waits_because(ReasonCode.RESERVED))


# --- on GPUs of other speeds ----------------------------------------------------------------------


def picky(**fields: Any) -> Job:
    types = (("v100", 0.5), ("h100", 2.0))
    return counting("job", tell_work=False, **{"types": types, **fields})


def on(gpu_type: str, **fields: Any) -> Scene:
    node = a_node("n0", 8, type=gpu_type)
    scene = given(a_cluster(node)).with_recipe(RECIPES["weave"]())
    return scene.submit(picky(**fields)).decide().expect("job", runs)


@pytest.mark.parametrize(("gpu_type", "speed"), [("v100", 0.5), ("h100", 2.0)])
def test_the_speed_of_a_type_is_counted_once(gpu_type: str, speed: float) -> None:
    """What was measured there is what it goes on with there, and half or twice that elsewhere."""
    scene = on(gpu_type)
    measured(scene.tick(60.0), "job", 40.0)
    state = scene.brain.state
    assert state.jobs.speed[0] == pytest.approx(40.0, rel=0.01)
    assert state.jobs.pace[0] == pytest.approx(40.0 / speed, rel=0.01)


def test_news_of_an_earlier_incarnation_may_come_from_another_type() -> None:
    scene = on("v100")
    measured(scene.tick(60.0), "job", 40.0, epoch=0)
    assert np.isnan(scene.brain.state.jobs.pace[0])
    alike = on("v100", types=(("v100", 0.5), ("k80", 0.5)))
    measured(alike.tick(60.0), "job", 40.0, epoch=0)
    assert alike.brain.state.jobs.pace[0] == pytest.approx(80.0, rel=0.01)


def test_at_one_width_too_what_is_left_hangs_on_what_was_measured() -> None:
    """Of 1,500 steps that a script states, at 12 a second, two minutes are left: no half hour."""
    spec = JobSpec.model_validate({"run": "python train.py", "resources": {"gpus": 1}})
    asked = to_request(spec, id=JobId("a"), tenant=TenantId("me"), submit_seconds=0.0)
    scene = given(a_cluster(nodes=1, gpus=1)).send(JobSubmitted(0.0, asked)).decide()
    measured(scene.tick(60.0), "a", 12.0, work_total=1500.0)
    state = scene.brain.state
    assert float(state.jobs.speed[0]) == pytest.approx(12.0)
    left = float(snap(scene).remaining_seconds(np.array([0]))[0])
    assert left == pytest.approx(1400.0 / 12.0, rel=0.01)
