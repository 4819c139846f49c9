"""Units in the names of mapped columns: converted with a remark, or refused, never ignored."""

import pytest

from weft.model.errors import SpecError, UnknownName
from weft.trace.faults import Severity
from weft.trace.readers import read
from weft.trace.units import unit_in_name

from .conftest import Write

GIB = 2**30


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("Runtime (min)", "min"),
        ("runtime_min", "min"),
        ("Dauer [Min.]", "min"),
        ("minutes_run", "min"),
        ("durationMs", "ms"),
        ("RuntimeMS", "ms"),
        ("wait [ms]", "ms"),
        ("Zeit_µs", "us"),
        ("duration_hours", "h"),
        ("elapsed_h", "h"),
        ("walltimeminutes", "min"),
        ("Elapsed Time (in seconds)", "s"),
        ("h", "h"),
    ],
)
def test_a_name_states_a_unit_of_time(name: str, unit: str) -> None:
    found = unit_in_name(name, "duration_seconds", header=["id", name])
    assert found is not None
    assert found.name == unit


@pytest.mark.parametrize(
    ("name", "column", "unit"),
    [
        ("mem_mb", "memory_gib", "MB"),
        ("memory (KB)", "memory_gib", "kB"),
        ("memGiB", "memory_gib", "GiB"),
        ("ram_gb_per_gpu", "memory_gib_per_gpu", "GB"),
        ("Memory (MiB/GPU)", "memory_gib_per_gpu", "MiB"),
    ],
)
def test_a_name_states_a_unit_of_memory(name: str, column: str, unit: str) -> None:
    found = unit_in_name(name, column)
    assert found is not None
    assert found.name == unit


