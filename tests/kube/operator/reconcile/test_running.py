"""A job that is resized while it trains, and workers that it loses: no cluster, no clock."""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from tests.kube.looks import DRAINED, NOW, a_job, a_pod, believed, kinds, seats, step
from weft.brain.event import (
    Event,
    InstructionDone,
    InstructionRefused,
    JobFailed,
    JobFinished,
    JobReported,
    Phase,
    Verb,
    WorkerLost,
)
from weft.failure.evidence import UNEXPLAINED, FailureClass
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.next_step import phase_seen
from weft.kube.operator.reconcile.step import (
    CreatePods,
    DeletePods,
    Note,
    RecordSeats,
    RecordStopping,
    Rules,
    Step,
)
from weft.kube.operator.reconcile.workers import failure_of
from weft.kube.reports.headship import Headship
from weft.model.errors import ProtocolError
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement
from weft.model.state import State
from weft.reconcile.belief import Belief, Resizing

VIT = JobId("lab/vit")
ELASTIC = {"resources": {"gpus": "1..4"}}


def on_record(
    placement: Placement,
    serial: int = 0,
    joining: Collection[int] = (),
    head: Headship | None = None,
    **more: Any,
) -> ObservedJob:
    decision: dict[str, Any] = {"serial": serial, "joining": sorted(joining)}
    if head is not None:
        decision["head"] = {"seat": head.seat, "term": head.term, "lost": list(head.lost)}
    more = {"spec": ELASTIC, "state": "Running"} | more
    return a_job(epoch=1, placement=placement, decision=decision, **more)


def training(*numbers: int, **more: Any) -> Belief:
    return believed(State.RUNNING, placement=seats(*numbers), **{"live": True} | more)


def resizing(before: set[int], target: set[int], serial: int = 1) -> Belief:
    """The brain has ordered it, and holds both what the job had and what it is to get."""
    order = Resizing(serial, frozenset(before), seats(*sorted(target)))
    both = seats(*sorted(before | target))
    return believed(State.RESIZING, placement=both, live=True, resizing=order)


def pods(*numbers: int, **more: Any) -> tuple[ObservedPod, ...]:
    return tuple(a_pod(number, gpus=1, **more) for number in numbers)


def answer(found: Step) -> Event:
    (event,) = found.events
    return event


# --- growing

GROWING = resizing({0, 1}, {0, 1, 2, 3})
GROWN = on_record(seats(0, 1, 2, 3), 1, {2, 3}, state="Resizing")


def test_a_growth_is_recorded_before_a_pod_is_created() -> None:
    found = step(on_record(seats(0, 1)), *pods(0, 1), belief=GROWING)
    (recorded,) = found.actions
    assert isinstance(recorded, RecordSeats)
    assert recorded.placement == seats(0, 1, 2, 3)
    assert (recorded.serial, set(recorded.joining)) == (1, {2, 3})
    assert (recorded.state, recorded.why) == (State.RESIZING, "from 2 to 4 GPUs")


def test_pods_that_are_to_join_are_created_and_waited_for() -> None:
    found = step(GROWN, *pods(0, 1), belief=GROWING)
    assert found.actions == (CreatePods(1, seats(0, 1, 2, 3), (2, 3), serial=1),)
    found = step(GROWN, *pods(0, 1, 2), belief=GROWING)
    assert found.actions == (CreatePods(1, seats(0, 1, 2, 3), (3,), serial=1),)
    assert step(GROWN, *pods(0, 1, 2), a_pod(3, "Pending"), belief=GROWING).idle


def test_a_growth_is_done_when_all_new_workers_run_and_that_is_on_record() -> None:
    settled = step(GROWN, *pods(0, 1, 2, 3), belief=GROWING)
    assert settled.actions == (RecordSeats(seats(0, 1, 2, 3), 1, state=State.RUNNING),)
    found = step(on_record(seats(0, 1, 2, 3), 1), *pods(0, 1, 2, 3), belief=GROWING)
    assert found.events == (InstructionDone(NOW, VIT, 1, Verb.RESIZE, serial=1),)


