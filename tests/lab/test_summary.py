"""The numbers of a run, on records written by hand."""

import pytest

from weft.lab.summary import Labels, jain, slowdown, summarise, total_waits
from weft.model.ids import JobId, TenantId
from weft.model.reason import CAUSES, Cause
from weft.sim.record import JobRecord, Record

LABELS = Labels(recipe="las", workload="w", cluster="1x4", costs="free")


def a_line(
    name: str, *, submitted: float, started: float, ended: float | None, tenant: str = "t"
) -> JobRecord:
    waits = [0.0] * len(CAUSES)
    waits[CAUSES.index(Cause.CAPACITY)] = started - submitted
    return JobRecord(
        JobId(name),
        TenantId(tenant),
        2,
        submitted,
        100.0,
        first_start=started,
        ended=ended,
        outcome="active" if ended is None else "succeeded",
        starts=1,
        preemptions=1,
        attained_gpu_seconds=0.0 if ended is None else 200.0,
        waits_seconds=() if ended is None else tuple(waits),
    )


def a_record(*lines: JobRecord) -> Record:
    record = Record("las", 0, 4, jobs={line.id: line for line in lines})
    record.times, record.used_gpus = [0.0, 50.0], [2, 4]
    return record


def test_two_jobs_of_two_tenants() -> None:
    record = a_record(
        a_line("a", submitted=0, started=0, ended=100, tenant="x"),
        a_line("b", submitted=100, started=200, ended=300, tenant="y"),
    )
    summary = summarise(record, LABELS, wall_seconds=1.0)
    assert summary.mean_jct_seconds == 150.0
    assert summary.median_jct_seconds == 150.0
    assert summary.mean_start_delay_seconds == 50.0
    assert summary.makespan_seconds == 300.0
    assert summary.utilisation == pytest.approx(400 / 1200)
    assert summary.utilisation_while_arriving == pytest.approx((2 * 50 + 4 * 50) / 400)
    assert summary.preemptions_per_job == 1.0
    assert summary.waits_seconds["capacity"] == 100.0
    assert [tenant.tenant for tenant in summary.tenants] == ["x", "y"]
    assert [tenant.share for tenant in summary.tenants] == [0.5, 0.5]
    assert [tenant.mean_slowdown for tenant in summary.tenants] == [1.0, 2.0]
    assert summary.jain_index == pytest.approx(9 / 10)


def test_a_job_that_never_ends_is_counted_and_not_averaged() -> None:
    record = a_record(
        a_line("a", submitted=0, started=0, ended=100),
        a_line("b", submitted=0, started=0, ended=None),
    )
    summary = summarise(record, LABELS, wall_seconds=1.0)
    assert (summary.jobs, summary.finished, summary.unfinished) == (2, 1, 1)
    assert summary.mean_jct_seconds == 100.0


def test_a_run_without_jobs_has_numbers_too() -> None:
    summary = summarise(Record("las", 0, 4), LABELS, wall_seconds=0.0)
    assert summary.jobs == 0
    assert summary.utilisation == summary.mean_jct_seconds == summary.makespan_seconds == 0.0
    assert summary.jain_index == 1.0
    assert set(summary.waits_seconds) == {cause.label for cause in CAUSES}


def test_short_jobs_count_as_ten_seconds() -> None:
    line = a_line("a", submitted=0, started=0, ended=100)
    line.service_seconds = 1.0
    assert slowdown(line) == 10.0


def test_jain() -> None:
    assert jain([2.0, 2.0, 2.0]) == 1.0
    assert jain([1.0, 0.0, 0.0, 0.0]) == 0.25
    assert jain([]) == 1.0
    assert total_waits([])["quota"] == 0.0
