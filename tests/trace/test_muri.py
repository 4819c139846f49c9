"""Muri's rows: milliseconds become seconds, and self-contradiction is told, never mended."""

import pytest

from weft.model.errors import TraceFault
from weft.trace.faults import Severity
from weft.trace.readers.muri import UNMEASURED_START_SECONDS, read_muri

from .conftest import Write

HEADER = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority"
)
AGREES = "7,8,1534000,1000,vgg16,16,214000,0,214,82,75,66,1"


def test_a_row_in_seconds(file: Write) -> None:
    trace = read_muri(file(HEADER, AGREES))
    (row,) = trace.rows
    assert (row.job, row.gpus, row.submit_seconds) == ("7", 8, 1534.0)
    assert (row.iterations, row.iteration_seconds) == (1000, 0.214)
    assert row.stage_seconds == (0.082, 0.075, 0.066)
    assert (row.model, row.batch_size, row.priority) == ("vgg16", 16, 1)
    assert row.start_seconds is None
    (job,) = trace.workload.jobs
    assert job.work.amount == row.work_seconds == pytest.approx(214.0)
    assert (job.request.priority, job.request.shareable, job.request.model) == (0, True, "vgg16")
    assert trace.workload.faults == ()


def test_the_iterations_count_where_the_duration_disagrees(file: Write) -> None:
    trace = read_muri(file(HEADER, AGREES.replace("214000", "300000")))
    assert trace.workload.jobs[0].work.amount == pytest.approx(214.0)
    (fault,) = trace.workload.faults
    assert (fault.severity, fault.row, fault.column) == (Severity.WARNING, 2, "duration")
    assert fault.problem == "iterations × iteration time is 214 s"


def test_a_row_at_exactly_five_percent_is_within_it(file: Write) -> None:
    exact = "7,8,0,1000,vgg16,16,200000,0,210,82,75,66,1"
    assert read_muri(file(HEADER, exact)).workload.faults == ()


def test_stages_that_explain_less_than_half_of_an_iteration(file: Write) -> None:
    trace = read_muri(file(HEADER, AGREES.replace("82,75,66", "20,20,20")))
    (fault,) = trace.workload.faults
    assert fault.column == "iteration_time"
    assert "add up to 0.06 s only" in fault.problem


def test_rows_follow_the_jobs_and_leave_out_what_they_leave_out(file: Write) -> None:
    early = AGREES.replace("7,8,1534000", "8,8,0")
    broken = AGREES.replace("7,8,", "9,x,")
    path = file(HEADER, AGREES, early, broken, AGREES)
    with pytest.raises(TraceFault, match="2 rows cannot be used"):
        read_muri(path)
    trace = read_muri(path, on_fault="skip")
    assert [row.job for row in trace.rows] == ["8", "7"]
    assert [job.id for job in trace.workload.jobs] == ["8", "7"]


def test_start_overheads_by_model_and_width(file: Write) -> None:
    table = file("model_name,num_gpu,start_overhead_seconds", "vgg16,8,9", name="starts.csv")
    unknown = AGREES.replace("7,8,", "8,4,")
    rows = read_muri(file(HEADER, AGREES, unknown), start_overheads=table).rows
    assert [row.start_seconds for row in rows] == [9.0, UNMEASURED_START_SECONDS]


def test_a_broken_table_of_start_overheads_is_refused(file: Write) -> None:
    table = file("model_name,num_gpu,start_overhead_seconds", "vgg16,0,9", name="starts.csv")
    with pytest.raises(TraceFault, match="is less than 1"):
        read_muri(file(HEADER, AGREES), start_overheads=table, on_fault="skip")