@pytest.mark.parametrize(
    ("joiner", "why"),
    [
        (a_pod(3, "Failed", exit_code=1), "vit-1-3: ended with exit code 1"),
        (a_pod(3, "Failed", reason="OutOfnvidia.com/gpu"), "vit-1-3: OutOfnvidia.com/gpu"),
        (a_pod(3, "Pending", deleting=True), "vit-1-3: taken away"),
    ],
)
def test_a_joiner_that_breaks_calls_the_growth_off_and_nobody_else_suffers(
    joiner: ObservedPod, why: str
) -> None:
    undone = step(GROWN, *pods(0, 1, 2), joiner, belief=GROWING)
    assert undone.actions == (RecordSeats(seats(0, 1), 1, cause="NotResized", why=why),)
    back = on_record(seats(0, 1), 1, state="Resizing")
    found = step(back, *pods(0, 1, 2), belief=GROWING, note=undone.note)
    assert found.actions == (DeletePods(pods(2)),)
    leaving = pods(2, deleting=True)
    assert step(back, *pods(0, 1), *leaving, belief=GROWING, note=undone.note).idle
    settled = step(back, *pods(0, 1), belief=GROWING, note=undone.note)
    assert settled.actions == (RecordSeats(seats(0, 1), 1, state=State.RUNNING),)
    told = step(on_record(seats(0, 1), 1), *pods(0, 1), belief=GROWING, note=settled.note)
    assert answer(told) == InstructionRefused(NOW, VIT, 1, Verb.RESIZE, why, serial=1)
    assert told.note == Note()


def test_a_joiner_that_nobody_can_bind_is_withdrawn_after_a_while() -> None:
    homeless = a_pod(3, "Pending", node="", unschedulable="Insufficient nvidia.com/gpu")
    waiting = step(GROWN, *pods(0, 1, 2), homeless, belief=GROWING)
    assert waiting.idle
    assert waiting.look_at == NOW + Rules().unschedulable_seconds
    late = {"note": waiting.note, "now": NOW + Rules().unschedulable_seconds}
    found = step(GROWN, *pods(0, 1, 2), homeless, belief=GROWING, **late)
    assert kinds(found) == [RecordSeats]
    assert "Insufficient" in str(found.actions[0])


def test_a_joiner_that_never_starts_does_not_hold_the_job_for_ever() -> None:
    waiting = step(GROWN, *pods(0, 1, 2), a_pod(3, "Pending"), belief=GROWING)
    assert waiting.look_at == NOW + Rules().join_seconds
    late = {"note": waiting.note, "now": NOW + Rules().join_seconds}
    found = step(GROWN, *pods(0, 1, 2), a_pod(3, "Pending"), belief=GROWING, **late)
    assert "vit-1-3: not started within 300 s" in str(found.actions[0])


def test_what_the_api_server_refuses_calls_the_growth_off() -> None:
    note = Note(refusal=(1, 1, "vit-1-3: exceeded quota"))
    found = step(GROWN, *pods(0, 1, 2), belief=GROWING, note=note)
    undo = RecordSeats(seats(0, 1), 1, cause="NotResized", why="vit-1-3: exceeded quota")
    assert found.actions == (undo,)
    # A refusal of another resize means nothing for this one.
    older = Note(refusal=(1, 0, "no room"))
    assert kinds(step(GROWN, *pods(0, 1, 2), belief=GROWING, note=older)) == [CreatePods]


def test_after_a_crash_a_growth_is_finished_with_nobody_waiting_for_the_answer() -> None:
    belief = training(0, 1, 2, 3)
    assert kinds(step(GROWN, *pods(0, 1, 2), belief=belief)) == [CreatePods]
    assert kinds(step(GROWN, *pods(0, 1, 2, 3), belief=belief)) == [RecordSeats]
    assert step(on_record(seats(0, 1, 2, 3), 1), *pods(0, 1, 2, 3), belief=belief).idle


def test_after_a_crash_a_growth_that_fails_is_let_go_by_the_brain() -> None:
    belief = training(0, 1, 2, 3)
    undone = step(GROWN, *pods(0, 1), a_pod(3, "Failed", exit_code=1), belief=belief)
    assert kinds(undone) == [RecordSeats]
    told = answer(step(on_record(seats(0, 1), 1), *pods(0, 1), belief=belief))
    assert isinstance(told, JobReported)
    assert (told.placement, told.serial, told.phase) == (seats(0, 1), 1, Phase.RUNNING)


# --- shrinking

SHRINKING = resizing({0, 1, 2}, {0, 1})
SHRUNK = on_record(seats(0, 1), 1, state="Resizing")


