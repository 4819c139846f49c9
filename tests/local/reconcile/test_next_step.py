"""One step at a time: what is on record, seen and believed, and the one thing that follows."""

from dataclasses import replace

import pytest

from tests.local.builders import (
    NODE,
    NOW,
    a_look,
    a_seat,
    a_started,
    a_status,
    alive,
    an_assignment,
    an_entry,
    believed,
    ended,
    seats,
)
from weft.agent.outcome import Outcome
from weft.brain.event import (
    InstructionDone,
    InstructionRefused,
    JobCancelled,
    JobFailed,
    JobFinished,
    JobForgotten,
    JobReported,
    JobSubmitted,
    Past,
    Phase,
    PlansOffered,
    Verb,
    WorkerLost,
)
from weft.local.reconcile import plans
from weft.local.reconcile.next_step import next_step
from weft.local.reconcile.observation import KILLED, ObservedAgent, ObservedWorker, Presence
from weft.local.reconcile.step import (
    Kill,
    Launch,
    Note,
    OrderCompany,
    OrderDrain,
    OrderResize,
    Record,
    RecordEnd,
    RecordRunning,
    RecordSeats,
    RecordStopping,
    RecordTarget,
    RecordWaiting,
    Settle,
    Sweep,
    Void,
)
from weft.local.record.entry import End, Progress
from weft.model.capability import Capability
from weft.model.decision import NO_PARTY
from weft.model.errors import ProtocolError, SpecError
from weft.model.ids import PartyId
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.state import State
from weft.reconcile.belief import Belief, Resizing
from weft.reconcile.plans import told

S = State
FINISHED = End("finished", 0, "", 100.0)


# --- the brain hears of a job -------------------------------------------------------------------


def test_a_new_job_is_introduced() -> None:
    step = next_step(a_look(an_entry()))
    assert [type(event) for event in step.events] == [JobSubmitted]


def test_a_job_with_a_past_is_introduced_with_it() -> None:
    past = Past(50.0, 1, 2, 3)
    step = next_step(a_look(an_entry(past=past, work_saved=40.0)))
    report = step.events[1]
    assert isinstance(report, JobReported)
    assert (report.phase, report.work_done, report.past) == (Phase.ABSENT, 40.0, past)


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        (S.STARTING, Phase.STARTING),
        (S.RUNNING, Phase.RUNNING),
        (S.STOPPING, Phase.STOPPING),
        (S.QUEUED, Phase.ABSENT),
    ],
)
def test_what_is_on_record_is_what_a_fresh_brain_is_told(state: State, phase: Phase) -> None:
    report = next_step(a_look(a_started(state, 2, 3))).events[1]
    assert isinstance(report, JobReported)
    assert (report.epoch, report.phase) == (1, phase)
    assert (report.placement is None) == (phase is Phase.ABSENT)
    assert report.next_seat == 1


def test_a_fresh_brain_hears_what_the_program_offers_before_its_agent_has_spoken() -> None:
    """It would take it for one that has to be stopped for another plan."""
    entry = a_started(offers=(Capability.DATA, Capability.TENSOR))
    offered = next_step(a_look(entry)).events[2]
    assert offered == PlansOffered(NOW, entry.id, 1, (Capability.DATA, Capability.TENSOR))
    assert len(next_step(a_look(a_started())).events) == 2, "who has told nothing offers nothing"


def test_a_resize_under_way_is_told_with_both_of_its_sides() -> None:
    entry = a_started(
        S.RUNNING, 0, 1, target=(a_seat(0, 0), a_seat(2, 3)), target_serial=4, serial=3
    )
    report = next_step(a_look(entry)).events[1]
    assert isinstance(report, JobReported)
    assert report.placement is not None
    assert report.placement.numbers == {0, 1, 2}
    assert report.serial == 4


def test_a_file_that_cannot_be_used_is_settled() -> None:
    look = replace(a_look(an_entry()), job=None, fault="no run")
    assert next_step(look).action == Settle(S.FAILED, "no run")


# --- starting -----------------------------------------------------------------------------------


def test_nothing_starts_before_it_is_on_record() -> None:
    belief = believed(S.STARTING, 0)
    assert next_step(a_look(an_entry(), belief=belief)).action == Record(1, an_assignment(0))
    recorded = a_started(S.STARTING)
    assert next_step(a_look(recorded, belief=belief)).action == Launch()


