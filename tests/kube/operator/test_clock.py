"""Somebody sets the clock of the machine that an operator runs on."""

import time
from datetime import UTC, datetime

import pytest

from tests.kube.operator.stage import Stage, played
from weft.brain.event import HealthRecalled, Tick
from weft.failure.breaker import Breaker, Strike
from weft.failure.health import Health, SetAside
from weft.model.ids import JobId, NodeId, TenantId
from weft.model.state import State

DAY = 86_400.0


@pytest.mark.parametrize("seconds", [-DAY, -60.0, 60.0, DAY])
def test_within_a_term_time_only_goes_on(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    async def scene() -> None:
        stage = Stage()
        stage.term.intake.begin()
        stage.rounds()
        before, right = stage.term.now(), time.time
        monkeypatch.setattr(time, "time", lambda: right() + seconds)
        later = stage.term.now()
        assert before <= later < before + 5.0
        job = stage.job("lab/one")
        stage.rounds()
        stage.term.decider.deliver(Tick(stage.term.now()))
        assert job and stage.term.now() >= later

    played(scene)


def test_what_an_earlier_term_wrote_by_another_clock_holds_nobody_up() -> None:
    """The clock was a day ahead, and is right now: checks and questions are due as ever."""

    async def scene() -> None:
        stage = Stage()
        stage.term.intake.begin()
        now = stage.term.now()
        tomorrow = now + DAY
        strikes = tuple(
            Strike(tomorrow, JobId(f"lab/{n}"), TenantId(f"u{n % 2}")) for n in range(5)
        )
        written = Health(
            breakers=(
                Breaker(
                    service="hdfs",
                    strikes=strikes,
                    opened_seconds=tomorrow - 60.0,
                    probed_seconds=tomorrow,
                    failed_jobs=5,
                ),
            ),
            aside=(
                SetAside(
                    node=NodeId("n0"),
                    since_seconds=tomorrow,
                    due_seconds=tomorrow + 600.0,
                    why="its kernel says so",
                ),
            ),
        )
        stage.term.decider.deliver(HealthRecalled(now, written))
        health = stage.term.health
        (aside,) = health.aside
        assert aside.since_seconds <= now and aside.due_seconds <= now + 600.0
        held = health.hold("hdfs", JobId("lab/1"), TenantId("u1"), now)
        assert held.until_seconds is not None and held.until_seconds <= now + 30.0

    played(scene)


def test_a_job_that_was_created_by_a_clock_ahead_waits_for_nothing() -> None:
    async def scene() -> None:
        stage = Stage()
        tomorrow = datetime.fromtimestamp(time.time() + DAY, UTC).strftime("%FT%TZ")
        about = {"uid": "u", "name": "one", "namespace": "lab", "resourceVersion": "99"}
        raw = {
            "metadata": {**about, "creationTimestamp": tomorrow},
            "spec": {"run": "x", "image": "i"},
        }
        stage.term.jobs.take_event("ADDED", raw)
        stage.term.intake.begin()
        stage.rounds()
        assert stage.state("lab/one") is State.STARTING
        slot = stage.term.brain.state.slot_of[JobId("lab/one")]
        assert stage.term.brain.state.spec(slot).submit_seconds <= stage.term.now()

    played(scene)
