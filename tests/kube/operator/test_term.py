"""A term in one process, without a server: what callbacks, clocks, queues and objects do to it.

The operator on a real control plane is in `test_operator`.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from tests.kube.operator.stage import RUNNING, Raw, Stage, played
from tests.waiting import hang_guard, until_async
from weft.brain import invariants
from weft.brain.brain import Brain
from weft.brain.event import JobSubmitted, Tick
from weft.brain.instruction import Preempt
from weft.brain.invariants import Breach
from weft.brain.journal import Journal
from weft.brain.protocol.jobs import Jobs
from weft.kube.operator import intake as intake_module
from weft.kube.operator.executor import executor as executor_module
from weft.kube.operator.faults import Faults
from weft.kube.operator.main import Operator
from weft.kube.operator.options import OperatorOptions
from weft.kube.operator.reconcile.beliefs import why_of
from weft.kube.operator.reconcile.next_step import next_step
from weft.kube.operator.reconcile.step import Look, Note, Step
from weft.kube.operator.status.term_metrics import measure, tell_waits
from weft.kube.operator.term import Term
from weft.model.errors import InvariantBreach
from weft.model.ids import JobId
from weft.model.reason import CAUSES, ReasonCode
from weft.model.state import State
from weft.policy.recipes import fifo

# --- what breaks in a callback --------------------------------------------------------------------


def test_a_promise_broken_in_a_callback_ends_the_term() -> None:
    async def scene() -> None:
        stage = Stage()
        for cache in (*_caches(stage.term),):
            cache.synced.set()
        stage.queue("default")
        stage.job("a/one")
        breaking = patch.object(invariants, "check", lambda *_: [Breach("p", "d")])
        with breaking, pytest.raises(InvariantBreach):
            async with hang_guard("the end of the term"):
                await stage.term.run()

    played(scene)


def test_what_breaks_under_a_report_ends_the_term_too() -> None:
    async def scene() -> None:
        stage = Stage()
        for cache in _caches(stage.term):
            cache.synced.set()
        running = asyncio.create_task(stage.term.run())
        await stage.term.wait_until_begun()
        breaking = patch.object(stage.term.brain, "handle", side_effect=ZeroDivisionError)
        with breaking, pytest.raises(ZeroDivisionError):
            stage.term.decider.deliver(Tick(stage.term.now()))
        with pytest.raises(ZeroDivisionError):
            async with hang_guard("the end of the term"):
                await running

    played(scene)


# --- one job's fault ------------------------------------------------------------------------------


def test_a_job_that_nobody_can_look_after_does_not_end_the_term() -> None:
    async def scene() -> None:
        stage = Stage()
        for cache in _caches(stage.term):
            cache.synced.set()
        stage.queue("default")
        bad, good = stage.job("a/bad"), stage.job("a/good")

        def stumbling(look: Look) -> Step:
            if look.key == bad:
                raise AssertionError("of this job alone")
            return next_step(look)

        with (
            patch.object(intake_module, "next_step", stumbling),
            patch.object(executor_module, "next_step", stumbling),
        ):
            running = asyncio.create_task(stage.term.run())
            await stage.term.wait_until_begun()
            await until_async(lambda: stage.term.aside(bad), "the job to be set aside")
            why, seconds = stage.term.aside(bad) or ("", 0.0)
            assert "of this job alone" in why
            assert seconds > 20.0
            assert stage.figure("weft_job_faults_total") == 1.0
            stage.rounds()
            assert stage.state(good) is State.STARTING
            assert not running.done()
            running.cancel()

    played(scene)


def test_a_job_that_breaks_the_brain_twice_is_not_handed_to_it_again() -> None:
    async def scene() -> None:
        faults = Faults()
        breaking = patch.object(Jobs, "submitted", stumble_over("a/bad"))
        with breaking:
            for _ in range(2):
                with pytest.raises(OverflowError):
                    a_stage_with_a_bad_job(faults).term._begin()
            stage = a_stage_with_a_bad_job(faults)
            stage.term._begin()
        assert "OverflowError" in (stage.term.aside("a/bad") or ("", 0.0))[0]
        stage.rounds()
        assert JobId("a/bad") not in stage.term.brain.state.slot_of
        assert stage.state("a/good") is State.STARTING

    played(scene)


def test_gpus_of_a_job_that_is_set_aside_are_nobody_elses() -> None:
    """Its workers train on. A term that begins meanwhile must not give their GPUs away."""

    async def scene() -> None:
        faults = Faults()
        now = time.time()
        for _ in range(2):
            faults.blame("a/trains", OverflowError(), now, ended_term=True)
        stage = Stage(faults=faults)
        stage.queue("default")
        stage.job("a/trains", RUNNING)
        stage.pod("a/trains", epoch=1, seat=0, node="n0")
        stage.job("a/big", resources={"gpus": 8})
        stage.job("a/fits", resources={"gpus": 7})
        stage.term._begin()
        stage.rounds()
        assert JobId("a/trains") not in stage.term.brain.state.slot_of
        assert [stage.state("a/big"), stage.state("a/fits")] == [State.QUEUED, State.STARTING]

        faults.forget("a/trains")  # its time is over
        stage.term.intake._meet("a/trains")
        stage.rounds()
        assert stage.state("a/trains") is State.RUNNING
        assert stage.state("a/fits") is State.STARTING, "nobody has to leave for it"
        assert stage.state("a/big") is State.QUEUED

    played(scene)


def test_a_job_whose_record_cannot_be_is_not_taken_for_one_that_waits() -> None:
    """It trains. Half told, it would be given seats beside those that it has."""

    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        stage.job("a/odd", {**RUNNING, "past": {"attainedGpuSeconds": 1e400}})
        stage.pod("a/odd", epoch=1, seat=0, node="n0")
        stage.job("a/wide", resources={"gpus": 8})
        stage.term._begin()
        assert stage.term.aside("a/odd") is not None
        stage.rounds()
        assert JobId("a/odd") not in stage.term.brain.state.slot_of
        assert stage.state("a/wide") is State.QUEUED, "one GPU of eight is in use"

    played(scene)


def a_stage_with_a_bad_job(faults: Faults) -> Stage:
    stage = Stage(faults=faults)
    stage.queue("default")
    stage.job("a/bad")
    stage.job("a/good")
    return stage


def stumble_over(job: str) -> Callable[[Jobs, JobSubmitted], None]:
    submitted = Jobs.submitted

    def stumbling(jobs: Jobs, event: JobSubmitted) -> None:
        if event.job.id == job:
            raise OverflowError("too large")
        submitted(jobs, event)

    return stumbling


def test_a_node_that_cannot_be_is_left_out_and_the_others_are_used() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        stage.node("n9", gpus="1e30")
        job = stage.job("a/one")
        stage.term._begin()
        stage.rounds()
        assert stage.state(job) is State.STARTING

    played(scene)


def _caches(term: Term) -> tuple[Any, ...]:
    return term._informers.all


# --- the clock ------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_seconds", [-3_600.0, 3_600.0])
def test_a_step_of_the_wall_clock_changes_nothing(step_seconds: float) -> None:
    async def scene() -> None:
        stage = Stage()
        before, wall = stage.term.now(), time.time
        with patch.object(time, "time", lambda: wall() + step_seconds):
            assert 0.0 <= stage.term.now() - before < abs(step_seconds)

    played(scene)


# --- who may use a queue --------------------------------------------------------------------------


def test_a_namespace_that_is_let_in_later_needs_a_fresh_look() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("research", namespaces=["team-b"])
        job = stage.job("team-a/j", queue="research")
        stage.term._begin()
        stage.rounds()
        assert stage.state(job) is State.QUEUED
        stage.queue("research", namespaces=["team-b", "team-a"])
        assert stage.term.decider.afresh.is_set()

    played(scene)


def test_a_namespace_that_is_shut_out_gets_nothing_more() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("research", namespaces=["team-a"], limit=0)
        job = stage.job("team-a/j", queue="research")
        stage.term._begin()
        stage.rounds()
        stage.queue("research", namespaces=["team-b"], limit=8)
        stage.rounds()
        assert stage.state(job) is State.QUEUED
        assert stage.term.decider.afresh.is_set()

    played(scene)


def test_a_queue_made_after_its_job_takes_in_only_whom_it_lists() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        job = stage.job("evil/j", queue="research")
        stage.term._begin()
        stage.rounds()
        stage.queue("research", namespaces=["team-b"], guaranteed=8)
        stage.rounds()
        assert stage.state(job) is State.QUEUED

    played(scene)


def test_a_change_that_moves_nobody_needs_no_fresh_look() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("research", namespaces=["team-a"])
        stage.job("team-a/j", queue="research")
        stage.term._begin()
        stage.queue("research", namespaces=["team-a", "team-b"], limit=4)
        assert not stage.term.decider.afresh.is_set()

    played(scene)


# --- jobs that hold a decision --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        ({"topology": "any"}, {}),
        ({"resources": {"gpus": "1", "fabric": "any"}}, {}),
        ({"resources": {"gpus": "no number"}}, {}),
        ({"image": None}, {"default_image": ""}),
    ],
)
def test_a_job_that_trains_is_adopted_whatever_its_spec(spec: Raw, options: Raw) -> None:
    async def scene() -> None:
        stage = Stage(**options)
        stage.queue("default")
        job = stage.job("a/vit", RUNNING, **spec)
        stage.pod(job, epoch=1, seat=0, node="n0")
        stage.term._begin()
        assert stage.state(job) is State.RUNNING

    played(scene)


def test_an_object_that_cannot_be_read_is_left_alone() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        other = stage.job("a/other")
        poisoned = stage.job("a/vit", {"state": "Running", "decision": "none"})
        stage.pod(poisoned, epoch=1, seat=0, node="n0")
        stage.term._begin()
        assert poisoned in stage.term.jobs.unreadable
        step = next_step(stage.term.look(poisoned, Note()))
        assert not step.actions
        assert not step.events
        stage.rounds()
        assert stage.state(other) is State.STARTING

    played(scene)


def test_nodes_that_were_deleted_are_not_counted_as_lost() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.term._begin()
        for number in range(20):
            stage.node(f"spot-{number}")
            stage.term.intake.tell_nodes()
            about = stage._about(f"spot-{number}")
            stage.term.nodes.take_event("DELETED", {"metadata": about})
            stage.term.intake.tell_nodes()
        measure(stage.term.brain.state, stage.term.intake.inventory, stage.metrics)
        assert stage.figure('weft_gpus{state="lost"}') == 0.0
        assert stage.figure('weft_gpus{state="free"}') == 8.0

    played(scene)


# --- workers that do not go -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("waiter", "named"), [("a/other", "one-1-0 on n0"), ("b/other", "a pod of another namespace")]
)
def test_who_waits_for_seats_that_do_not_become_free_is_told_of_whom(
    waiter: str, named: str
) -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        job = stage.job("a/one", RUNNING)
        stage.pod(job, epoch=1, seat=0, node="n0", deletionTimestamp="2026-01-02T00:00:00Z")
        stage.job(waiter, resources={"gpus": "8"})
        stage.term._begin()
        stage.rounds()
        told = stage.term.standing(waiter, stage.state(waiter), "").reasons
        text = " ".join(reason.text for reason in told)
        assert named in text
        assert ("one-1-0" in text) is waiter.startswith("a/")
        assert "since 2026-01-02" in text
        own = stage.term.standing(job, State.STOPPING, "")
        assert "--force" in own.held_up

    played(scene)


# --- what a tenant may know and ask for -----------------------------------------------------------


def test_who_is_stopped_for_another_namespace_does_not_hear_its_names() -> None:
    job, other, mine = JobId("a/one"), JobId("b/secret"), JobId("a/two")
    state = Brain(fifo()).state
    assert why_of(Preempt(job, 1, other), state) == "preempted for a job of another namespace"
    assert why_of(Preempt(job, 1, mine), state) == "preempted for a/two"


@pytest.mark.parametrize(
    ("holder", "told"), [("b/wide", "a job of another namespace"), ("a/big", "a/big")]
)
def test_nor_does_who_waits_for_what_is_kept_for_it(holder: str, told: str) -> None:
    async def scene() -> None:
        stage = Stage()
        stage.node("n1")
        stage.queue("default")
        stage.job("a/long", RUNNING, duration="1h")
        stage.pod("a/long", epoch=1, seat=0, node="n0")
        stage.job(holder, resources={"gpus": "16"}, duration="1h")
        waiter = stage.job("a/zealous", resources={"gpus": "4"}, duration="100h")
        stage.term._begin()
        stage.rounds()
        texts = [one.text for one in stage.term.standing(waiter, State.QUEUED, "").reasons]
        kept = [text for text in texts if "kept for" in text]
        assert kept and f"kept for {told};" in kept[0]

    played(scene)


def test_a_priority_beyond_the_queues_is_refused_until_the_queue_allows_it() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default", max_priority=5)
        high, low = stage.job("a/high", priority=6), stage.job("a/low", priority=5)
        stage.term._begin()
        stage.rounds()
        assert stage.state(low) is State.STARTING
        assert stage.state(high) is State.QUEUED
        (reason,) = stage.term.standing(high, State.QUEUED, "").reasons
        assert reason.code is ReasonCode.CONSTRAINT_QUEUE
        assert "'default for priority 6 (at most 5)'" in reason.text
        stage.queue("default", max_priority=6)
        assert stage.term.decider.afresh.is_set()

    played(scene)


def test_a_pod_of_another_owner_is_no_worker() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        job = stage.job("a/vit", RUNNING)
        stage.pod(job, epoch=1, seat=0, node="n0", owner="a job that is gone")
        operator = Operator(OperatorOptions(namespace="weft", identity="me"), lambda *_: Journal())
        operator._term = stage.term
        (pod,) = stage.term.pods.items.values()
        assert operator.pod("a", pod.name, pod.uid) is None
        stage.term._begin()
        assert stage.state(job) is not State.RUNNING
        assert stage.term.intake.foreign_use.others("n0").of("nvidia.com/gpu") == 1, (
            "it holds what is not Weft's to give"
        )

    played(scene)


# --- what is told of it ---------------------------------------------------------------------------


def test_decisions_and_waits_are_counted() -> None:
    async def scene() -> None:
        stage = Stage()
        stage.queue("default")
        stage.job("a/one", resources={"gpus": "8"})
        stage.job("a/two", resources={"gpus": "8"})
        stage.term._begin()
        stage.rounds()
        tell_waits(stage.term.brain.state, stage.metrics, 5.0)
        assert stage.figure('weft_decisions_total{outcome="started"}') == 1.0
        assert stage.figure("weft_job_wait_seconds_count") == 1.0
        waited = [
            stage.figure(f'weft_waiting_seconds_total{{cause="{cause.label}"}}') for cause in CAUSES
        ]
        assert sum(waited) == 5.0

    played(scene)