def test_an_agent_that_answers_has_started() -> None:
    look = a_look(a_started(S.STARTING), alive(a_status()), believed(S.STARTING, 0))
    assert next_step(look).events == (InstructionDone(NOW, look.entry.id, 1, Verb.START),)


def test_an_agent_that_has_not_answered_yet_is_waited_for() -> None:
    step = next_step(a_look(a_started(S.STARTING), alive(), believed(S.STARTING, 0)))
    assert (step.events, step.action) == ((), None)
    assert step.look_at is not None


def test_an_agent_that_never_answers_is_killed() -> None:
    look = a_look(a_started(S.RUNNING), alive(silent_seconds=121.0), believed(S.RUNNING, 0))
    assert next_step(look).action == Kill()


def test_a_start_that_failed_is_refused_once_its_devices_are_free() -> None:
    """Else the next start would find the devices of this one in use."""
    fault, believing = "no permission", believed(S.STARTING, 0)
    failed = ObservedAgent(fault=fault)
    assert next_step(a_look(a_started(S.STARTING), failed, believing)).action == Void()
    words = replace(KILLED, why=fault)
    failed = replace(failed, presence=Presence.ENDED, words=words)
    assert next_step(a_look(a_started(S.STARTING), failed, believing)).action == Sweep()
    failed = replace(failed, swept=True)
    recorded = next_step(a_look(a_started(S.STARTING), failed, believing)).action
    assert isinstance(recorded, RecordEnd) and recorded.end.why == fault
    over = a_started(S.STARTING, end=recorded.end)
    refused = InstructionRefused(NOW, over.id, 1, Verb.START, fault)
    assert next_step(a_look(over, failed, believing)).events == (refused,)


def test_a_start_for_which_no_device_was_free_is_refused() -> None:
    look = a_look(an_entry(), belief=believed(S.STARTING, 0), note=Note(refusal=(1, "no device")))
    assert isinstance(next_step(look).events[0], InstructionRefused)


def test_a_record_from_the_future_is_somebody_elses() -> None:
    with pytest.raises(ProtocolError):
        next_step(a_look(a_started(epoch=3), belief=believed(S.STARTING, 0)))


# --- training -----------------------------------------------------------------------------------


def test_a_running_job_is_recorded_as_such_once() -> None:
    look = a_look(a_started(S.STARTING), alive(a_status()), believed(S.RUNNING, 0))
    assert next_step(look).action == RecordRunning()
    look = a_look(a_started(), alive(a_status()), believed(S.RUNNING, 0))
    assert next_step(look).action is None


@pytest.mark.parametrize("state", [S.STARTING, S.RUNNING])
def test_an_end_is_swept_then_recorded_then_told(state: State) -> None:
    entry, belief = a_started(state), believed(state, 0)
    unswept = ObservedAgent(Presence.ENDED, words=ended().words)
    assert next_step(a_look(entry, unswept, belief)).action == Sweep()
    action = next_step(a_look(entry, ended(), belief)).action
    assert isinstance(action, RecordEnd)
    over = a_started(state, end=action.end)
    assert next_step(a_look(over, ended(), belief)).events == (JobFinished(NOW, over.id, 1),)


def test_a_job_that_failed_has_what_it_saved() -> None:
    entry = a_started(progress=Progress(step=70, total=100, saved_step=49))
    agent = ended(Outcome.USER_ERROR, 3, saved_step=59)
    action = next_step(a_look(entry, agent, believed(S.RUNNING, 0))).action
    assert isinstance(action, RecordEnd)
    assert action.end.kept == pytest.approx(60.0)
    over = a_started(end=action.end)
    failed = next_step(a_look(over, agent, believed(S.RUNNING, 0))).events[0]
    assert isinstance(failed, JobFailed)
    assert failed.work_kept == pytest.approx(60.0)
    assert failed.failure.retryable


def test_a_job_without_a_duration_keeps_the_steps_that_it_saved() -> None:
    entry = a_started(progress=Progress(step=70, total=100, saved_step=49))
    look = a_look(entry, ended(Outcome.USER_ERROR, 3, saved_step=59))
    assert look.job is not None
    job = replace(look.job, work=None)
    action = next_step(replace(look, job=job, belief=believed(S.RUNNING, 0))).action
    assert isinstance(action, RecordEnd)
    assert action.end.kept == 60.0


