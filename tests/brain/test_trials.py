"""Gangs that wait are tried on one GPU first; who can start is never kept waiting for that."""

from typing import Any

import pytest

from tests.brain.failing import MISSING, SYNTAX, said
from tests.builders import Scene, a_cluster, a_job, a_node, given, is_now, runs
from weft.brain.event import JobForgotten
from weft.brain.instruction import Start
from weft.model.ids import JobId
from weft.model.state import State

FULL = a_cluster(nodes=2, gpus=8)
TRIAL = "gang.trial"


def a_waiting_gang(**fields: Any) -> Scene:
    """Fifteen of sixteen GPUs are taken for long, and a gang wants eight."""
    scene = given(FULL).with_settings(trial_seconds=600.0)
    scene.submit(a_job("big", 15, seconds=1e5)).decide().expect("big", runs)
    return scene.submit(a_job("gang", 8, **fields)).wait(30.0)


def test_a_gang_that_waits_is_tried_on_one_gpu() -> None:
    scene = a_waiting_gang()
    assert sum(scene.last(Start, TRIAL).assignment.placement.gpus_by_node.values()) == 1
    scene.expect("gang", is_now(State.QUEUED)).expect(TRIAL, runs)


def test_a_gang_that_can_start_is_not_tried() -> None:
    scene = given(FULL).with_settings(trial_seconds=600.0).submit(a_job("gang", 8)).wait(30.0)
    scene.expect("gang", runs)
    assert not scene.all(Start, TRIAL)


def test_jobs_of_one_gpu_are_not_tried_and_nobody_where_it_is_not_asked_for() -> None:
    scene = given(FULL).submit(a_job("big", 16, seconds=1e5)).decide()
    scene.submit(a_job("gang", 8)).wait(30.0)
    assert JobId(TRIAL) not in scene.brain.state.slot_of
    other = given(FULL).with_settings(trial_seconds=600.0)
    other.submit(a_job("big", 16, seconds=1e5)).decide().submit(a_job("one")).wait(30.0)
    assert JobId("one.trial") not in other.brain.state.slot_of


def test_a_gang_whose_trial_shows_a_mistake_is_given_up_before_it_has_seats() -> None:
    scene = a_waiting_gang().fail(TRIAL, found=said(SYNTAX))
    closed = scene.brain.state.closed[JobId("gang")]
    assert closed.state is State.FAILED and closed.why.endswith("(seen on one GPU)")
    assert closed.diagnosis is not None and closed.diagnosis.line == SYNTAX
    assert closed.attained_gpu_seconds == 0.0


def test_what_may_be_the_inputs_is_confirmed_by_the_gang_itself() -> None:
    scene = a_waiting_gang().fail(TRIAL, found=said(MISSING)).expect("gang", is_now(State.QUEUED))
    scene.finish("big").wait(30.0).expect("gang", runs)
    scene.fail("gang", found=said(MISSING)).expect("gang", is_now(State.FAILED))


def test_a_trial_ends_when_its_gang_gets_seats() -> None:
    scene = a_waiting_gang().finish("big").wait(30.0)
    scene.expect("gang", runs).expect(TRIAL, is_now(State.CANCELLED))


def test_a_gang_that_needs_every_gpu_does_not_wait_for_its_own_trial() -> None:
    scene = given(FULL).with_settings(trial_seconds=600.0)
    scene.submit(a_job("big", 15, seconds=1e5)).decide()
    scene.submit(a_job("gang", 16)).wait(30.0).expect(TRIAL, runs)
    scene.finish("big").wait(30.0).expect("gang", runs).expect(TRIAL, is_now(State.CANCELLED))


def test_nobody_waits_for_the_trial_of_another() -> None:
    """By the whole cluster, and by the node that the trial is on."""
    scene = a_waiting_gang().submit(a_job("trusted", 2, program="x", max_nodes=1)).wait(30.0)
    scene.expect(TRIAL, runs).expect("trusted", is_now(State.QUEUED))
    node = next(iter(scene.nodes(TRIAL)))
    scene.change(a_node(node, 9)).wait(60.0).expect("trusted", runs)
    scene.expect(TRIAL, is_now(State.CANCELLED))


def test_a_trial_that_is_in_nobodys_way_goes_on() -> None:
    scene = a_waiting_gang().submit(a_job("more", 4)).wait(120.0)
    scene.expect(TRIAL, runs).expect("more", is_now(State.QUEUED))


def test_a_trial_that_passes_is_not_repeated() -> None:
    scene = a_waiting_gang().finish(TRIAL).wait(600.0).expect("gang", is_now(State.QUEUED))
    assert len(scene.all(Start, TRIAL)) == 1


def test_a_trial_ends_with_its_gang() -> None:
    scene = a_waiting_gang().cancel("gang").wait(30.0)
    scene.expect(TRIAL, is_now(State.CANCELLED))


def test_a_trial_that_somebody_ends_makes_room_for_another() -> None:
    scene = a_waiting_gang().submit(a_job("next", 8)).wait(30.0)
    assert not scene.all(Start, "next.trial"), "there is room for one"
    scene.cancel(TRIAL).wait(60.0).expect(TRIAL, is_now(State.CANCELLED))
    assert scene.all(Start, "next.trial")


def test_another_gang_of_the_same_name_is_tried_anew() -> None:
    scene = a_waiting_gang().cancel("gang").wait(30.0)
    scene.send(JobForgotten(scene.now, JobId("gang")))
    scene.submit(a_job("gang", 8)).wait(60.0).expect(TRIAL, runs)
    assert len(scene.all(Start, TRIAL)) == 2


def test_programs_that_ran_well_are_trusted() -> None:
    scene = given(FULL).with_settings(trial_seconds=600.0)
    scene.submit(a_job("first", 2, program="train.py")).decide().finish("first")
    scene.submit(a_job("big", 15, seconds=1e5)).decide()
    scene.submit(a_job("gang", 8, program="train.py")).wait(60.0)
    assert not scene.all(Start, TRIAL)
    scene.submit(a_job("other", 8, program="train.py", tenant="somebody")).wait(60.0)
    assert scene.all(Start, "other.trial"), "somebody else's program of that name is another one"


@pytest.mark.parametrize(("nodes", "most"), [(2, 1), (30, 2), (60, 4)])
def test_the_pool_is_small(nodes: int, most: int) -> None:
    cluster = a_cluster(nodes=nodes, gpus=8)
    scene = given(cluster).with_settings(trial_seconds=600.0)
    scene.submit(a_job("big", 8 * nodes - 8, seconds=1e5)).decide()
    scene.submit(*(a_job(f"gang{n}", 16) for n in range(40))).wait(60.0)
    trials = [job for job in scene.brain.state.slot_of if job.endswith(".trial")]
    assert len(trials) == most


def test_a_copy_tries_for_itself() -> None:
    scene = a_waiting_gang()
    twin = scene.brain.copied()
    twin.state.failures.trials.under_way.clear()
    assert JobId("gang") in scene.brain.state.failures.trials.under_way