def test_a_shrinkage_is_recorded_before_a_pod_is_deleted() -> None:
    found = step(on_record(seats(0, 1, 2)), *pods(0, 1, 2), belief=SHRINKING)
    recorded = RecordSeats(seats(0, 1), 1, cause="Resizing", why="from 3 to 2 GPUs")
    assert found.actions == (recorded,)


def test_pods_that_the_record_does_not_name_go_and_only_then_it_is_done() -> None:
    found = step(SHRUNK, *pods(0, 1, 2), belief=SHRINKING)
    assert found.actions == (DeletePods(pods(2)),)
    assert step(SHRUNK, *pods(0, 1), *pods(2, deleting=True), belief=SHRINKING).idle
    assert kinds(step(SHRUNK, *pods(0, 1), belief=SHRINKING)) == [RecordSeats]
    found = step(on_record(seats(0, 1), 1), *pods(0, 1), belief=SHRINKING)
    assert found.events == (InstructionDone(NOW, VIT, 1, Verb.RESIZE, serial=1),)


def test_a_worker_that_leaves_with_a_fault_of_its_own_is_not_held_against_the_job() -> None:
    gone = a_pod(2, "Failed", exit_code=1)
    assert kinds(step(SHRUNK, *pods(0, 1), gone, belief=SHRINKING)) == [RecordSeats]


def test_pods_of_a_lost_node_that_are_to_leave_are_given_up_after_the_fence() -> None:
    leaving = pods(2, deleting=True)
    waiting = step(SHRUNK, *pods(0, 1), *leaving, belief=SHRINKING, lost={"n2": NOW - 1.0})
    assert waiting.idle and waiting.look_at == NOW - 1.0 + Rules().fence_seconds
    lost = {"n2": NOW - Rules().fence_seconds}
    late = step(SHRUNK, *pods(0, 1), *leaving, belief=SHRINKING, lost=lost)
    why = "n2 is out of reach, and the job has no volume to write to"
    assert late.actions == (DeletePods(leaving, now=True, why=why),)


def test_a_later_order_takes_the_place_of_one_that_is_under_way() -> None:
    """Seat 2 was to join, and its node is lost; so is seat 1."""
    order = resizing({0, 1, 2, 3}, {0, 3}, serial=2)
    job = on_record(seats(0, 1, 2, 3), 1, {2, 3}, state="Resizing")
    found = step(job, *pods(0, 1, 2), belief=order)
    (recorded,) = found.actions
    assert isinstance(recorded, RecordSeats)
    assert (recorded.placement, recorded.serial) == (seats(0, 3), 2)
    assert recorded.joining == {3}


# --- losses


def lost(number: int) -> list[ObservedPod | None]:
    return [
        None,
        a_pod(number, "Failed", exit_code=143, words=DRAINED),
        a_pod(number, "Failed", exit_code=75),
        a_pod(number, "Failed", reason="Evicted"),
        a_pod(number, "Failed", reason="NodeShutdown", exit_code=137),
    ]


@pytest.mark.parametrize("gone", lost(2))
def test_a_live_job_trains_on_without_a_worker_that_was_taken_away(
    gone: ObservedPod | None,
) -> None:
    seen = (*pods(0, 1), *([gone] if gone else []))
    found = step(on_record(seats(0, 1, 2), 3), *seen, belief=training(0, 1, 2))
    why = "vit-1-2 on n2 left; 2 GPUs train on"
    cut = RecordSeats(seats(0, 1), 3, state=State.RUNNING, cause="Shrunk", why=why)
    assert found.actions == (cut,)
    told = answer(step(on_record(seats(0, 1), 3), *seen, belief=training(0, 1, 2)))
    assert isinstance(told, JobReported)
    assert (told.phase, told.placement, told.serial) == (Phase.RUNNING, seats(0, 1), 3)
    assert step(on_record(seats(0, 1), 3), *seen, belief=training(0, 1)).idle


def test_a_worker_that_is_drained_is_waited_for_until_it_has_left() -> None:
    seen = (*pods(0, 1), *pods(2, deleting=True))
    assert step(on_record(seats(0, 1, 2)), *seen, belief=training(0, 1, 2)).idle


