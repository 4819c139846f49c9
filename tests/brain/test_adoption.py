"""A brain that starts anew learns from the world what already runs, and takes it over."""

import pytest

from tests.builders import Scene, a_cluster, a_job, given, is_now, runs, seats
from weft.brain.event import JobReported, Past, Phase, Verb
from weft.brain.instruction import Start, Stop
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.policy.recipes import srtf

TWO_NODES = a_cluster(nodes=2, gpus=8)


def a_fresh_brain(*gpus: int) -> Scene:
    """It knows the nodes and the submitted jobs job0, job1, … and nothing else."""
    scene = given(TWO_NODES).stay_silent()
    return scene.submit(*(a_job(f"job{i}", width) for i, width in enumerate(gpus)))


def test_a_running_job_is_adopted_where_it_is_with_its_work_and_epoch() -> None:
    scene = a_fresh_brain(12).report(
        "job0", Phase.RUNNING, done=50.0, epoch=4, placement=seats(n0=8, n1=4)
    )
    scene.expect("job0", runs)
    assert (scene.nodes("job0"), scene.epoch("job0")) == ({"n0": 8, "n1": 4}, 4)
    assert scene.all(Start) == [] and scene.all(Stop) == []
    slot = scene.brain.state.slot_of[JobId("job0")]
    assert scene.brain.state.jobs.work_done[slot] == 50.0
    scene.finish("job0").expect("job0", is_now(State.SUCCEEDED))


def test_what_is_adopted_is_not_given_away() -> None:
    scene = a_fresh_brain(12, 8).report("job0", Phase.RUNNING, epoch=1, placement=seats(n0=8, n1=4))
    scene.decide().expect("job1", is_now(State.QUEUED))


def test_a_starting_job_is_adopted_and_its_answer_awaited() -> None:
    scene = a_fresh_brain(8).report("job0", Phase.STARTING, epoch=2, placement=seats(n1=8))
    scene.expect("job0", is_now(State.STARTING))
    scene.done("job0", Verb.START).expect("job0", runs)


def test_the_next_incarnation_counts_on_from_the_adopted_one() -> None:
    scene = a_fresh_brain(8).report("job0", Phase.RUNNING, epoch=6, placement=seats(n1=8))
    scene.fail("job0").tick(60.0).submit(a_job("nudge")).decide()
    assert scene.last(Start, "job0").epoch == 7


@pytest.mark.parametrize(
    "placement",
    [None, seats(gone=8), seats(n0=4, gone=4)],
    ids=["nowhere", "unknown node", "half on an unknown node"],
)
def test_an_incarnation_that_cannot_be_booked_must_go(placement: Placement | None) -> None:
    scene = a_fresh_brain(8).report("job0", Phase.RUNNING, epoch=3, placement=placement)
    assert (scene.last(Stop).why, scene.last(Stop).epoch) == ("unknown", 3)
    scene.expect("job0", is_now(State.QUEUED)).decide()
    assert scene.last(Start, "job0").epoch == 4, "the one that must go is never confused with it"


@pytest.mark.parametrize(
    "placement",
    [seats(n0=9), Placement((Seat(NodeId("n0"), 4), Seat(NodeId("n0"), 5)))],
    ids=["in one seat", "in two seats"],
)
def test_a_node_that_is_found_to_hold_more_than_it_has_is_cleared(placement: Placement) -> None:
    scene = a_fresh_brain(9).report("job0", Phase.RUNNING, epoch=3, placement=placement)
    scene.expect("job0", is_now(State.STOPPING)).done("job0", Verb.STOP, kept=0.0).decide()
    assert sorted(scene.nodes("job0")) == ["n0", "n1"]


def test_of_two_jobs_found_on_the_same_seats_the_later_one_is_stopped() -> None:
    scene = a_fresh_brain(8, 8)
    scene.report("job0", Phase.RUNNING, epoch=1, placement=seats(n0=8)).expect("job0", runs)
    scene.report("job1", Phase.RUNNING, epoch=1, placement=seats(n0=8))
    assert {stop.job for stop in scene.all(Stop)} == {"job1"}
    scene.done("job1", Verb.STOP, kept=0.0).decide()
    assert scene.nodes("job0").keys() != scene.nodes("job1").keys()


