"""What random worlds have found, each as the shortest story that shows it."""

from typing import Any

import pytest

from tests.builders import a_cluster, a_job, a_node, a_queue, given, is_now, seats
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    InstructionRefused,
    JobFinished,
    NodeAdded,
    NodeLost,
    Phase,
    Verb,
)
from weft.brain.instruction import Preempt, Probe, Start, Stop
from weft.model.decision import Assignment
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipes import backfill, srtf
from weft.sim.costs import Costs, constant
from weft.sim.world import World


def test_old_news_of_absence_frees_no_seat_of_a_running_job() -> None:
    scene = given(a_cluster(nodes=1)).submit(a_job("a", 8)).decide()
    scene.stay_silent().report("a", Phase.ABSENT).expect("a", is_now(State.STOPPING))
    assert scene.nodes("a") == {"n0": 8}
    scene.done("a", Verb.STOP, kept=5.0).expect("a", is_now(State.QUEUED))


def test_old_news_of_absence_ends_no_stop() -> None:
    scene = given(a_cluster(nodes=1)).submit(a_job("a", 8)).decide()
    scene.stay_silent().cancel("a").report("a", Phase.ABSENT).expect("a", is_now(State.STOPPING))
    assert len(scene.all(Stop, "a")) == 2
    scene.done("a", Verb.STOP).expect("a", is_now(State.CANCELLED))


def test_quota_is_free_when_the_world_says_so() -> None:
    scene = given(a_cluster(nodes=2)).with_queues(a_queue("default", limit=8))
    scene.submit(a_job("a", 8)).decide().stay_silent().cancel("a")
    scene.submit(a_job("b", 8)).decide().expect("b", is_now(State.ADMITTED))
    scene.done("a", Verb.STOP).expect("b", is_now(State.STARTING))


def test_the_end_of_a_backoff_is_a_reason_for_a_round() -> None:
    scene = given(a_cluster(nodes=1)).with_settings(backoff_seconds=60.0)
    scene.submit(a_job("a", 8)).decide().fail("a").expect("a", is_now(State.QUEUED))
    scene.wait(62.0).expect("a", is_now(State.RUNNING))


def test_a_rebuilt_brain_goes_on_from_the_recorded_epoch_and_the_saved_work() -> None:
    scene = given(a_cluster(nodes=1)).submit(a_job("a", 8))
    scene.report("a", Phase.ABSENT, epoch=7, done=50.0).decide()
    assert scene.last(Start, "a").epoch == 8
    slot = scene.brain.state.slot_of[JobId("a")]
    assert scene.brain.state.jobs.work_done[slot] == 50.0


def test_a_rebuilt_brain_holds_the_seats_of_what_still_stops() -> None:
    scene = given(a_cluster(nodes=1)).stay_silent().submit(a_job("a", 8), a_job("b", 8))
    scene.report("a", Phase.STOPPING, epoch=3, placement=seats(n0=8)).decide()
    scene.expect("a", is_now(State.STOPPING)).expect("b", is_now(State.QUEUED))
    scene.done("a", Verb.STOP, epoch=3).expect("a", is_now(State.QUEUED))


def test_a_rebuilt_brain_relieves_a_node_that_holds_more_than_it_has() -> None:
    scene = given(a_cluster(a_node("n0", 4))).stay_silent().submit(a_job("a", 3), a_job("b", 3))
    scene.report("a", Phase.RUNNING, epoch=1, placement=seats(n0=3))
    scene.report("b", Phase.RUNNING, epoch=1, placement=seats(n0=3))
    scene.expect("a", is_now(State.RUNNING)).expect("b", is_now(State.STOPPING))


def test_a_rebuilt_brain_stops_what_ran_on_a_lost_node() -> None:
    scene = given(a_cluster(nodes=2)).stay_silent().lose("n0").submit(a_job("a", 8))
    scene.report("a", Phase.RUNNING, epoch=1, placement=seats(n0=8))
    scene.expect("a", is_now(State.STOPPING))


def test_a_node_that_shrinks_is_cleared_and_breaks_no_promise() -> None:
    scene = given(a_cluster(nodes=1)).stay_silent().submit(a_job("a", 8)).decide()
    scene.change(a_node("n0", 4)).expect("a", is_now(State.STOPPING))


def test_seats_on_a_cordoned_node_are_no_reason_to_preempt() -> None:
    scene = given(a_cluster(nodes=2)).with_recipe(srtf(spacing=1.0, min_run=0.0))
    scene.submit(a_job("a", 8), a_job("b", 8)).decide()
    scene.change(a_node("n0", 8, cordoned=True))
    scene.submit(a_job("wide", 16, seconds=10.0, locality=Locality())).decide()
    scene.expect("wide", is_now(State.QUEUED))
    assert not scene.all(Preempt)


# --- the simulated world -----------------------------------------------------------------------


class Overheard(World):
    """A world whose reports can be read."""

    told: list[Event]

    def __init__(self, *jobs: Job, **fields: Any) -> None:
        self.told = []
        super().__init__(a_cluster(nodes=1), jobs, Brain(backfill()), **fields)

    def _tell(self, event: Event) -> None:
        self.told.append(event)
        super()._tell(event)


def test_a_late_stop_does_not_make_the_world_forget_a_finish() -> None:
    world = Overheard(a_job("a", 8, seconds=10.0))
    world.run()
    world._act(Stop(JobId("a"), 0, "late"))
    world._act(Probe(JobId("a"), 1))
    assert isinstance(world.told[-1], JobFinished)


def test_what_was_refused_once_stays_refused() -> None:
    world = Overheard(a_job("a", 8))
    world.step()
    start = Start(JobId("a"), 1, Assignment(8, seats(n9=8)))
    world._act(start)
    world._planned(NodeAdded(world.now, a_node("n9")))
    world._act(start)
    assert [type(event) for event in world.told] == [InstructionRefused] * 2
    assert not world.running()


def test_a_stop_cut_short_by_a_lost_node_keeps_the_last_checkpoint() -> None:
    job = a_job("a", 8, seconds=1000.0, checkpoint_interval_seconds=100.0)
    world = Overheard(job, costs=Costs("slow", stop=constant(30.0)))
    while world.now < 250.0 and not (world.running() and world.running()[0].speed):
        world.step()
    begun = world.now
    world._agenda.now = begun + 250.0
    world._act(Stop(JobId("a"), 1, "cancelled"))
    world._planned(NodeLost(world.now, NodeId("n0")))
    assert world.running()[0].done == pytest.approx(200.0)


def test_a_broken_run_is_reported_as_it_is_so_that_a_lost_stop_is_repeated() -> None:
    world = Overheard(a_job("a", 8, seconds=1000.0))
    while not (world.running() and world.running()[0].speed):
        world.step()
    world._break_node(NodeId("n0"))
    world._act(Probe(JobId("a"), 1))
    assert world.told[-1].phase is Phase.RUNNING  # type: ignore[union-attr]


def test_a_resubmission_keeps_the_first_line_of_the_record() -> None:
    first, again = a_job("a", 8, seconds=10.0), a_job("a", 4, seconds=99.0, at=50.0)
    line = Overheard(first, again).run().jobs[JobId("a")]
    assert (line.submitted, line.gpus, line.starts, line.outcome) == (0.0, 8, 1, "succeeded")


def test_a_job_without_gpus_runs() -> None:
    world = Overheard(a_job("a", 0, seconds=10.0, cpus=1.0))
    assert world.run().jobs[JobId("a")].outcome == "succeeded"