@pytest.mark.parametrize("gone", [*lost(0), a_pod(0, deleting=True)])
def test_a_job_that_cannot_be_led_by_another_does_not_outlive_its_head(
    gone: ObservedPod | None,
) -> None:
    seen = (*pods(1, 2), *([gone] if gone else []))
    belief = replace(training(0, 1, 2), live=False)
    found = step(on_record(seats(0, 1, 2)), *seen, belief=belief)
    (told,) = found.events
    assert isinstance(told, WorkerLost)
    assert (told.at, told.job, told.epoch, told.node) == (NOW, VIT, 1, NodeId("n0"))


def test_a_head_that_is_drained_is_waited_for_until_it_has_left() -> None:
    seen = (*pods(1, 2), *pods(0, deleting=True))
    assert step(on_record(seats(0, 1, 2)), *seen, belief=training(0, 1, 2)).idle


@pytest.mark.parametrize("gone", lost(0))
def test_another_seat_is_given_time_to_lead(gone: ObservedPod | None) -> None:
    """Then the job begins again; each loss of a head has its own time."""
    seen = (*pods(1, 2), *([gone] if gone else []))
    record, belief = on_record(seats(0, 1, 2), 3), training(0, 1, 2)
    held = step(record, *seen, belief=belief)
    assert held.idle
    assert (held.note.headless_since, held.look_at) == (NOW, NOW + 30.0)
    late = step(record, *seen, belief=belief, note=held.note, now=NOW + 30.0)
    assert kinds(late) == [WorkerLost]
    moved = on_record(seats(0, 1, 2), 3, head=Headship(1, 2))
    led = step(moved, *seen, belief=belief, note=held.note, now=NOW + 29.0)
    (cut,) = led.actions
    assert isinstance(cut, RecordSeats)
    assert (cut.placement, cut.state) == (seats(1, 2), State.RUNNING)
    assert led.note.headless_since is None
    shrunk = on_record(seats(1, 2), 3, head=Headship(1, 2))
    assert step(shrunk, *pods(1, 2), belief=training(0, 1, 2)).events
    after = step(shrunk, *pods(2), belief=training(1, 2))
    assert (after.idle, after.note.headless_since) == (True, NOW)


def test_a_head_that_was_lost_with_its_node_is_waited_for_beside_the_resize() -> None:
    """The brain lets the seats go; the world says so if nobody comes to lead."""
    order = resizing({0, 1, 2}, {1, 2})
    record = on_record(seats(1, 2), 1, state="Resizing")
    seen = (*pods(1, 2), *pods(0, deleting=True))
    lost = {"n0": NOW - 1.0}
    held = step(record, *seen, belief=order, lost=lost)
    assert held.idle
    assert held.note.headless_since == NOW
    assert held.look_at is not None
    assert held.look_at <= NOW + 30.0
    late = step(record, *seen, belief=order, lost=lost, note=held.note, now=NOW + 30.0)
    assert kinds(late) == [WorkerLost]
    led = on_record(seats(1, 2), 1, state="Resizing", head=Headship(2, 2))
    goes_on = step(led, *seen, belief=order, lost=lost, note=held.note, now=NOW + 30.0)
    assert WorkerLost not in kinds(goes_on)
    assert goes_on.note.headless_since is None


def test_a_head_whose_seat_is_taken_away_leads_until_it_has_left() -> None:
    record = on_record(seats(1, 2), 1, state="Resizing")
    seen = (*pods(1, 2), *pods(0, deleting=True))
    found = step(record, *seen, belief=resizing({0, 1, 2}, {1, 2}))
    assert (found.idle, found.note.headless_since) == (True, None)


def test_a_job_that_is_stopped_is_drained_by_whoever_leads_it() -> None:
    job = on_record(seats(1, 2), state="Stopping", head=Headship(2, 2))
    belief = believed(State.STOPPING, placement=seats(1, 2), live=True)
    (action,) = step(job, *pods(1, 2), belief=belief).actions
    assert isinstance(action, DeletePods)
    assert [pod.seat for pod in action.pods] == [2]


@pytest.mark.parametrize("gone", [*lost(2), a_pod(2, deleting=True)])
def test_a_job_that_would_be_too_narrow_stops_as_a_whole(gone: ObservedPod | None) -> None:
    job = on_record(seats(0, 1, 2), spec={"resources": {"gpus": "3..4"}})
    seen = (*pods(0, 1), *([gone] if gone else []))
    assert kinds(step(job, *seen, belief=training(0, 1, 2))) == [WorkerLost]


