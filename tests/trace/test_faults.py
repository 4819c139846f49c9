"""Every known fault of an input is named with its row, its value and a remedy."""

from pathlib import Path

import pytest

from weft.model.errors import TraceFault, UnknownName
from weft.trace.faults import FaultLog, InputFault, Severity, grouped
from weft.trace.readers import read
from weft.trace.workload import Workload

from .conftest import Write

OWN = "job_id,tenant,submit_seconds,duration_seconds,gpus"
LISTING = "job_id,tenant,submit_time_s,duration_s,num_gpus,num_cpus"
GOOD = "good,a,5,60,1"


def test_a_fault_reads_as_a_sentence() -> None:
    fault = InputFault("jobs.csv", 7, "gpus", "x", "is not a number of GPUs", "write 4")
    assert fault.text == "jobs.csv row 7, gpus 'x': is not a number of GPUs"
    whole = InputFault("jobs.csv", None, "", "", "holds no job", "look again", Severity.INFO)
    assert whole.text == "jobs.csv: holds no job"


def test_raising_counts_rows_with_one_fault_in_one_line() -> None:
    log = FaultLog("jobs.csv", range(2, 20))
    for index in range(8):
        log.error(index, "gpus", "x", problem="is not a number", remedy="write one")
    with pytest.raises(TraceFault) as caught:
        log.settle("raise")
    assert str(caught.value).splitlines() == [
        "jobs.csv: 8 rows cannot be used",
        "  jobs.csv, 8 rows (2, 3, 4, …), gpus 'x': is not a number",
    ]
    assert caught.value.hint == "write one; or leave such rows out: --on-fault skip"


def test_raising_lists_the_first_causes_and_counts_the_rest() -> None:
    log = FaultLog("jobs.csv", range(2, 20))
    for index, column in enumerate("abcdefg"):
        log.error(index, column, "x", problem="is not a number", remedy="write one")
    with pytest.raises(TraceFault) as caught:
        log.settle("raise")
    lines = str(caught.value).splitlines()
    assert lines[1] == "  jobs.csv row 2, a 'x': is not a number"
    assert lines[-1] == "  and 2 more"


def test_faults_that_differ_in_row_value_and_figures_are_one_group() -> None:
    log = FaultLog("jobs.csv", range(2, 20))
    for index, name in enumerate(("a", "b", "c", "d")):
        problem = f"job {name} stands in row {index} already"
        log.error(index, "", name, problem=problem, remedy="rename it")
    log.warn(4, "gpus", "0", problem="asks for CPUs only", remedy="none")
    log.inform("", problem="unsorted", remedy="none")
    whole, same, other = grouped(log.faults)
    assert whole.text == "jobs.csv: unsorted"
    assert same.text == (
        "jobs.csv, 4 rows (2, 3, 4, …) 'a', 'b', 'c', …: row 2 job a stands in row 0 already"
    )
    assert other.text == "jobs.csv row 6, gpus '0': asks for CPUs only"


def test_warnings_alone_never_raise() -> None:
    log = FaultLog("jobs.csv", [2])
    log.warn(0, "duration", "9 s", problem="looks odd", remedy="look")
    log.inform("", problem="unsorted", remedy="none")
    faults = log.settle("raise")
    assert [fault.severity for fault in faults] == [Severity.INFO, Severity.WARNING]
    assert not log.bad


def test_only_two_ways_to_meet_a_fault(file: Write) -> None:
    with pytest.raises(UnknownName, match="no way 'mend'"):
        read(file(OWN, GOOD), on_fault="mend")  # type: ignore[arg-type]


BAD_ROWS = [
    pytest.param("j,a,0,60,x", "gpus", "x", "is not a number of GPUs", id="text for GPUs"),
    pytest.param("j,a,0,60,0.46", "gpus", "0.46", "asks for part of a GPU", id="part of a GPU"),
    pytest.param("j,a,0,60,-2", "gpus", "-2", "is not a number of GPUs", id="negative GPUs"),
    pytest.param("j,a,0,60,nan", "gpus", "nan", "is not a number of GPUs", id="NaN GPUs"),
    pytest.param("j,a,0,60,8..2", "gpus", "8..2", "the range 8..2 runs backwards", id="range"),
    pytest.param("j,a,0,60,", "gpus", "", "is missing", id="no GPUs given"),
    pytest.param("j,a,0,60,0", "", "j", "job j asks for nothing", id="no GPUs and no CPUs"),
    pytest.param("j,a,0,,1", "duration_seconds", "", "duration unknown", id="no duration"),
    pytest.param("j,a,0,-1,1", "duration_seconds", "-1", "is negative", id="negative duration"),
    pytest.param("j,a,0,long,1", "duration_seconds", "long", "is not a number", id="text"),
    pytest.param("j,a,0,nan,1", "duration_seconds", "nan", "is not a finite number", id="NaN"),
    pytest.param("j,a,inf,60,1", "submit_seconds", "inf", "is not a finite number", id="inf"),
    pytest.param("j,a,-5,60,1", "submit_seconds", "-5", "is negative", id="negative submit"),
    pytest.param("j,a,,60,1", "submit_seconds", "", "is missing", id="no submit time"),
    pytest.param(",a,0,60,1", "job_id", "", "is missing", id="no id"),
    pytest.param(
        "good,a,0,60,1", "", "good", "this id stands in row 2 already", id="duplicated id"
    ),
    pytest.param(
        "j,a,0,60", "", "", "has 4 cells where the file has 5 columns", id="a cell too few"
    ),
    pytest.param(
        "j,a,0,60,1,9", "", "", "has 6 cells where the file has 5 columns", id="a cell too many"
    ),
]