@pytest.mark.parametrize(
    "name",
    [
        *("Runtime", "walltime", "min_runtime", "Submit (UTC)", "runtime (wall)", "ElapsedRaw"),
        *("Elapsed (hh:mm:ss)", "t", "d", "items", "params", "status", "NumCPUs", "", "%"),
    ],
)
def test_a_name_states_no_unit(name: str) -> None:
    assert unit_in_name(name, "duration_seconds") is None
    assert unit_in_name("Runtime (min)", "gpus") is None


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("elapsed_m", "may be several units"),
        ("Runtime (m)", "may be several units"),
        ("months", "may be several units"),
        ("min", "minutes or a minimum"),
        ("Runtime (ticks)", "no known unit"),
        ("時間 (分)", "no known unit"),
        ("gpu_hours", "several devices"),
        ("gpuhours", "several devices"),
        ("s_per_it", "a rate"),
        ("Laufzeit / h", "a rate"),
        ("time_min (h)", "states h and min"),
        ("AllocMB", "no unit of time"),
    ],
)
def test_a_name_is_not_clear(name: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        unit_in_name(name, "duration_seconds")


def test_next_to_a_maximum_min_is_a_minimum() -> None:
    assert unit_in_name("runtime_min", "duration_seconds", header=["runtime_min"])
    with pytest.raises(ValueError, match="a minimum"):
        unit_in_name("runtime_min", "duration_seconds", header=["runtime_min", "runtime_max"])


BASE = {"job_id": "id", "submit_seconds": "t", "gpus": "n"}


def test_numbers_are_converted_and_a_remark_states_it(file: Write) -> None:
    path = file("id,t,Runtime (min),n", "a,0,90,4", "b,1,1.5,1", "c,2,90 s,1", "d,3,0:30:00,1")
    workload = read(path, columns=BASE | {"duration_seconds": "Runtime (min)"})
    assert [job.work.amount for job in workload.jobs] == [5400.0, 90.0, 90.0, 1800.0]
    (remark,) = workload.faults
    assert (remark.severity, remark.column) == (Severity.INFO, "Runtime (min)")
    assert "1 min = 60 s" in remark.problem
    assert "--column 'duration_seconds:UNIT=Runtime (min)'" in remark.remedy


def test_every_column_of_time_and_memory_follows_its_name(file: Write) -> None:
    path = file("id,t_ms,hours,n,wait [min],mem_mb", "a,60000,2,4,3,1000", "b,120500,1,4,3,1000")
    columns = {"job_id": "id", "submit_seconds": "t_ms", "duration_seconds": "hours", "gpus": "n"}
    columns |= {"queue_seconds": "wait [min]", "memory_gib_per_gpu": "mem_mb"}
    workload = read(path, columns=columns)
    assert [job.submit_seconds for job in workload.jobs] == [60.0, 120.5]
    job = workload.jobs[0]
    assert job.work.amount == 7200.0
    assert job.request.memory_gib_per_gpu == pytest.approx(10**9 / GIB)
    assert workload.recorded[job.id].queue_seconds == 180.0
    assert len(workload.faults) == 4


def test_a_name_that_is_not_clear_is_refused_with_the_units(file: Write) -> None:
    path = file("id,t,elapsed_m,n", "a,0,90,4")
    columns = BASE | {"duration_seconds": "elapsed_m"}
    with pytest.raises(
        SpecError, match="'elapsed_m' has 'm', which may be several units"
    ) as caught:
        read(path, columns=columns)
    assert "min, h" in caught.value.hint
    assert "--column 'duration_seconds:UNIT=elapsed_m'" in caught.value.hint


def test_a_name_does_not_matter_where_every_cell_has_a_unit(file: Write) -> None:
    path = file("id,t (local),elapsed_m,n", "a,2026-01-01T10:00:00,90 min,4")
    columns = {"job_id": "id", "submit_seconds": "t (local)", "gpus": "n"}
    (job,) = read(path, columns=columns | {"duration_seconds": "elapsed_m"}).jobs
    assert job.work.amount == 5400.0


def test_the_caller_states_the_unit(file: Write) -> None:
    path = file("id,t,elapsed_m,n", "a,0,90,4")
    workload = read(path, columns=BASE | {"duration_seconds:min": "elapsed_m"})
    assert workload.jobs[0].work.amount == 5400.0
    assert workload.faults == ()
    seconds = read(path, columns=BASE | {"duration_seconds:s": "elapsed_m"})
    assert seconds.jobs[0].work.amount == 90.0


@pytest.mark.parametrize(
    ("ours", "error", "problem"),
    [
        ("gpus:min", SpecError, "neither a time nor memory"),
        ("duration_seconds:MB", UnknownName, "'MB' is no unit of time"),
        ("duration_seconds:m", UnknownName, "'m' is no unit of time"),
    ],
)
def test_a_stated_unit_fits_its_column(
    file: Write, ours: str, error: type[SpecError], problem: str
) -> None:
    columns = {"job_id": "id", "submit_seconds": "t", ours: "r"}
    with pytest.raises(error, match=problem):
        read(file("id,t,r,n", "a,0,90,4"), columns=columns)


def test_one_column_may_hold_several_of_ours(file: Write) -> None:
    path = file("id,t,r,n,who", "a,0,90,4,ann")
    columns = {**BASE, "duration_seconds": "r", "tenant": "who", "queue": "who"}
    (job,) = read(path, columns=columns).jobs
    assert (job.tenant, job.request.queue) == ("ann", "ann")


def test_a_column_of_ours_is_not_mapped_twice(file: Write) -> None:
    with pytest.raises(SpecError, match="'duration_seconds' is mapped twice"):
        read(
            file("id,t,r,n", "a,0,90,4"),
            columns={**BASE, "duration_seconds": "r", "duration_seconds:min": "r"},
        )


def test_an_empty_name_leaves_a_column_out(file: Write) -> None:
    path = file("job_id,submit_seconds,duration_seconds,gpus,gpu_types", "a,0,60,1,a100")
    assert read(path).jobs[0].request.gpu_types
    assert read(path, columns={"gpu_types": ""}).jobs[0].request.gpu_types == ()