@pytest.mark.parametrize("gone", [*lost(2), a_pod(2, deleting=True)])
def test_a_job_that_cannot_be_resized_stops_when_it_loses_a_worker(
    gone: ObservedPod | None,
) -> None:
    seen = (*pods(0, 1), *([gone] if gone else []))
    belief = training(0, 1, 2, live=False)
    assert kinds(step(on_record(seats(0, 1, 2)), *seen, belief=belief)) == [WorkerLost]


def test_a_worker_that_fails_by_itself_is_no_loss() -> None:
    failed = a_pod(2, "Failed", exit_code=1)
    job, belief = on_record(seats(0, 1, 2)), training(0, 1, 2)
    assert step(job, *pods(0, 1), failed, belief=belief).actions == (DeletePods(pods(0, 1)),)
    assert kinds(step(job, failed, belief=belief)) == [JobFailed]


def test_a_loss_during_a_growth_is_recorded_and_the_growth_goes_on() -> None:
    found = step(GROWN, *pods(0, 2, 3), belief=GROWING)
    (recorded,) = found.actions
    assert isinstance(recorded, RecordSeats)
    assert (recorded.placement, set(recorded.joining)) == (seats(0, 2, 3), {2, 3})
    assert recorded.state is State.RESIZING
    told = answer(step(on_record(seats(0, 2, 3), 1), *pods(0, 2, 3), belief=GROWING))
    assert isinstance(told, JobReported)
    assert (told.placement, told.serial) == (seats(0, 2, 3), 1)


def test_a_loss_during_a_shrinkage_is_told_with_its_end() -> None:
    cut = step(SHRUNK, *pods(0), belief=SHRINKING)
    assert isinstance(cut.actions[0], RecordSeats)
    assert cut.actions[0].placement == seats(0)
    told = answer(step(on_record(seats(0), 1), *pods(0), belief=SHRINKING))
    assert isinstance(told, JobReported)
    assert told.placement == seats(0)


@pytest.mark.parametrize("job", [a_job("Running"), a_job("Running", epoch=2)])
def test_a_record_that_somebody_else_changed_is_not_followed(job: ObservedJob) -> None:
    with pytest.raises(ProtocolError, match="runs in epoch 1"):
        step(job, *pods(0, 1), belief=training(0, 1))


# --- ends


def test_a_job_that_finishes_while_others_join_does_not_wait_for_them() -> None:
    over = pods(0, 1, phase="Succeeded")
    found = step(GROWN, *over, a_pod(2, "Pending"), belief=GROWING)
    assert found.actions == (DeletePods((a_pod(2, "Pending"),)),)
    assert step(GROWN, *over, a_pod(2, "Pending", deleting=True), belief=GROWING).idle
    assert kinds(step(GROWN, *over, belief=GROWING)) == [JobFinished]


def test_a_job_that_shrank_has_finished_when_those_who_stayed_have() -> None:
    left = a_pod(2, "Failed", exit_code=143, words=DRAINED)
    job, belief = on_record(seats(0, 1), 1), training(0, 1)
    assert kinds(step(job, *pods(0, 1, phase="Succeeded"), left, belief=belief)) == [JobFinished]


def test_a_live_job_is_drained_by_its_head() -> None:
    belief = believed(State.STOPPING, placement=seats(0, 1), live=True, why="preempted")
    job = on_record(seats(0, 1), state="Stopping")
    assert step(job, *pods(0, 1), belief=belief).actions == (DeletePods(pods(0)),)
    leaving = (*pods(0, deleting=True), *pods(1))
    assert step(job, *leaving, belief=belief).idle
    drained = a_pod(0, "Failed", exit_code=143, deleting=True)
    assert step(job, drained, *pods(1), belief=belief).actions == (DeletePods(pods(1)),)
    assert kinds(step(job, belief=belief)) == [InstructionDone]


def test_a_head_out_of_reach_drains_nobody() -> None:
    belief = believed(State.STOPPING, placement=seats(0, 1), live=True, why="node n0 lost")
    job = on_record(seats(0, 1), state="Stopping")
    found = step(job, *pods(0, 1), belief=belief, lost={"n0": NOW})
    assert found.actions == (DeletePods(pods(0, 1)),)