@pytest.mark.parametrize(("row", "column", "value", "problem"), BAD_ROWS)
def test_an_error_names_its_cell(
    file: Write, row: str, column: str, value: str, problem: str
) -> None:
    path = file(OWN, GOOD, row)
    with pytest.raises(TraceFault, match="1 row cannot be used"):
        read(path)
    workload = read(path, on_fault="skip")
    assert [job.id for job in workload.jobs] == ["good"]
    (fault,) = [fault for fault in workload.faults if fault.severity is Severity.ERROR]
    assert (fault.file, fault.row) == ("jobs.csv", 3)
    assert (fault.column, fault.value, fault.problem) == (column, value, problem)
    assert fault.remedy


def test_every_fault_of_a_row_is_named(file: Write) -> None:
    workload = read(file(OWN, "j,a,-1,x,0.5"), on_fault="skip")
    errors = [fault for fault in workload.faults if fault.severity is Severity.ERROR]
    assert {fault.column for fault in errors} == {"submit_seconds", "duration_seconds", "gpus"}


def _warnings(workload: Workload) -> list[str]:
    return [fault.problem for fault in workload.faults if fault.severity is Severity.WARNING]


def test_a_job_without_gpus_is_kept_where_it_has_cpus(file: Write) -> None:
    workload = read(file(LISTING, "j,a,0,60,0,12"))
    assert workload.jobs[0].width.max_gpus == 0
    assert workload.jobs[0].request.cpus == 12
    assert _warnings(workload) == ["asks for CPUs only"]


def test_work_of_nothing_is_kept_and_told(file: Write) -> None:
    workload = read(file(OWN, "j,a,0,0,1"))
    assert workload.jobs[0].work.amount == 0
    assert _warnings(workload) == ["ends as it starts"]


def test_a_missing_tenant_among_named_ones_is_told(file: Write) -> None:
    workload = read(file(OWN, GOOD, "j,,6,60,1"))
    assert workload.jobs[1].tenant == "default"
    assert _warnings(workload) == ["is missing: the job counts as tenant 'default'"]


def test_rows_out_of_order_are_told_and_sorted_by_time_then_row(file: Write) -> None:
    workload = read(file(OWN, "c,a,9,1,1", "a,a,3,1,1", "b,a,3,1,1"))
    assert [job.id for job in workload.jobs] == ["a", "b", "c"]
    (fault,) = workload.faults
    assert fault.severity is Severity.INFO
    assert fault.problem.startswith("2 rows stand after a later submission")


def test_a_header_alone_is_an_empty_workload_that_says_so(file: Write) -> None:
    workload = read(file(OWN))
    assert workload.jobs == ()
    assert [fault.problem for fault in workload.faults] == ["holds no job"]


WHOLE_FILES = [
    pytest.param(b"", "is empty", id="empty"),
    pytest.param(b"\n\n", "is empty", id="blank lines"),
    pytest.param(b"job_id,gpus,gpus\n", "column 'gpus' is named twice", id="duplicate header"),
    pytest.param(b"job_id,,gpus\n", "a column has no name", id="nameless column"),
    pytest.param(b"job_id,\xff\n", "is not UTF-8 text", id="bytes"),
    pytest.param(b'job_id,gpus\n"a"b,1\n', "is not CSV", id="quotes"),
]


@pytest.mark.parametrize(("content", "problem"), WHOLE_FILES)
def test_a_file_that_cannot_be_read_at_all_is_never_skipped(
    tmp_path: Path, content: bytes, problem: str
) -> None:
    path = tmp_path / "jobs.csv"
    path.write_bytes(content)
    with pytest.raises(TraceFault, match=problem) as caught:
        read(path, on_fault="skip")
    assert caught.value.hint


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TraceFault, match="cannot be read"):
        read(tmp_path / "nothing.csv")


def test_a_gzip_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv.gz"
    path.write_bytes(b"plain")
    with pytest.raises(TraceFault, match="cannot be read"):
        read(path)


def test_rows_are_numbered_as_an_editor_does(file: Write) -> None:
    workload = read(file(OWN, "", '"two\nlines",a,0,1,1', "", "j,a,0,1,x"), on_fault="skip")
    assert [fault.row for fault in workload.faults] == [6]


@pytest.mark.parametrize("status", ["RUNNING", "running", "Pending (Resources)", "SUSPENDED"])
def test_the_length_of_a_job_that_has_not_ended_is_told_as_a_lower_bound(
    file: Write, status: str
) -> None:
    workload = read(file(f"{OWN},status", f"{GOOD},{status}", "b,a,6,60,1,FAILED", "c,a,7,60,1,"))
    assert len(workload.jobs) == 3
    (warning,) = _warnings(workload)
    assert warning.startswith("had not ended when this was written")