def test_an_agent_without_last_words_was_killed() -> None:
    agent = ObservedAgent(Presence.ENDED, words=None, swept=True)
    entry = a_started(progress=Progress(step=70, total=100, saved_step=49))
    action = next_step(a_look(entry, agent, believed(S.RUNNING, 0))).action
    assert isinstance(action, RecordEnd)
    assert action.end.outcome == "infrastructure"
    assert action.end.kept == pytest.approx(50.0)


def test_a_running_job_whose_folder_is_gone_has_ended() -> None:
    belief = believed(S.RUNNING, 0)
    assert next_step(a_look(a_started(), ObservedAgent(), belief)).action == Sweep()
    swept = ObservedAgent(swept=True)
    assert isinstance(next_step(a_look(a_started(), swept, belief)).action, RecordEnd)


def test_a_job_that_somebody_else_drained_has_not_failed() -> None:
    entry = a_started(end=End("drained", 143, ""))
    step = next_step(a_look(entry, ended(Outcome.DRAINED, 143), believed(S.RUNNING, 0)))
    assert step.events == (WorkerLost(NOW, entry.id, 1, NODE),)


# --- resizing -----------------------------------------------------------------------------------


def resizing(held: tuple[int, ...], serial: int, *target: int) -> Belief:
    """It holds what it had and what it is to get."""
    order = Resizing(serial, frozenset(held), an_assignment(*target).placement)
    return believed(S.RESIZING, *held, serial=serial, resizing=order)


def test_a_resize_is_recorded_ordered_awaited_recorded_and_told() -> None:
    belief = resizing((0, 1), 1, 0, 1)
    entry = a_started()
    assert next_step(a_look(entry, alive(a_status()), belief)).action == RecordTarget(
        1, an_assignment(0, 1).placement
    )
    entry = a_started(target=seats(0, 1), target_serial=1)
    assert next_step(a_look(entry, alive(a_status()), belief)).action == OrderResize()
    note = Note(ordered=(1, 1))
    waits = next_step(a_look(entry, alive(a_status(1, 2)), belief, note=note))
    assert waits.action is None
    arrived = next_step(a_look(entry, alive(a_status(2)), belief, note=note))
    assert arrived.action == RecordSeats(1, seats(0, 1))
    entry = a_started(S.RUNNING, 0, 1, serial=1, target_serial=1)
    done = InstructionDone(NOW, entry.id, 1, Verb.RESIZE, serial=1)
    assert next_step(a_look(entry, alive(a_status(2)), belief)).events == (done,)


SPLIT = ExecutionPlan(tensor=2)


def replanning(plan: ExecutionPlan) -> Belief:
    """The same seats, and another plan on them."""
    order = Resizing(1, frozenset((0, 1)), an_assignment(0, 1).placement, plan)
    return believed(S.RESIZING, 0, 1, serial=1, resizing=order)


def test_another_plan_on_the_same_seats_is_ordered_awaited_recorded_and_told() -> None:
    belief, entry = replanning(SPLIT), a_started(S.RUNNING, 0, 1)
    as_it_is = a_status(2, plan="replicated", target_plan="replicated")
    assert next_step(a_look(entry, alive(as_it_is), belief)).action == RecordTarget(
        1, an_assignment(0, 1).placement, "tensor=2"
    )
    entry = replace(entry, target=seats(0, 1), target_serial=1, target_plan="tensor=2")
    assert next_step(a_look(entry, alive(as_it_is), belief)).action == OrderResize()
    note = Note(ordered=(1, 1))
    under_way = a_status(2, plan="replicated", target_plan="tensor=2")
    assert next_step(a_look(entry, alive(under_way), belief, note=note)).action is None
    there = a_status(2, plan="tensor=2", target_plan="tensor=2")
    step = next_step(a_look(entry, alive(there), belief, note=note))
    assert step.action == RecordSeats(1, seats(0, 1), "tensor=2")
    entry = a_started(S.RUNNING, 0, 1, serial=1, target_serial=1, plan="tensor=2")
    done = InstructionDone(NOW, entry.id, 1, Verb.RESIZE, serial=1)
    assert next_step(a_look(entry, alive(there), belief)).events == (done,)


