"""What the world answers, late, twice or never: a lost message costs time and nothing else."""

import pytest

from tests.builders import Scene, a_cluster, a_job, given, is_now, runs, waits_because
from weft.brain.event import Phase, Verb
from weft.brain.instruction import Preempt, Probe, Start, Stop
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipes import las, srtf

ONE_NODE = a_cluster(nodes=1, gpus=8)


def a_starting_job(**times: float) -> Scene:
    scene = given(ONE_NODE).with_settings(**times).stay_silent()
    return scene.submit(a_job("job")).decide().expect("job", is_now(State.STARTING))


def a_stopping_job() -> Scene:
    scene = given(ONE_NODE).submit(a_job("job")).decide().tick(10.0).stay_silent()
    return scene.lose_worker("job", "n0").expect("job", is_now(State.STOPPING))


def test_instructions_name_themselves_by_job_epoch_and_verb() -> None:
    scene = a_starting_job()
    assert scene.last(Start, "job").id == "job/1/start"


def test_an_acknowledged_start_runs_and_the_second_acknowledgement_is_nothing() -> None:
    scene = a_starting_job().done("job", Verb.START).expect("job", runs)
    scene.tick(5.0).done("job", Verb.START).expect("job", runs)
    slot = scene.brain.state.slot_of[JobId("job")]
    assert scene.brain.state.jobs.started[slot] == 0.0


@pytest.mark.parametrize("verb", [Verb.STOP, Verb.PREEMPT])
def test_an_answer_to_what_was_not_asked_is_ignored(verb: Verb) -> None:
    a_starting_job().done("job", verb).expect("job", is_now(State.STARTING))


def test_answers_of_another_epoch_are_ignored() -> None:
    scene = a_starting_job()
    scene.done("job", Verb.START, epoch=7).refuse("job", epoch=0)
    scene.expect("job", is_now(State.STARTING))
    scene.send().done("job", Verb.START, epoch=1).expect("job", runs)


# --- refusals -----------------------------------------------------------------------------------


def test_a_refused_start_frees_the_seats_and_is_tried_in_the_next_round() -> None:
    scene = a_starting_job().refuse("job").expect("job", is_now(State.QUEUED))
    assert scene.nodes("job") == {}
    scene.decide().expect("job", is_now(State.STARTING))
    assert scene.last(Start, "job").epoch == 2, "a new incarnation"


def test_every_third_refusal_backs_off_and_the_pause_doubles() -> None:
    scene = a_starting_job()
    for _ in range(2):
        scene.refuse("job").decide()
    scene.refuse("job").expect("job", waits_because(ReasonCode.BACKOFF_REFUSED, refusals=3))
    slot = scene.brain.state.slot_of[JobId("job")]
    assert scene.brain.state.jobs.not_before[slot] == scene.now + 60.0
    scene.tick(60.0).submit(a_job("nudge")).decide().expect("job", is_now(State.STARTING))
    for _ in range(2):
        scene.refuse("job").decide()
    scene.refuse("job")
    assert scene.brain.state.jobs.not_before[slot] == scene.now + 120.0


def test_after_the_pause_it_is_tried_again_though_nothing_else_happens() -> None:
    scene = a_starting_job()
    for _ in range(2):
        scene.refuse("job").decide()
    scene.refuse("job").wait(61.0).expect("job", is_now(State.STARTING))


def test_only_a_start_can_be_refused() -> None:
    a_starting_job().refuse("job", Verb.STOP).expect("job", is_now(State.STARTING))
    a_stopping_job().refuse("job", Verb.STOP).expect("job", is_now(State.STOPPING))


def test_a_refusal_that_comes_after_the_acknowledgement_is_ignored() -> None:
    a_starting_job().done("job", Verb.START).refuse("job").expect("job", runs)


# --- probes -------------------------------------------------------------------------------------


def test_an_instruction_that_nobody_answers_is_probed_again_and_again() -> None:
    scene = a_starting_job(answer_seconds=120.0)
    scene.wait(119.0)
    assert scene.all(Probe) == []
    scene.wait(1.0)
    assert [probe.epoch for probe in scene.all(Probe, "job")] == [1]
    scene.wait(120.0)
    assert len(scene.all(Probe, "job")) == 2


def test_a_timely_answer_spares_the_probe() -> None:
    scene = a_starting_job(answer_seconds=120.0).done("job", Verb.START).wait(500.0)
    assert scene.all(Probe) == []


def test_probe_of_a_start_finds_it_running() -> None:
    scene = a_starting_job().wait(120.0).report("job", Phase.RUNNING, done=30.0)
    scene.expect("job", runs)
    slot = scene.brain.state.slot_of[JobId("job")]
    assert scene.brain.state.jobs.work_done[slot] == 30.0


def test_probe_of_a_start_finds_it_still_starting_and_goes_on_waiting() -> None:
    scene = a_starting_job().wait(120.0).report("job", Phase.STARTING)
    scene.expect("job", is_now(State.STARTING)).wait(119.0)
    assert len(scene.all(Probe)) == 1
    scene.wait(1.0)
    assert len(scene.all(Probe)) == 2


def test_probe_of_a_start_finds_nothing_and_the_same_start_is_sent_again() -> None:
    scene = a_starting_job().wait(120.0).report("job", Phase.ABSENT)
    first, second = scene.all(Start, "job")
    assert first == second, "acting twice on it is acting once"
    scene.expect("job", is_now(State.STARTING))


