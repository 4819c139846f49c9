"""The project's own table: what each column becomes, and a user's columns under our names."""

import pytest

from weft.model.claim import ClaimSource, WorkClaim
from weft.model.errors import SpecError, TraceFault, UnknownName
from weft.model.ids import GpuType
from weft.model.plan import ExecutionPlan
from weft.model.request import GpuSpeed, Locality, Width, WorkUnit
from weft.model.truth import Work
from weft.trace.readers import read
from weft.trace.workload import Recorded

from .conftest import Write

LEAST = "job_id,submit_seconds,duration_seconds,gpus"


def test_the_least_table(file: Write) -> None:
    (job,) = read(file(LEAST, "j,3,60,4")).jobs
    assert (job.id, job.submit_seconds) == ("j", 3.0)
    assert (job.work, job.width) == (Work(60.0), Width.fixed(4))
    assert (job.tenant, job.request.queue) == ("default", "default")


@pytest.mark.parametrize(
    ("column", "cell", "field", "value"),
    [
        ("tenant", "vision", "tenant", "vision"),
        ("queue", "research", "queue", "research"),
        ("priority", "-3", "priority", -3),
        ("preemptible", "no", "preemptible", False),
        ("shareable", "true", "shareable", True),
        ("cpus_per_gpu", "6.5", "cpus_per_gpu", 6.5),
        ("memory_gib_per_gpu", "64", "memory_gib_per_gpu", 64.0),
        ("max_nodes", "2", "max_nodes", 2),
        ("checkpoint_interval_seconds", "600", "checkpoint_interval_seconds", 600.0),
        ("max_retries", "0", "max_retries", 0),
        ("model", "bert", "model", "bert"),
        ("gpu_types", "V100", "gpu_types", (GpuSpeed(GpuType("V100")),)),
        ("plans", "tensor=2", "plans", (ExecutionPlan(tensor=2),)),
        ("work_known", "false", "work", None),
        ("work_known", "true", "work", WorkClaim(60.0, ClaimSource.TRACE)),
        ("curve_known", "false", "curve", None),
        ("saves_on_demand", "true", "saves_on_demand", True),
        ("asked_gpus", "4", "width", Width.fixed(4)),
        ("node_doubling_slowdown", "0", "locality", Locality(0.0, 0.1)),
        ("rack_doubling_slowdown", "0", "locality", Locality(0.15, 0.0)),
    ],
)
def test_what_a_column_becomes(
    file: Write, column: str, cell: str, field: str, value: object
) -> None:
    (job,) = read(file(f"{LEAST},{column}", f"j,3,60,4,{cell}")).jobs
    assert getattr(job.request, field) == value
    assert job.work == Work(60.0), "whatever is told of it"


def test_an_empty_cell_takes_the_default(file: Write) -> None:
    header = f"{LEAST},queue,priority,preemptible,gpu_types,plans,max_retries"
    (plain,) = read(file(LEAST, "j,3,60,4")).jobs
    (empty,) = read(file(header, "j,3,60,4,,,,,,")).jobs
    assert empty == plain


def test_an_elastic_job_asks_for_the_larger_end_or_says_what(file: Write) -> None:
    jobs = read(file(f"{LEAST},asked_gpus", "a,0,60,2..16,", "b,0,60,2..16,8")).jobs
    assert [job.width for job in jobs] == [Width(2, 16, 16), Width(2, 16, 8)]


def test_asking_outside_the_range_is_a_fault(file: Write) -> None:
    with pytest.raises(TraceFault, match=r"width 2\.\.4 does not hold the asked 8"):
        read(file(f"{LEAST},asked_gpus", "a,0,60,2..4,8"))


def test_work_in_samples_needs_a_curve(file: Write) -> None:
    header = "job_id,submit_seconds,gpus,samples,curve"
    (job,) = read(file(header, "j,0,2,1e6,1:100|2:190")).jobs
    assert job.work == Work(1e6, WorkUnit.SAMPLES)
    assert job.truth.units_per_second(2) == 190
    with pytest.raises(TraceFault, match="counts samples but has no curve"):
        read(file(header, "j,0,2,1e6,"))


def test_samples_beside_a_duration_are_a_fault(file: Write) -> None:
    with pytest.raises(TraceFault, match="is given beside a duration"):
        read(file(f"{LEAST},samples,curve", "j,0,60,1,5,1:1"))


def test_how_a_job_fared_is_recorded_beside_it(file: Write) -> None:
    header = f"{LEAST},status,failure_reason,attempts,queue_seconds,deadline_seconds"
    header += ",user,partition,allocated_gpu_types"
    workload = read(file(header, "a,0,60,1,failed,OOM,3,12.5,90,ann,gpu,a100", "b,0,60,1,,,,,,,,"))
    assert workload.recorded == {
        "a": Recorded(
            status="failed",
            failure_reason="OOM",
            attempts=3,
            queue_seconds=12.5,
            deadline_seconds=90.0,
            user="ann",
            partition="gpu",
            allocated_gpu_types="a100",
        )
    }
    assert workload.jobs[0].request.gpu_types == (), "what it ran on is no demand"


def test_every_length_may_have_a_unit(file: Write) -> None:
    header = f"{LEAST},queue_seconds,checkpoint_interval_seconds"
    workload = read(file(header, "a,0,60,1,1-00:00:10,30 min"))
    (job,) = workload.jobs
    assert workload.recorded[job.id].queue_seconds == 86_410.0
    assert job.request.checkpoint_interval_seconds == 1800.0