def test_a_plan_that_did_not_work_is_told_as_the_old_one() -> None:
    belief, note = replanning(SPLIT), Note(ordered=(1, 1))
    entry = a_started(S.RUNNING, 0, 1, target=seats(0, 1), target_serial=1, target_plan="tensor=2")
    back = a_status(2, plan="replicated", target_plan="replicated")
    assert next_step(a_look(entry, alive(back), belief, note=note)).action == RecordSeats(
        1, seats(0, 1), ""
    )
    entry = a_started(S.RUNNING, 0, 1, serial=1, target_serial=1, plan="shard=2")
    (report,) = next_step(a_look(entry, alive(back), belief)).events
    assert isinstance(report, JobReported)
    assert report.plan == ExecutionPlan(data=2, sharding=Sharding.PARAMETERS)


@pytest.mark.parametrize(
    ("plan", "width", "text"),
    [
        (AS_WRITTEN, 4, ""),
        (SPLIT, 4, "tensor=2"),
        (ExecutionPlan(sharding=Sharding.PARAMETERS), 4, "shard=4"),
        (ExecutionPlan(sharding=Sharding.PARAMETERS, tensor=2), 4, "shard=2,tensor=2"),
        (ExecutionPlan(sharding=Sharding.PARAMETERS, shard_degree=2), 8, "shard=2"),
        (ExecutionPlan(pipeline=2, micro_batches=4), 2, "pipeline=2,micro_batches=4"),
    ],
    ids=str,
)
def test_a_plan_as_an_agent_is_told_it(plan: ExecutionPlan, width: int, text: str) -> None:
    assert told(plan, width) == text
    again = plans.believed(text)
    assert again is None or told(again, width) == text


@pytest.mark.parametrize(
    "plan",
    [
        ExecutionPlan(data=4),
        ExecutionPlan(data=1, tensor=2, recompute=True),
        ExecutionPlan(data=8, sharding=Sharding.OPTIMIZER, accumulation_steps=4, offload=True),
        ExecutionPlan(data=4, sharding=Sharding.PARAMETERS, shard_degree=2),
        AS_WRITTEN,
    ],
)
def test_all_of_a_plan_is_on_record_for_a_job_with_commands(plan: ExecutionPlan) -> None:
    text = plans.counted(plan, plan.data * plan.gpus_per_replica)
    assert plans.believed(text) == (None if plan == AS_WRITTEN else plan)
    assert plans.is_counted(text) == (plan != AS_WRITTEN)


def test_a_record_that_was_changed_by_hand_is_refused() -> None:
    for text in ("data=x", "data=1,odd=2", "data=1,sharding=most"):
        with pytest.raises(SpecError, match="no plan"):
            plans.believed(text)


def test_what_a_resize_cost_is_told_with_its_end() -> None:
    belief = resizing((0, 1), 1, 0, 1)
    entry = a_started(S.RUNNING, 0, 1, serial=1, target_serial=1)
    (done,) = next_step(a_look(entry, alive(a_status(2, paused_seconds=0.05)), belief)).events
    assert isinstance(done, InstructionDone)
    assert done.paused_seconds == 0.05


def test_of_many_targets_during_one_resize_only_the_newest_is_ordered() -> None:
    """The first is under way when four more are decided: those between reach no worker."""
    entry, note = a_started(target=seats(0, 1), target_serial=1), Note(ordered=(1, 1))
    newest = resizing((0, 1, 2), 5, 0, 2)
    on_its_way = alive(a_status(1, 2))
    assert next_step(a_look(entry, on_its_way, newest, note=note)).action == RecordTarget(
        5, an_assignment(0, 2).placement
    )
    entry = a_started(S.RUNNING, 0, 1, target=(a_seat(0, 0), a_seat(2, 2)), target_serial=5)
    assert next_step(a_look(entry, on_its_way, newest, note=note)).action == OrderResize()
    ordered = Note(ordered=(1, 5))
    assert next_step(a_look(entry, on_its_way, newest, note=ordered)).action is None