def test_probe_of_a_stop_finds_nothing_which_may_be_old_news_and_asks_again() -> None:
    scene = a_stopping_job().wait(120.0).report("job", Phase.ABSENT, done=4.0)
    scene.expect("job", is_now(State.STOPPING))
    assert [stop.why for stop in scene.all(Stop, "job")] == ["worker lost on n0", "asked before"]
    scene.done("job", Verb.STOP, kept=4.0).expect("job", is_now(State.QUEUED))
    slot = scene.brain.state.slot_of[JobId("job")]
    assert scene.brain.state.jobs.work_done[slot] == 4.0


def test_probe_of_a_stop_finds_it_running_and_asks_again() -> None:
    scene = a_stopping_job().wait(120.0).report("job", Phase.RUNNING)
    assert [stop.why for stop in scene.all(Stop, "job")] == ["worker lost on n0", "asked before"]
    scene.expect("job", is_now(State.STOPPING))


def test_probe_of_a_stop_finds_it_stopping_and_waits_on() -> None:
    scene = a_stopping_job().wait(120.0).report("job", Phase.STOPPING)
    assert len(scene.all(Stop, "job")) == 1
    scene.wait(120.0)
    assert len(scene.all(Probe, "job")) == 2


def test_a_running_job_that_is_not_found_is_stopped_for_good_before_it_starts_anew() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().tick(50.0).stay_silent()
    scene.report("job", Phase.ABSENT, done=20.0).expect("job", is_now(State.STOPPING))
    assert scene.last(Stop, "job").why == "not found"
    scene.done("job", Verb.STOP, kept=20.0).expect("job", is_now(State.QUEUED))
    scene.decide().expect("job", is_now(State.STARTING))


def test_a_running_job_that_says_nothing_is_probed_where_the_world_needs_that() -> None:
    scene = given(ONE_NODE).with_settings(silence_seconds=300.0)
    scene.submit(a_job("job")).decide().wait(200.0)
    scene.report("job", Phase.RUNNING, done=200.0).wait(299.0)
    assert scene.all(Probe) == []
    scene.wait(1.0)
    assert len(scene.all(Probe, "job")) == 1
    scene.report("job", Phase.RUNNING, done=500.0).expect("job", runs)


def test_a_running_job_found_stopping_is_watched() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().report("job", Phase.STOPPING)
    scene.expect("job", runs).wait(120.0)
    assert len(scene.all(Probe, "job")) == 1


def test_an_old_incarnation_that_still_runs_is_told_to_go() -> None:
    scene = given(ONE_NODE).submit(a_job("job")).decide().fail("job")
    scene.tick(60.0).submit(a_job("nudge")).decide().report("job", Phase.RUNNING, epoch=1)
    assert (scene.last(Stop).epoch, scene.last(Stop).why) == (1, "superseded")
    scene.expect("job", runs)
    scene.report("job", Phase.ABSENT, epoch=1)
    assert len(scene.all(Stop)) == 1


def test_work_reported_counts_more_than_work_assumed() -> None:
    scene = given(ONE_NODE).submit(a_job("job", seconds=1000.0)).decide().tick(100.0)
    scene.report("job", Phase.RUNNING, done=10.0).tick(5.0)
    view = scene.brain.state.snapshot(scene.now).job(scene.brain.state.slot_of[JobId("job")])
    assert view.remaining_seconds == pytest.approx(1000.0 - 15.0)
    assert view.attained_gpu_seconds == pytest.approx(105.0), "it held its GPU all the while"


# --- preemption, answered late ------------------------------------------------------------------


def test_a_beneficiary_starts_only_when_all_its_seats_are_free() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("a", 8, seconds=9000.0), a_job("b", 8, seconds=9000.0)).decide()
    scene.stay_silent().submit(a_job("gang", 16, seconds=9.0)).decide()
    assert {preempt.job for preempt in scene.all(Preempt)} == {"a", "b"}
    scene.expect("gang", is_now(State.ADMITTED), waits_because(ReasonCode.CAPACITY_RELEASING))
    scene.done("a", Verb.PREEMPT, kept=1.0).expect("gang", is_now(State.ADMITTED))
    assert scene.all(Start, "gang") == []
    scene.done("b", Verb.PREEMPT, kept=1.0).expect("gang", is_now(State.STARTING))


def test_the_same_release_told_twice_frees_nothing_twice() -> None:
    scene = given(ONE_NODE).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=9000.0)).decide().stay_silent()
    scene.submit(a_job("short", 8, seconds=9.0)).decide()
    scene.done("long", Verb.PREEMPT, kept=3.0).done("long", Verb.PREEMPT, kept=0.0, epoch=1)
    slot = scene.brain.state.slot_of[JobId("long")]
    assert scene.brain.state.jobs.work_done[slot] == 3.0
    scene.expect("short", is_now(State.STARTING))


def test_a_preempted_job_that_fails_while_it_stops_makes_room_as_well() -> None:
    scene = given(ONE_NODE).with_recipe(las(hold=0.0, spacing=1.0, min_run=0.0))
    scene.submit(a_job("old", 8)).decide().tick(100.0).stay_silent()
    scene.submit(a_job("new", 8)).decide().expect("new", is_now(State.ADMITTED))
    scene.fail("old").expect("new", is_now(State.STARTING))
    scene.expect("old", waits_because(ReasonCode.BACKOFF_RETRY))
