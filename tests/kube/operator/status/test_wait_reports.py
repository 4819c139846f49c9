"""Reasons that are told in bulk: what is written, what is read of it, and when a status follows."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kube.operator.small_world import SmallWorld
from weft.brain.brain import Brain
from weft.brain.event import JobSubmitted, NodeAdded, Tick
from weft.brain.explain import Survey
from weft.brain.state.brain_state import BrainState
from weft.kube.client.errors import ApiError, NotFound
from weft.kube.metrics import Metrics
from weft.kube.names import wait_part
from weft.kube.operator.reconcile.beliefs import reasons_of
from weft.kube.operator.status import queue_status
from weft.kube.operator.status.progress import Told
from weft.kube.operator.status.queue_status import QueueStatusWriter
from weft.kube.operator.status.status_writer import CROWD, StatusWriter
from weft.kube.operator.status.wait_reports import (
    JOBS_A_PART,
    MOST_BYTES,
    WaitReports,
    changed_seconds,
    parts_for,
    report,
    shortened,
)
from weft.kube.reading.waits import Wait, line_with, waits_of
from weft.model.cluster import Cluster
from weft.model.ids import JobId, TenantId
from weft.model.reason import Reason
from weft.model.request import JobRequest, Width
from weft.model.state import State
from weft.spec.recipe import make_recipe
from weft.view.jobs import JobLine

NOW = 1_800_000_000.0


class Source:
    """A brain with jobs that wait, and a clock by hand; nothing else of an operator."""

    leader = 3
    waits_are_served = True

    def __init__(self, jobs: int, *, namespaces: tuple[str, ...] = ("team",)) -> None:
        self.brain = Brain(make_recipe("backfill"))
        self.at = NOW
        self.asides: list[str] = []
        self.told: dict[str, Told] = {}
        self.observed_jobs: dict[str, Any] = {}
        self.brain.handle(NodeAdded(NOW, Cluster.uniform(1, 8).nodes[0]))
        for number in range(jobs):
            self.submit(f"{namespaces[number % len(namespaces)]}/job-{number}")
        self.brain.handle(Tick(NOW + 1.0))

    def submit(self, key: str, gpus: int = 16) -> None:
        namespace = key.partition("/")[0]
        asked = JobRequest(
            id=JobId(key), tenant=TenantId(namespace), submit_seconds=NOW, width=Width.fixed(gpus)
        )
        self.brain.handle(JobSubmitted(max(self.at, NOW), asked))

    @property
    def brain_state(self) -> BrainState:
        return self.brain.state

    def now(self) -> float:
        return self.at

    def survey(self) -> Survey:
        return self.brain.survey()

    def why_it_waits(self, survey: Survey, key: str, state: State) -> list[Reason]:
        return reasons_of(survey, JobId(key))

    def contain(self, key: str, error: Exception) -> bool:
        self.asides.append(key)
        return True

    def told_of(self, key: str) -> Told | None:
        return self.told.get(key)


class Server:
    """Keeps what is applied; `refuses` is raised by every write."""

    def __init__(self) -> None:
        self.reports: dict[str, dict[str, Any]] = {}
        self.writes = 0
        self.refuses: ApiError | None = None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        return {"items": list(self.reports.values())}

    async def patch(self, path: str, body: bytes, **_: object) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        self.writes += 1
        thing: dict[str, Any] = orjson.loads(body)
        self.reports[path] = thing
        return thing

    async def delete(self, path: str) -> None:
        if self.reports.pop(path, None) is None:
            raise NotFound(path)


def book(source: Source, server: Server) -> WaitReports:
    return WaitReports(server, source, Metrics())  # type: ignore[arg-type]


def tell(waits: WaitReports) -> None:
    asyncio.run(waits._tell_all())


def test_every_waiting_job_is_told_its_reason_in_its_own_part() -> None:
    source, server = Source(2_100, namespaces=("a", "b")), Server()
    tell(book(source, server))
    told = waits_of(list(server.reports.values()))
    assert len(told) == 2_100
    for (namespace, job), wait in told.items():
        alone = source.brain.explain(JobId(f"{namespace}/{job}"))
        assert [one.text for one in wait.reasons] == [reason.text for reason in alone]
    for thing in server.reports.values():
        status = thing["status"]
        assert {wait_part(job, status["parts"]) for job in status["queued"]} <= {status["part"]}
        assert thing["metadata"]["name"] == f"waits-{status['part']}"
        own = {job for (namespace, job) in told if namespace == thing["metadata"]["namespace"]}
        assert {*status["queued"]} <= own
    assert {thing["status"]["parts"] for thing in server.reports.values()} == {2}


def test_a_report_is_written_when_something_changes_and_for_its_numbers_now_and_then() -> None:
    source, server = Source(3), Server()
    waits = book(source, server)
    tell(waits)
    tell(waits)
    assert server.writes == 1
    source.submit("team/late")
    tell(waits)
    assert server.writes == 1  # a moment after the last
    source.at += 4.0
    tell(waits)
    assert server.writes == 2
    assert "late" in server.reports[next(iter(server.reports))]["status"]["queued"]
    source.at += 20.0
    tell(waits)
    assert server.writes == 2
    source.at += 11.0
    tell(waits)
    assert server.writes == 3


def test_a_report_of_which_nobody_waits_any_more_goes() -> None:
    source, server = Source(1), Server()
    left = report("gone", 0, {"part": 0, "parts": 1, "queued": {}, "admitted": {}})
    server.reports["/apis/weft.dev/v1alpha1/namespaces/gone/waitreports/waits-0"] = orjson.loads(
        left
    )
    server.reports["odd"] = {"metadata": {"namespace": "gone", "name": "odd"}}
    waits = book(source, server)
    asyncio.run(waits._take_stock())
    tell(waits)
    del server.reports["odd"]
    assert [thing["metadata"]["namespace"] for thing in server.reports.values()] == ["team"]


def test_one_job_that_cannot_be_explained_leaves_the_others_told() -> None:
    source, server = Source(3), Server()
    explain = source.why_it_waits

    def failing(survey: Survey, key: str, state: State) -> list[Reason]:
        if key == "team/job-1":
            raise ZeroDivisionError
        return explain(survey, key, state)

    source.why_it_waits = failing  # type: ignore[method-assign]
    tell(book(source, server))
    assert {job for _, job in waits_of(list(server.reports.values()))} == {"job-0", "job-2"}
    assert source.asides == ["team/job-1"]


def test_a_cluster_without_the_definition_is_noticed_and_nothing_else_breaks() -> None:
    source, server = Source(CROWD + 1), Server()
    server.refuses = NotFound("the server has no waitreports")
    waits = book(source, server)

    async def for_a_while() -> None:
        running = asyncio.create_task(waits.run())
        while waits.served:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(for_a_while())
    assert not waits.served


@given(st.integers(0, 60_000), st.sampled_from([1, 2, 4, 64, 128]))
def test_parts_are_neither_full_nor_changed_without_need(jobs: int, before: int) -> None:
    parts = parts_for(jobs, before)
    assert jobs <= parts * JOBS_A_PART
    assert parts == 1 or jobs >= parts * JOBS_A_PART // 8
    assert parts_for(jobs, parts) == parts
    assert parts_for(jobs + 1, parts) in (parts, 2 * parts)


def test_a_report_that_would_be_too_large_tells_the_first_reason_of_each() -> None:
    reasons = [{"code": "Capacity.Busy", "text": f"{n} " * 250, "remedy": ""} for n in range(1_536)]
    jobs = {f"job-{n}": [n, n + 512, n + 1_024] for n in range(512)}
    told = {"part": 0, "parts": 1, "reasons": reasons, "queued": jobs, "admitted": {}}
    body = report("team", 0, told)
    assert len(body) <= MOST_BYTES
    status = orjson.loads(body)["status"]
    assert status == shortened(told)
    for job, (first, *_) in jobs.items():
        [place] = status["queued"][job]
        assert status["reasons"][place] == reasons[first]


# ------------------------------------------------------------------------------- reading


def line(state: str = "", **fields: Any) -> JobLine:
    base = JobLine(
        namespace="team", name="one", uid="u", version=1, state=state, gpus=0, asked_gpus="1",
        queue="default", priority=0, progress=None, remaining_seconds=None, reason="Round.Pending",
        message="old", nodes=(), ending=False, submitted_at=None, waiting_since=None,
        started_at=None, ended_at=None,
    )  # fmt: skip
    return replace(base, **fields)


def test_a_report_speaks_of_those_who_wait_and_of_nobody_before_its_time() -> None:
    at = datetime.now(UTC)
    wait = Wait("Queued", (), at)
    assert line_with(line(), wait).state == "Queued"
    assert line_with(line("Queued"), wait).told_at == at
    assert line_with(line("Running"), wait) == line("Running")
    assert line_with(line("Failed"), wait) == line("Failed")
    younger = line(submitted_at=at + timedelta(seconds=1))
    assert line_with(younger, wait) == younger


def test_a_reason_of_a_newer_version_is_told_without_what_this_one_cannot_know() -> None:
    status = {
        "at": "2027-01-15T00:00:00.000000Z",
        "parts": 1,
        "reasons": [{"code": "Moon.Phase", "text": "The moon wanes."}],
        "queued": {"one": [0, 7]},
        "later": {"unknown": True},
    }
    thing = {"metadata": {"namespace": "team"}, "status": status}
    [told] = waits_of([thing])["team", "one"].reasons
    assert (told.code, told.text, told.cause, told.remedy) == (
        "Moon.Phase",
        "The moon wanes.",
        "",
        "",
    )


# ------------------------------------------------------------------------- the status follows


def due_after(source: Source, *seconds: float) -> list[int]:
    """How many statuses are to be written at each of these moments."""
    writer = StatusWriter(None, source, Metrics())  # type: ignore[arg-type]
    state = source.brain.state
    for slot in state.slot_of.values():
        writer._grow(2 * slot) if slot >= len(writer._seq) else None
        writer._seq[slot] = state.jobs.seq[slot]
    return [len(writer.due(NOW + second, most=10_000)) for second in seconds]


def test_in_a_crowd_a_wait_is_worth_a_status_after_a_minute() -> None:
    assert due_after(Source(CROWD), 0.0, 1.5) == [0, CROWD]
    assert due_after(Source(CROWD + 1), 0.0, 30.0, 61.0) == [0, 0, CROWD + 1]


def test_without_reports_a_status_is_written_as_ever() -> None:
    source = Source(CROWD + 1)
    source.waits_are_served = False
    assert due_after(source, 0.0, 1.5) == [0, CROWD + 1]


@pytest.mark.parametrize(
    ("percent", "seconds", "is_news"),
    [(0.1001, 30.0, False), (0.11, 30.0, True), (0.1, 61.0, True)],
)
def test_progress_is_written_by_the_percent_or_the_minute(
    percent: float, seconds: float, is_news: bool
) -> None:
    world = SmallWorld({"n0": 8}, "backfill")
    world.submit("one", "1")
    source = Source(0)
    observed = world.observed("one")
    source.observed_jobs["lab/one"] = replace(observed, status={"progress": "10%"})
    source.told["lab/one"] = Told(1, percent, {})
    writer = StatusWriter(None, source, Metrics())  # type: ignore[arg-type]
    assert writer._is_news("lab/one", seconds) is is_news


def test_queues_are_counted_once_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    source, counted = Source(4), []
    once = queue_status.Sums.of

    def counting(state: BrainState) -> queue_status.Sums:
        counted.append(1)
        return once(state)

    monkeypatch.setattr(queue_status.Sums, "of", counting)
    queues = SimpleNamespace(items={})
    asyncio.run(QueueStatusWriter(None, queues).write(source.brain.state, NOW))  # type: ignore[arg-type]
    assert counted == [1]


def test_where_many_wait_parts_are_written_less_often_and_soon_enough() -> None:
    assert changed_seconds(0) == changed_seconds(3_000) == 3.0
    assert changed_seconds(6_000) == 6.0
    assert changed_seconds(100_000) == 8.0, "a reason is at most ten seconds old"