def test_a_shrink_is_over_when_the_devices_are_empty() -> None:
    belief = resizing((0, 1), 1, 0)
    entry = a_started(S.RUNNING, 0, 1, target=seats(0), target_serial=1)
    lingering = a_status(1, workers=a_status(2).workers)
    note = Note(ordered=(1, 1))
    assert next_step(a_look(entry, alive(lingering), belief, note=note)).action is None
    gone = a_status(1, workers=(a_status().workers[0], ObservedWorker(1, "exited", 1, 1)))
    step = next_step(a_look(entry, alive(gone), belief, note=note))
    assert step.action == RecordSeats(1, seats(0))


def test_workers_on_a_device_that_is_to_be_given_back_are_not_done() -> None:
    entry = a_started(S.RUNNING, 0, 1, target=seats(0), target_serial=1)
    belief = resizing((0, 1), 1, 0)
    other = a_status(1, workers=(ObservedWorker(1, "active", 0, 1),))
    step = next_step(a_look(entry, alive(other), belief, note=Note(ordered=(1, 1))))
    assert step.action is None


def test_a_job_that_gives_up_growing_keeps_what_it_has() -> None:
    belief = resizing((0, 1, 2), 1, 0, 1, 2)
    entry = a_started(target=seats(0, 1, 2), target_serial=1)
    gave_up = a_look(entry, alive(a_status(2)), belief, note=Note(ordered=(1, 1)))
    assert next_step(gave_up).action == RecordSeats(1, seats(0, 1))
    entry = a_started(S.RUNNING, 0, 1, serial=1, target_serial=1)
    report = next_step(a_look(entry, alive(a_status(2)), belief)).events[0]
    assert isinstance(report, JobReported)
    assert report.placement is not None
    assert report.placement.numbers == {0, 1}
    assert report.serial == 1


def test_a_job_that_cannot_be_resized_stays_as_it_is() -> None:
    entry = a_started(target=seats(0, 1), target_serial=1)
    belief = resizing((0, 1), 1, 0, 1)
    look = a_look(entry, alive(a_status(live=None)), belief)
    assert next_step(look).action == RecordSeats(1, seats(0))


def test_a_resize_of_an_earlier_daemon_is_brought_to_its_end() -> None:
    entry = a_started(S.RUNNING, 0, 1, target=seats(0), target_serial=2, serial=1)
    belief = believed(S.RUNNING, 0, 1, serial=2)
    assert next_step(a_look(entry, alive(a_status(2)), belief)).action == OrderResize()
    look = a_look(entry, alive(a_status()), belief, note=Note(ordered=(1, 2)))
    assert next_step(look).action == RecordSeats(2, seats(0))
    entry = a_started(serial=2, target_serial=2)
    report = next_step(a_look(entry, alive(a_status()), belief)).events[0]
    assert isinstance(report, JobReported)
    assert report.placement is not None
    assert report.placement.numbers == {0}


def test_a_job_that_lost_a_worker_for_good_gives_its_seat_back() -> None:
    entry, belief = a_started(S.RUNNING, 0, 1), believed(S.RUNNING, 0, 1)
    alone = a_status(1, workers=(ObservedWorker(1, "active", 0, 1),))
    action = next_step(a_look(entry, alive(alone), belief)).action
    assert action == RecordSeats(0, (a_seat(0, 1),))
    regrowing = a_look(entry, alive(a_status(1, 2)), belief)
    assert next_step(regrowing).action is None


# --- leaving ------------------------------------------------------------------------------------


def test_leaving_is_recorded_asked_for_and_awaited() -> None:
    belief = believed(S.STOPPING, 0, why="gives way to bob/big")
    running = a_look(a_started(), alive(a_status()), belief)
    assert next_step(running).action == RecordStopping("gives way to bob/big")
    entry = a_started(S.STOPPING, stopping_since=NOW - 5)
    assert next_step(a_look(entry, alive(a_status()), belief)).action == OrderDrain(25.0)
    asked = next_step(a_look(entry, alive(a_status()), belief, note=Note(drained=1)))
    assert (asked.action, asked.look_at) == (None, NOW + 35.0)
    draining = next_step(a_look(entry, alive(a_status(draining=True)), belief))
    assert draining.action is None


def test_who_does_not_leave_in_time_is_killed() -> None:
    entry = a_started(S.STOPPING, stopping_since=NOW - 41)
    look = a_look(entry, alive(a_status(draining=True)), believed(S.STOPPING, 0))
    assert next_step(look).action == Kill()


