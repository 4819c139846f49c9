"""Jobs come, end, fail and are cancelled; each event is handled once and in every state."""

import pytest

from tests.builders import (
    a_cluster,
    a_job,
    a_request,
    given,
    is_now,
    runs,
    starts_on,
    waits_because,
)
from weft.brain.event import (
    JobCancelled,
    JobFinished,
    JobForgotten,
    JobSubmitted,
    Phase,
    Tick,
    Verb,
    WorkerLost,
)
from weft.brain.instruction import Preempt, Start, Stop, Wake
from weft.failure.evidence import Failure, FailureClass
from weft.model.ids import JobId, NodeId
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipes import srtf

ONE_NODE = a_cluster(nodes=1, gpus=8)


def test_a_job_is_decided_on_at_the_round_and_not_before() -> None:
    scene = given(ONE_NODE).submit(a_job("early", gpus=8))
    scene.expect("early", is_now(State.QUEUED), waits_because(ReasonCode.ROUND_PENDING))
    assert scene.all(Wake), "a submission asks for a round"
    scene.decide().expect("early", starts_on("n0", gpus=(8,)), runs)


def test_all_submissions_of_one_instant_are_seen_before_anything_is_decided() -> None:
    scene = given(ONE_NODE)
    scene.submit(a_job("first", gpus=8), a_job("urgent", gpus=8, priority=1)).decide()
    scene.expect("urgent", runs).expect("first", is_now(State.QUEUED))


def test_rounds_keep_their_spacing() -> None:
    scene = given(ONE_NODE).submit(a_job("one")).decide()
    began = scene.now
    scene.submit(a_job("two"))
    assert not scene.brain.round_is_due(began)
    assert scene.brain.round_is_due(began + 1.0)
    scene.tick(0.5).expect("two", is_now(State.QUEUED))
    scene.tick(0.5).expect("two", runs)


def test_a_tick_that_nobody_asked_for_changes_nothing() -> None:
    scene = given(ONE_NODE).submit(a_job("one")).decide().wait(10.0)
    before = scene.brain.rounds
    assert scene.brain.handle(Tick(scene.now)) == []
    assert scene.brain.rounds == before


def test_time_never_runs_backwards() -> None:
    scene = given(ONE_NODE).tick(100.0)
    scene.brain.handle(Tick(40.0))
    assert scene.brain.now == 100.0


def test_the_same_id_again_means_nothing_new() -> None:
    scene = given(ONE_NODE).submit(a_job("once", gpus=2)).submit(a_job("once", gpus=8)).decide()
    scene.expect("once", starts_on("n0", gpus=(2,)))
    scene.finish("once").submit(a_job("once", gpus=2))
    scene.expect("once", is_now(State.SUCCEEDED))
    assert len(scene.all(Start)) == 1


def test_a_finished_job_frees_its_seats_for_the_next() -> None:
    scene = given(ONE_NODE).submit(a_job("first", gpus=8), a_job("second", gpus=8)).decide()
    scene.tick(50.0).finish("first").decide().expect("second", runs)
    closed = scene.brain.state.closed[JobId("first")]
    assert closed.state is State.SUCCEEDED
    assert closed.attained_gpu_seconds == pytest.approx(8 * 50.0)


def test_a_job_may_finish_before_its_start_was_acknowledged() -> None:
    scene = given(ONE_NODE).stay_silent().submit(a_job("quick")).decide()
    scene.expect("quick", is_now(State.STARTING)).finish("quick")
    scene.expect("quick", is_now(State.SUCCEEDED))


def test_a_job_may_finish_while_it_is_being_stopped() -> None:
    scene = given(ONE_NODE).submit(a_job("almost")).decide().stay_silent().cancel("almost")
    scene.expect("almost", is_now(State.STOPPING)).finish("almost")
    scene.expect("almost", is_now(State.SUCCEEDED))


def test_a_report_of_an_earlier_incarnation_finishes_nothing() -> None:
    scene = given(ONE_NODE).submit(a_job("again")).decide().fail("again")
    stale = JobFinished(scene.now, JobId("again"), 1)
    scene.send(stale).expect("again", is_now(State.QUEUED))
    scene.send(JobFinished(scene.now, JobId("nobody"), 1))


# --- failure ------------------------------------------------------------------------------------


def test_a_failed_job_is_tried_again_after_its_back_off_though_nothing_else_happens() -> None:
    scene = given(ONE_NODE).submit(a_job("flaky")).decide().fail("flaky")
    scene.wait(59.0).expect("flaky", waits_because(ReasonCode.BACKOFF_RETRY, failures=1))
    scene.wait(2.0).expect("flaky", runs)