def test_on_a_lost_node_a_job_is_adopted_only_to_be_stopped() -> None:
    scene = a_fresh_brain(8).lose("n0")
    scene.report("job0", Phase.RUNNING, epoch=1, placement=seats(n0=8))
    scene.expect("job0", is_now(State.STOPPING)).decide()
    assert scene.all(Start) == [], "one incarnation at a time"
    scene.done("job0", Verb.STOP, kept=1.0).decide()
    assert scene.last(Start, "job0").epoch == 2


def test_a_job_found_stopping_is_adopted_until_it_is_gone() -> None:
    scene = a_fresh_brain(8).report("job0", Phase.STOPPING, epoch=1, placement=seats(n0=8))
    scene.expect("job0", is_now(State.STOPPING)).done("job0", Verb.STOP, kept=1.0)
    scene.expect("job0", is_now(State.QUEUED))


def test_an_incarnation_that_is_gone_leaves_its_number_and_its_work() -> None:
    scene = a_fresh_brain(8).report("job0", Phase.ABSENT, epoch=5, done=40.0).decide()
    assert scene.last(Start, "job0").epoch == 6
    slot = scene.brain.state.slot_of[JobId("job0")]
    assert scene.brain.state.jobs.work_done[slot] == 40.0


def test_a_job_that_nobody_submitted_must_go_unless_it_is_gone_already() -> None:
    scene = given(TWO_NODES)
    scene.report("stranger", Phase.RUNNING, epoch=1, placement=seats(n0=1))
    assert scene.last(Stop).job == "stranger"
    scene.report("ghost", Phase.ABSENT, epoch=1)
    assert scene.all(Stop, "ghost") == []


def test_a_job_that_is_over_and_still_runs_must_go() -> None:
    scene = given(TWO_NODES).submit(a_job("job")).decide().finish("job")
    scene.report("job", Phase.RUNNING, epoch=1, placement=seats(n0=1))
    assert scene.last(Stop).why == "unknown"


def test_a_later_incarnation_than_the_one_that_runs_must_go() -> None:
    scene = given(TWO_NODES).submit(a_job("job")).decide()
    scene.report("job", Phase.RUNNING, epoch=9, placement=seats(n1=1))
    assert scene.last(Stop).epoch == 9
    scene.expect("job", runs)
    assert scene.epoch("job") == 1


def test_a_width_that_the_job_cannot_have_is_not_adopted() -> None:
    scene = a_fresh_brain(4).report("job0", Phase.RUNNING, epoch=1, placement=seats(n0=5))
    scene.expect("job0", is_now(State.QUEUED))


def test_what_is_found_on_pledged_seats_costs_the_pledge() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=9e3)).decide().stay_silent()
    scene.submit(a_job("short", 8, seconds=9.0), a_job("stray", 8, seconds=9e3)).decide()
    scene.report("stray", Phase.RUNNING, epoch=1, placement=seats(n0=8))
    scene.expect("short", is_now(State.QUEUED)).expect("stray", runs)


def test_what_the_world_wrote_down_comes_back_with_the_job() -> None:
    scene = a_fresh_brain(8)
    past = Past(attained_gpu_seconds=640.0, failures=2, refusals=1, preemptions=3, losses=4)
    scene.send(JobReported(0.0, JobId("job0"), 4, Phase.ABSENT, 80.0, past=past))
    jobs, slot = scene.brain.state.jobs, scene.brain.state.slot_of[JobId("job0")]
    assert jobs.attained_gpu_seconds[slot] == 640.0
    assert (jobs.failures[slot], jobs.refusals[slot], jobs.preemptions[slot]) == (2, 1, 3)
    assert jobs.losses[slot] == 4
    scene.decide()
    assert scene.last(Start, "job0").epoch == 5


def test_a_past_is_told_only_once() -> None:
    scene = a_fresh_brain(8)
    scene.send(JobReported(0.0, JobId("job0"), 4, Phase.ABSENT, 0.0, past=Past(failures=2)))
    scene.send(JobReported(0.0, JobId("job0"), 5, Phase.ABSENT, 0.0, past=Past(failures=9)))
    assert scene.brain.state.jobs.failures[scene.brain.state.slot_of[JobId("job0")]] == 2