def test_what_has_left_is_swept_recorded_and_told() -> None:
    belief = believed(S.STOPPING, 0)
    entry = a_started(S.STOPPING, stopping_since=NOW)
    unswept = ObservedAgent(Presence.ENDED, words=ended(Outcome.DRAINED, 143).words)
    assert next_step(a_look(entry, unswept, belief)).action == Sweep()
    gone = ended(Outcome.DRAINED, 143)
    assert isinstance(next_step(a_look(entry, gone, belief)).action, RecordEnd)
    entry = a_started(S.STOPPING, end=End("drained", 143, "", 42.0))
    told = InstructionDone(NOW, entry.id, 1, Verb.STOP, 42.0)
    assert next_step(a_look(entry, gone, belief)).events == (told,)


def test_a_job_that_finished_before_it_could_leave_has_finished() -> None:
    entry = a_started(S.STOPPING, end=FINISHED)
    step = next_step(a_look(entry, ended(), believed(S.STOPPING, 0)))
    assert step.events == (JobFinished(NOW, entry.id, 1),)


def test_an_incarnation_that_never_began_is_declared_void() -> None:
    entry = a_started(S.STOPPING, stopping_since=NOW)
    assert next_step(a_look(entry, ObservedAgent(), believed(S.STOPPING, 0))).action == Void()


def test_a_decision_withdrawn_before_its_record_needs_no_action() -> None:
    entry = a_started(S.QUEUED, seats=())
    step = next_step(a_look(entry, ended(), believed(S.STOPPING, 0, epoch=2)))
    assert isinstance(step.events[0], InstructionDone)


# --- waiting, and the end -----------------------------------------------------------------------


def test_a_job_that_waits_holds_nothing() -> None:
    belief = believed(S.QUEUED)
    assert next_step(a_look(an_entry(), belief=belief)).action is None
    stopped = a_started(S.STOPPING, end=End("drained", 143, ""))
    assert next_step(a_look(stopped, ended(), belief)).action == RecordWaiting()
    stray = a_look(a_started(), alive(a_status()), belief)
    assert isinstance(next_step(stray).action, RecordStopping)


def test_a_wish_to_end_is_told_once() -> None:
    entry = a_started(cancelled=True)
    look = a_look(entry, alive(a_status()), believed(S.RUNNING, 0))
    assert next_step(look).events == (JobCancelled(NOW, entry.id),)
    look = a_look(entry, alive(a_status()), believed(S.STOPPING, 0, cancelling=True))
    assert isinstance(next_step(look).action, RecordStopping)


def test_what_is_over_is_settled_then_forgotten() -> None:
    entry = a_started(end=FINISHED)
    over = Belief(state=S.SUCCEEDED)
    assert next_step(a_look(entry, ended(), over)).action == Settle(S.SUCCEEDED, "")
    settled = an_entry(state=S.SUCCEEDED)
    assert next_step(a_look(settled, belief=over)).events == (JobForgotten(NOW, settled.id),)
    assert next_step(a_look(settled)).action is None


# --- in company ---------------------------------------------------------------------------------


def meets(told: str | None, meeting: str) -> object:
    """What follows where an agent says that it meets others there, and should elsewhere."""
    agent = alive(replace(a_status(1), company=told))
    belief = replace(believed(S.RUNNING, 0), party=PartyId("alice/lead/1") if meeting else NO_PARTY)
    look = a_look(a_started(S.RUNNING, 0), agent, belief)
    return next_step(replace(look, meeting=meeting)).action


def test_an_agent_is_told_of_company_until_it_says_so_itself() -> None:
    assert meets("", "/p/1") == OrderCompany("alice/lead/1")
    assert meets("/p/2", "/p/1") == OrderCompany("alice/lead/1")
    assert meets("/p/1", "/p/1") is None
    assert meets("/p/1", "") == OrderCompany(""), "and that it is alone again"
    assert meets("", "") is None
    assert meets(None, "/p/1") is None, "one that knows nothing of company is left alone"


def test_a_new_brain_hears_whom_it_joined() -> None:
    entry = a_started(S.RUNNING, 0, party="alice/lead/1")
    _, told = next_step(a_look(entry, alive(a_status(1)), Belief())).events
    assert isinstance(told, JobReported)
    assert told.party == "alice/lead/1"