def test_back_off_doubles_with_every_failure_up_to_its_cap() -> None:
    scene = given(ONE_NODE).with_settings(backoff_seconds=60.0, backoff_cap_seconds=200.0)
    scene.submit(a_job("flaky", max_retries=10)).decide()
    delays = []
    for _ in range(4):
        failed_at = scene.now
        scene.fail("flaky")
        slot = scene.brain.state.slot_of[JobId("flaky")]
        delays.append(float(scene.brain.state.jobs.not_before[slot]) - failed_at)
        scene.tick(delays[-1]).submit(a_job(f"nudge{len(delays)}")).decide()
        scene.expect("flaky", runs)
    assert delays == [60.0, 120.0, 200.0, 200.0]


def test_a_job_in_back_off_does_not_start_early() -> None:
    scene = given(ONE_NODE).submit(a_job("flaky")).decide().fail("flaky")
    scene.tick(30.0).submit(a_job("other")).decide()
    scene.expect("other", runs).expect("flaky", waits_because(ReasonCode.BACKOFF_RETRY, delay=29.0))


def test_the_retry_budget_ends() -> None:
    scene = given(ONE_NODE).submit(a_job("doomed", max_retries=1)).decide().fail("doomed")
    scene.tick(60.0).submit(a_job("nudge")).decide().expect("doomed", runs).fail("doomed")
    scene.expect("doomed", is_now(State.FAILED))
    assert scene.brain.state.closed[JobId("doomed")].failures == 2


def test_a_failure_that_cannot_be_mended_is_final_at_once() -> None:
    scene = (
        given(ONE_NODE)
        .submit(a_job("broken"))
        .decide()
        .fail("broken", failure=Failure(FailureClass.USER, "no such file"))
    )
    scene.expect("broken", is_now(State.FAILED))
    why = scene.brain.state.closed[JobId("broken")].why
    assert why == "no such file; another try would end the same way"


def test_a_lost_worker_is_told_with_its_evidence() -> None:
    scene = given(ONE_NODE).stay_silent().submit(a_job("gang")).decide()
    failure = Failure(FailureClass.NODE, "w-0: Evicted")
    scene.send(WorkerLost(scene.now, JobId("gang"), 1, NodeId("n0"), failure))
    assert scene.last(Stop, "gang").why == "worker lost on n0: w-0: Evicted"


def test_a_job_whose_surroundings_fail_it_at_once_is_tried_ever_more_seldom() -> None:
    scene = given(ONE_NODE).submit(a_job("job", seconds=1e6)).decide()
    failure = Failure(FailureClass.SERVICE, "job-1-0: exit code 75")
    for times in range(1, 9):
        scene.expect("job", runs).lose_worker("job", "n0", failure)
        rest = min(60.0 * 2 ** (times - 1), 3600.0)
        scene.wait(rest - 1.0)
        scene.expect("job", waits_because(ReasonCode.BACKOFF_LOST, losses=times))
        scene.wait(11.0)
    scene.expect("job", runs).wait(3600.0).lose_worker("job", "n0", failure)
    scene.expect("job", waits_because(ReasonCode.BACKOFF_LOST, losses=1))
    assert scene.brain.state.jobs.failures[scene.brain.state.slot_of[JobId("job")]] == 0


def test_others_get_the_seats_of_one_that_rests() -> None:
    scene = given(ONE_NODE).submit(a_job("job", 8), a_job("other", 8)).decide()
    failure = Failure(FailureClass.SERVICE, "job-1-0: exit code 75")
    scene.expect("job", runs).lose_worker("job", "n0", failure).wait(30.0)
    scene.expect("other", runs)


def test_who_is_drained_goes_on_elsewhere_at_once() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().lose_worker("job", "n0").decide()
    scene.expect("job", runs)


def test_what_was_checkpointed_is_kept_and_the_rest_is_lost() -> None:
    scene = given(ONE_NODE).submit(a_job("long", seconds=1000.0)).decide().tick(400.0)
    scene.fail("long", kept=300.0)
    view = scene.brain.state.snapshot(scene.now).job(scene.brain.state.slot_of[JobId("long")])
    assert view.remaining_seconds == pytest.approx(700.0)
    assert view.state is State.QUEUED


def test_a_job_that_fails_while_it_is_cancelled_is_cancelled() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().stay_silent().cancel("job").fail("job")
    scene.expect("job", is_now(State.CANCELLED))


def test_a_failure_of_an_earlier_incarnation_is_ignored() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().fail("job")
    scene.fail("job").expect("job", is_now(State.QUEUED))
    assert scene.brain.state.jobs.failures[scene.brain.state.slot_of[JobId("job")]] == 1


