"""What the brain believes, and what heads have said, in the words of a status."""

from dataclasses import replace

import pytest

from tests.kube.looks import a_pod, believed, seats
from tests.kube.operator.small_world import SmallWorld
from weft.kube.names import WorkerName
from weft.kube.operator.reconcile.beliefs import (
    BoundWorker,
    is_counted,
    slow_change,
    standing_of,
)
from weft.kube.operator.status.progress import Progress
from weft.kube.reports.payload import Report
from weft.kube.reports.server import WorkerIdentity
from weft.model.ids import JobId
from weft.model.state import State
from weft.reconcile.belief import Resizing, belief_of

HEAD = WorkerIdentity("lab", "wide", 1, 0)
FOLLOWER = WorkerIdentity("lab", "wide", 1, 3)
WIDE = JobId("lab/wide")


def shrinking(**more: object) -> SmallWorld:
    """A job of four GPUs that has been told to give two of them back, and has not done so."""
    world = SmallWorld({"n0": 2, "n1": 2}, "maxmin(hold=0.0, spacing=1.0, min_run=0.0)")
    world.submit("wide", "1..4", **more)
    world.settle()
    world.submit("late", "2")
    while belief_of(world.brain.state, WIDE, "", world.now).state is State.RUNNING:
        world.act()
    return world


def is_seated(world: SmallWorld, number: int, epoch: int = 1, **more: object) -> bool | None:
    """Whether the seat is counted for a pod of one GPU, by default on the seat's own node."""
    assignment = world.brain.state.seating.assignments[world.brain.state.slot_of[WIDE]]
    assert assignment is not None
    nodes = {seat.number: seat.node for seat in assignment.placement.seats}
    held = {"node": nodes.get(number, "n0"), "gpus": 1, **more}
    worker = BoundWorker(WorkerName("wide", epoch, number), **held)  # type: ignore[arg-type]
    return is_counted(world.brain.state, WIDE, worker)


def test_seats_that_are_being_left_count_until_they_are_free_and_no_longer() -> None:
    world = shrinking()
    assert [is_seated(world, number) for number in range(5)] == [True] * 4 + [False]
    world.settle()
    stayed = world.believed("wide")
    counted = {number for number in range(5) if is_seated(world, number)}
    assert counted == stayed
    assert len(stayed) == 2


def test_pods_of_other_epochs_and_of_jobs_that_nobody_knows_are_not_counted() -> None:
    world = shrinking()
    assert is_seated(world, 0, epoch=2) is False
    worker = BoundWorker(WorkerName("unknown", 1, 0), "n0", 1)
    assert is_counted(world.brain.state, JobId("lab/unknown"), worker) is None


def test_a_seat_accounts_for_no_pod_elsewhere_and_for_no_more_gpus() -> None:
    """A pod with the name, label and owner of a worker need not be one."""
    world = shrinking()
    assert is_seated(world, 0) is True
    assert is_seated(world, 0, gpus=2) is False
    assert is_seated(world, 0, node="elsewhere") is False


def test_work_grows_with_time_while_nobody_says_anything() -> None:
    world = shrinking(duration="2h")
    early = belief_of(world.brain.state, WIDE, "", world.now)
    late = belief_of(world.brain.state, WIDE, "", world.now + 10.0)
    assert late.work_done == pytest.approx(early.work_done + 10.0, abs=5.0)
    assert late.work_done > early.work_done


def test_steps_are_not_guessed() -> None:
    world = shrinking()
    assert belief_of(world.brain.state, WIDE, "", world.now + 10.0).work_done == 0.0


def test_a_resize_says_what_it_waits_for() -> None:
    order = Resizing(1, frozenset({0, 1}), seats(0, 1, 2))
    growing = believed(State.RESIZING, placement=seats(0, 1, 2), resizing=order)
    here = (a_pod(0), a_pod(1))
    starting = a_pod(2, "Pending")
    assert slow_change(growing, here) == "on its way to 3 GPUs"
    assert slow_change(growing, (*here, starting)).endswith("; vit-1-2: starting")
    homeless = replace(starting, node="", unschedulable="Insufficient nvidia.com/gpu")
    assert slow_change(growing, (*here, homeless)).endswith("vit-1-2: Insufficient nvidia.com/gpu")
    back = replace(growing, resizing=Resizing(2, frozenset({0, 1, 2}), seats(0, 1)))
    leaving = a_pod(2, deleting=True)
    assert slow_change(back, (*here, leaving)) == "on its way to 2 GPUs; vit-1-2: leaving"


def test_a_start_says_how_many_workers_run() -> None:
    belief = believed(State.STARTING)
    late = a_pod(1, "Pending", stuck="ImagePullBackOff")
    assert slow_change(belief, (a_pod(0), late)) == (
        "1 of 2 workers run; vit-1-1: ImagePullBackOff"
    )
    assert slow_change(belief, (a_pod(0), a_pod(1))) == ""
    assert slow_change(believed(State.RUNNING), (a_pod(0), late)) == ""


def test_only_the_head_says_whether_a_job_can_be_resized_and_only_for_its_epoch() -> None:
    progress = Progress()
    progress.hear("lab/wide", FOLLOWER, Report(live=True), 1.0)
    assert progress.live("lab/wide", 1) is None
    progress.hear("lab/wide", HEAD, Report(live=True), 2.0)
    progress.hear("lab/wide", FOLLOWER, Report(live=False), 3.0)
    progress.hear("lab/wide", HEAD, Report(), 4.0)
    assert progress.live("lab/wide", 1) is True
    assert progress.live("lab/wide", 2) is None
    progress.hear("lab/wide", replace(HEAD, epoch=2), Report(), 5.0)
    assert progress.live("lab/wide", 2) is None


def test_what_an_earlier_epoch_said_is_not_put_on_record() -> None:
    world = shrinking()
    progress = Progress()
    told = progress.hear("lab/wide", HEAD, Report(done=1.0, live=True), 1.0)
    assert standing_of(world.brain, WIDE, State.RUNNING, "", told).live is True
    older = replace(told, epoch=0)
    assert standing_of(world.brain, WIDE, State.RUNNING, "", older).live is None