@pytest.mark.parametrize("live", [True, False])
def test_a_drained_job_says_so_and_keeps_its_work(live: bool) -> None:
    belief = believed(
        State.STOPPING, placement=seats(0, 1), live=live, why="worker lost on n0", work_done=40.0
    )
    spec = ELASTIC | {"checkpoint": {"path": "/c"}}
    drained = [a_pod(number, "Failed", exit_code=143, words=DRAINED) for number in (0, 1)]
    found = step(on_record(seats(0, 1), spec=spec), *drained, belief=belief)
    assert found.actions == (RecordStopping(1, "drained: vit-1-0 on n0 was asked to leave"),)
    told = answer(
        step(on_record(seats(0, 1), state="Stopping", spec=spec), *drained, belief=belief)
    )
    assert told == InstructionDone(NOW, VIT, 1, Verb.STOP, 40.0)


# --- what the head says, and what is found after a crash


@pytest.mark.parametrize("state", [State.RUNNING, State.RESIZING])
def test_the_brain_hears_what_the_head_says_of_itself_once(state: State) -> None:
    belief = replace(SHRINKING if state is State.RESIZING else training(0, 1, 2), live=False)
    job = on_record(seats(0, 1, 2))
    told = answer(step(job, *pods(0, 1, 2), belief=belief, said_live=True))
    assert isinstance(told, JobReported)
    assert (told.live, told.placement) == (True, None)
    again = step(job, *pods(0, 1, 2), belief=replace(belief, live=True), said_live=True)
    assert not again.events


def test_a_head_that_speaks_before_its_gang_is_complete_starts_nothing() -> None:
    job, belief = (
        on_record(seats(0, 1), state="Starting"),
        believed(State.STARTING, placement=seats(0, 1)),
    )
    assert step(job, *pods(0), a_pod(1, "Pending"), belief=belief, said_live=True).idle


@pytest.mark.parametrize(
    ("placement", "joining", "live", "seen", "phase"),
    [
        (seats(0, 1, 2), {2}, None, (0, 1), Phase.RUNNING),
        (seats(0, 1, 2), {2}, None, (0,), Phase.STOPPING),
        (seats(0, 1, 2), set(), None, (0, 1), Phase.STOPPING),
        (seats(0, 1, 2), set(), True, (0, 1), Phase.RUNNING),
        (seats(0, 1, 2), set(), True, (1, 2), Phase.RUNNING),
        (seats(0, 1, 2), set(), True, (3,), Phase.STOPPING),
        (seats(0, 1), set(), None, (0, 1, 2), Phase.RUNNING),
    ],
)
def test_what_is_found_of_a_resized_incarnation(
    placement: Placement, joining: set[int], live: bool | None, seen: tuple[int, ...], phase: Phase
) -> None:
    decision = {"serial": 4, "joining": sorted(joining), "nextSeat": 7, "live": live}
    job = a_job("Resizing", 1, placement=placement, spec=ELASTIC, decision=decision)
    assert phase_seen(job, pods(*seen)) is phase
    _, reported = step(job, *pods(*seen)).events
    assert isinstance(reported, JobReported)
    assert (reported.serial, reported.next_seat, reported.live) == (4, 7, live)
    assert reported.placement == placement


@pytest.mark.parametrize(
    ("shown", "kind", "evidence"),
    [
        ({"exit_code": 1}, FailureClass.UNKNOWN, "vit-1-1: exit code 1"),
        (
            {"reason": "OOMKilled", "exit_code": 137},
            FailureClass.MEMORY,
            "OOMKilled, exit code 137",
        ),
        ({"reason": "Evicted"}, FailureClass.NODE, "vit-1-1: Evicted"),
        ({"reason": "OutOfcpu"}, FailureClass.NODE, "vit-1-1: OutOfcpu"),
        ({"exit_code": 75}, FailureClass.SERVICE, "vit-1-1: exit code 75"),
        ({}, FailureClass.UNKNOWN, ""),
    ],
)
def test_a_failure_is_told_with_what_its_pod_shows(
    shown: dict[str, Any], kind: FailureClass, evidence: str
) -> None:
    found = failure_of(a_pod(1, "Failed", **shown))
    assert (found.kind, found.node, found.rank) == (kind, "n1", 1)
    assert found.evidence.endswith(evidence)
    assert failure_of(None) == UNEXPLAINED