def test_a_lost_worker_stops_the_whole_gang_which_then_waits_again() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("gang", gpus=16)).decide()
    scene.stay_silent().lose_worker("gang", "n1").expect("gang", is_now(State.STOPPING))
    assert scene.last(Stop, "gang").why == "worker lost on n1"
    scene.lose_worker("gang", "n0")
    assert len(scene.all(Stop, "gang")) == 1, "it is stopping already"
    scene.done("gang", Verb.STOP, kept=5.0).expect("gang", is_now(State.QUEUED))
    scene.decide().expect("gang", is_now(State.STARTING))


# --- cancelling ---------------------------------------------------------------------------------


def test_cancel_while_queued() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).cancel("job")
    scene.expect("job", is_now(State.CANCELLED))
    assert scene.all(Stop) == []


def test_cancel_while_admitted_lets_the_pledged_seats_go() -> None:
    scene = given(ONE_NODE).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", gpus=8, seconds=9000.0)).decide().stay_silent()
    scene.submit(a_job("short", gpus=8, seconds=9.0)).decide()
    scene.expect("short", is_now(State.ADMITTED)).cancel("short")
    scene.expect("short", is_now(State.CANCELLED))
    scene.done("long", Verb.PREEMPT, kept=1.0).decide().expect("long", is_now(State.STARTING))


@pytest.mark.parametrize("acknowledged", [True, False], ids=["running", "starting"])
def test_cancel_while_it_holds_seats_waits_for_the_world(acknowledged: bool) -> None:
    scene = given(ONE_NODE).stay_silent().submit(a_job("job")).decide()
    if acknowledged:
        scene.done("job", Verb.START)
    scene.cancel("job").expect("job", is_now(State.STOPPING))
    assert scene.last(Stop, "job").why == "cancelled"
    scene.done("job", Verb.STOP).expect("job", is_now(State.CANCELLED))


def test_cancel_while_it_is_being_preempted_ends_it() -> None:
    scene = given(ONE_NODE).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", gpus=8, seconds=9000.0)).decide().stay_silent()
    scene.submit(a_job("short", gpus=8, seconds=9.0)).decide().cancel("long")
    scene.expect("long", is_now(State.STOPPING)).done("long", Verb.PREEMPT, kept=0.0)
    scene.expect("long", is_now(State.CANCELLED)).expect("short", is_now(State.STARTING))
    assert scene.all(Stop) == [] and len(scene.all(Preempt)) == 1


def test_cancel_after_the_end_or_of_a_stranger_is_ignored() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().finish("job").cancel("job")
    scene.expect("job", is_now(State.SUCCEEDED))
    assert scene.brain.handle(JobCancelled(scene.now, JobId("nobody"))) == []


def test_a_slot_that_is_given_back_starts_clean() -> None:
    scene = given(ONE_NODE).submit(a_job("first")).decide().tick(500.0).finish("first")
    scene.submit(a_job("second")).decide()
    assert scene.epoch("second") == 1
    view = scene.brain.state.snapshot(scene.now).job(scene.brain.state.slot_of[JobId("second")])
    assert (view.attained_gpu_seconds, view.id) == (0.0, "second")


def test_hundreds_of_jobs_and_seats_fit_though_the_tables_began_small() -> None:
    scene = given(a_cluster(nodes=40, gpus=8))
    scene.submit(*(a_job(f"job{i}") for i in range(300))).decide()
    assert len(scene.running()) == 300
    scene.finish(*(f"job{i}" for i in range(300)))
    assert scene.brain.state.finished.count == 300


def test_submission_carries_its_own_time() -> None:
    scene = given(ONE_NODE).tick(100.0)
    scene.send(JobSubmitted(100.0, a_request("late", at=40.0))).decide()
    scene.report("late", Phase.RUNNING, done=7.0).tick(10.0)
    view = scene.brain.state.snapshot(scene.now).job(scene.brain.state.slot_of[JobId("late")])
    assert view.remaining_seconds == pytest.approx(3600.0 - 17.0)


def test_a_name_may_be_used_again_once_the_world_has_forgotten_it() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("a", 8)).decide()
    scene.send(JobFinished(1.0, JobId("a"), 1))
    scene.submit(a_job("a", 8)).decide()
    assert JobId("a") not in scene.brain.state.slot_of, "it is still on record"
    scene.send(JobForgotten(2.0, JobId("a"))).submit(a_job("a", 8)).decide().expect("a", runs)


def test_a_job_that_runs_is_not_forgotten() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("a", 8)).decide()
    scene.send(JobForgotten(1.0, JobId("a"))).expect("a", runs)