def test_durations_by_model_fill_what_the_file_leaves_out(file: Write) -> None:
    path = file(f"{LEAST},model", "a,0,,1,bert", "b,1,60,1,bert")
    jobs = read(path, durations={"bert": 500.0}).jobs
    assert [job.work.amount for job in jobs] == [500.0, 60.0]


@pytest.mark.parametrize(
    ("column", "cell", "problem"),
    [
        ("gpus", "99999999999999999999", "is more than 100,000 GPUs"),
        ("submit_seconds", "1e300", "is more than 10,000,000,000 seconds"),
        ("duration_seconds", "1e300", "is more than 10,000,000,000 seconds"),
        ("priority", "99999999999999999999", "is more than 1,000,000,000"),
        ("max_nodes", "99999999999999999999", "is more than 1,000,000,000"),
        ("max_nodes", "0", "is less than 1"),
        ("plans", "data=0", "has 'data=0', which is not from 1"),
        ("max_retries", "99999999999999999999", "is more than 1,000,000,000"),
        ("cpus_per_gpu", "1e300", "is more than 1,000,000,000,000,000"),
        ("stages", "iteration:1|gpu:1|memory:1e300", "is more than 100,000 GiB"),
    ],
)
def test_a_number_that_cannot_be_is_a_fault_of_its_row(
    file: Write, column: str, cell: str, problem: str
) -> None:
    row = {"job_id": "j", "submit_seconds": "3", "duration_seconds": "60", "gpus": "4"}
    row[column] = cell
    path = file(f"{','.join(row)},model", f"{','.join(row.values())},bert")
    (fault,) = read(path, on_fault="skip").faults
    assert (fault.row, fault.column, fault.value) == (2, column, cell)
    assert problem in fault.problem and fault.remedy


def test_a_length_of_centuries_is_a_fault_of_its_row(file: Write) -> None:
    path = file("job_id,submit_seconds,gpus,samples,curve", "j,0,1,1e15,1:0.5", "k,0,1,10,1:1")
    workload = read(path, on_fault="skip")
    assert [job.id for job in workload.jobs] == ["k"]
    (fault,) = workload.faults
    assert (fault.row, fault.value) == (2, "j") and "takes 2e+15 seconds" in fault.problem


def test_a_file_of_a_later_schema_is_refused(file: Write) -> None:
    with pytest.raises(TraceFault, match="newer than this Weft"):
        read(file(f"{LEAST},schema_version", "j,0,60,1,2"))


def test_columns_that_are_not_read_are_named(file: Write) -> None:
    workload = read(file(f"{LEAST},GPU_type,site,model", "j,0,60,1,a100,north,bert"))
    nearly, unread = workload.faults
    assert (nearly.column, nearly.severity) == ("GPU_type", "info")
    assert "'gpu_types' is one" in nearly.problem and "--column gpu_types=GPU_type" in nearly.remedy
    assert unread.problem == "2 columns are not read: GPU_type, site"
    assert read(file(f"{LEAST},model", "j,0,60,1,bert")).faults == ()


def test_a_status_that_is_not_read_is_told_where_jobs_had_not_ended(file: Write) -> None:
    path = file(f"{LEAST},State", "a,0,60,1,RUNNING", "b,0,60,1,COMPLETED")
    told, _ = read(path).faults
    assert (told.column, told.problem.partition(";")[0]) == (
        "State",
        "1 row tells of a job that had not ended",
    )
    assert [one.row for one in read(path, columns={"status": "State"}).faults] == [2]


SLURM = "JobID,User,Submit,Elapsed,AllocGPUS,gpus"
MAPPED = {
    "job_id": "JobID",
    "tenant": "User",
    "submit_seconds": "Submit",
    "duration_seconds": "Elapsed",
    "gpus": "AllocGPUS",
}


def test_a_log_is_read_under_mapped_columns(file: Write) -> None:
    (job,) = read(file(SLURM, "17,alice,3,60,4,gres:4"), columns=MAPPED).jobs
    assert (job.id, job.tenant, job.width) == ("17", "alice", Width.fixed(4))


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"gpu": "AllocGPUS"}, "a job table has no 'gpu'"),
        ({"gpus": "GPUs"}, "has no column 'GPUs'"),
    ],
)
def test_a_mapping_names_columns_that_exist(
    file: Write, columns: dict[str, str], problem: str
) -> None:
    with pytest.raises(UnknownName, match=problem):
        read(file(SLURM, "17,alice,3,60,4,x"), columns=columns)


def test_a_mapping_means_our_own_table_whatever_else_the_file_looks_like(file: Write) -> None:
    listing = "job_id,tenant,submit_time_s,duration_s,num_gpus,kind"
    path = file(listing, "j,a,3,60,4,T4")
    with pytest.raises(TraceFault, match="is not in format 'weft'"):
        read(path, columns={"gpu_types": "kind"})
    with pytest.raises(SpecError, match="not to format 'listing'"):
        read(path, columns={"gpu_types": "kind"}, format="listing")
    mapped = {
        "gpus": "num_gpus",
        "submit_seconds": "submit_time_s",
        "duration_seconds": "duration_s",
        "gpu_types": "kind",
    }
    (job,) = read(path, columns=mapped, format="weft").jobs
    assert job.request.gpu_types == (GpuSpeed(GpuType("T4")),)


def test_a_byte_order_mark_and_blank_lines_do_no_harm(file: Write) -> None:
    (job,) = read(file(f"\ufeff{LEAST}", "", "j,3,60,4", "")).jobs
    assert job.id == "j"
