"""What of a job's reports becomes a measurement of its speed, and of which seats."""

from dataclasses import replace
from typing import Any

import pytest

from tests.kube.looks import NOW, a_job, seats
from weft.brain.event import JobMeasured
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.status.speeds import Speeds
from weft.kube.reports.payload import Report, Speed, Unit
from weft.kube.reports.server import WorkerIdentity
from weft.model.claim import WorkClaim
from weft.model.ids import JobId
from weft.model.request import JobRequest, Width

HEAD = WorkerIdentity("lab", "vit", 1, 0)
JOB = JobRequest(id=JobId("lab/vit"), width=Width(1, 4, 4))
LIVE = Report(done=100, total=400, live=True, speed=Speed(1, 2, 5.0, 10.0), metrics={"loss": 0.5})


def running(*numbers: int, **decision: Any) -> ObservedJob:
    return a_job("Running", 1, placement=seats(*numbers), decision=decision)


def heard(
    report: Report,
    *,
    job: JobRequest = JOB,
    observed: ObservedJob | None = None,
    worker: WorkerIdentity = HEAD,
) -> JobMeasured | None:
    """By an operator that has seen the job's counter 20 s before, and 100 steps less."""
    speeds, seen = Speeds(), observed or running(0, 1)
    before = None if report.done is None else report.done - 100
    speeds.hear(job, seen, worker, replace(report, done=before), NOW - 20.0)
    return speeds.hear(job, seen, worker, report, NOW)


def test_what_the_head_measured_is_told_in_steps() -> None:
    assert heard(LIVE) == JobMeasured(
        NOW, JOB.id, 1, 2, 2, 5.0, 10.0, 100.0, work_total=400.0, loss=0.5
    )


def test_or_in_seconds_where_the_job_file_states_them() -> None:
    event = heard(LIVE, job=replace(JOB, work=WorkClaim(1000.0)))
    assert event is not None
    assert (event.units_per_second, event.work_done, event.work_total) == (12.5, 250.0, None)


def test_each_measurement_is_told_once() -> None:
    speeds = Speeds()
    args = (JOB, running(0, 1), HEAD)
    begun = replace(LIVE, done=0)
    speeds.hear(*args, begun, NOW - 20.0)
    assert speeds.hear(*args, LIVE, NOW) is not None
    assert speeds.hear(*args, LIVE, NOW + 5.0) is None
    assert speeds.hear(*args, replace(LIVE, speed=Speed(2, 2, 5.0, 10.0)), NOW + 9.0) is not None
    later = replace(HEAD, epoch=2)
    again = a_job("Running", 2, placement=seats(0, 1))
    assert speeds.hear(JOB, again, later, begun, NOW + 20.0) is None
    assert speeds.hear(JOB, again, later, LIVE, NOW + 40.0) is not None


def test_a_claim_counts_for_no_more_than_the_counter_confirms() -> None:
    """100 steps in 20 s by the operator's clock, whatever the head says of its speed."""
    claim = replace(LIVE, speed=Speed(1, 2, 5_000.0, 10.0))
    event = heard(claim)
    assert event is not None
    assert event.units_per_second == pytest.approx(1.5 * 100 / 20)


def test_a_claim_waits_until_the_counter_has_been_seen_to_go_on() -> None:
    speeds, args = Speeds(), (JOB, running(0, 1), HEAD)
    assert speeds.hear(*args, LIVE, NOW) is None, "nobody has seen it before"
    assert speeds.hear(*args, replace(LIVE, done=110), NOW + 1.0) is None, "too short"
    assert speeds.hear(*args, LIVE, NOW + 60.0) is None, "it stands still"
    assert speeds.hear(*args, replace(LIVE, done=400), NOW + 60.0) is not None


def test_what_was_counted_at_another_width_confirms_nothing() -> None:
    speeds = Speeds()
    speeds.hear(JOB, running(0), HEAD, replace(LIVE, speed=Speed(1, 1, 9.0, 9.0)), NOW)
    assert speeds.hear(JOB, running(0, 1), HEAD, replace(LIVE, done=390), NOW + 60.0) is None


def test_nor_does_what_was_counted_under_another_plan() -> None:
    speeds = Speeds()
    speeds.hear(JOB, running(0, 1, serial=1), HEAD, replace(LIVE, done=0), NOW - 60.0)
    assert speeds.hear(JOB, running(0, 1, serial=2), HEAD, LIVE, NOW) is None
    faster = replace(LIVE, done=300, speed=Speed(2, 2, 10.0, 10.0))
    event = speeds.hear(JOB, running(0, 1, serial=2), HEAD, faster, NOW + 20.0)
    assert event is not None and event.units_per_second == 10.0


@pytest.mark.parametrize(
    ("report", "observed", "worker"),
    [
        (replace(LIVE, speed=Speed(1, 3, 5.0, 10.0)), running(0, 1), HEAD),  # another width
        (LIVE, running(0, 1, joining=[1]), HEAD),  # a resize is under way
        (LIVE, running(0, 1, order={}), HEAD),  # or a change of its plan
        (LIVE, a_job(), HEAD),  # nothing on record
        (LIVE, running(0, 1), replace(HEAD, epoch=2)),  # another incarnation
        (LIVE, running(0, 1), replace(HEAD, seat=1)),  # the head speaks for the job
        (replace(LIVE, unit=Unit.PERCENT), running(0, 1), HEAD),
        (replace(LIVE, done=None), running(0, 1), HEAD),
    ],
)
def test_what_belongs_to_no_known_seats_is_not_told(
    report: Report, observed: ObservedJob, worker: WorkerIdentity
) -> None:
    assert heard(report, observed=observed, worker=worker) is None


def test_of_a_script_that_measures_nothing_two_reports_are_a_measurement() -> None:
    """As Hugging Face's callback sends them."""
    speeds, observed = Speeds(), running(0, 1)
    told = [
        speeds.hear(JOB, observed, HEAD, Report(done=done, total=400), NOW + seconds)
        for seconds, done in ((0.0, 10), (5.0, 20), (11.0, 32), (12.0, 34), (22.0, 40))
    ]
    assert [None if event is None else event.units_per_second for event in told] == [
        None,
        None,
        2.0,
        None,
        pytest.approx(8 / 11),
    ]


def test_reports_of_two_workers_or_of_two_lives_are_none() -> None:
    speeds, observed = Speeds(), running(0, 1)
    told = [
        speeds.hear(JOB, observed, worker, Report(done=done, total=400), NOW + seconds)
        for seconds, done, worker in (
            (0.0, 10, HEAD),
            (20.0, 50, replace(HEAD, seat=1)),
            (25.0, 4, HEAD),  # it has begun again
            (30.0, 60, HEAD),
        )
    ]
    assert told == [None] * 4


def test_a_live_job_between_two_measurements_adds_nothing() -> None:
    speeds, observed = Speeds(), running(0, 1)
    for seconds in (0.0, 20.0, 40.0):
        report = Report(done=10 + seconds, total=400, live=True)
        assert speeds.hear(JOB, observed, HEAD, report, NOW + seconds) is None
