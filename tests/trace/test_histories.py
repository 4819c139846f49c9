"""A cluster's own history: Slurm's accounts, Kueue's workloads."""

import json
from pathlib import Path
from typing import Any

import pytest

from weft.model.errors import TraceFault
from weft.model.ids import GpuType
from weft.model.request import GpuSpeed
from weft.trace.faults import OnFault, grouped
from weft.trace.readers import read
from weft.trace.readers.slurm_tres import read_tres
from weft.trace.store import write
from weft.trace.workload import Recorded, Workload

ACCOUNTS = """\
JobID|User|Account|Partition|Submit|Elapsed|State|AllocTRES
1|ann|lab|gpu|2026-01-01T10:00:00|01:30:00|COMPLETED|billing=8,cpu=64,gres/gpu=8,node=1
2|bob|lab|gpu|2026-01-01T10:05:00|1-00:00:10|FAILED|cpu=4,mem=8G
3|bob|lab|gpu|2026-01-01T10:06:00|00:00:00|CANCELLED by 7|
"""


def workload(name: str, *, gpus: int = 2, pods: int = 4, over: bool = True) -> dict[str, object]:
    moments = {"QuotaReserved": "10:01:00", "Admitted": "10:01:00"}
    moments |= {"Finished": "11:01:00"} if over else {}
    template = {"spec": {"containers": [{"resources": {"requests": {"nvidia.com/gpu": gpus}}}]}}
    return {
        "kind": "Workload",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "creationTimestamp": "2026-01-01T10:00:00Z",
        },
        "spec": {"queueName": "vision", "podSets": [{"count": pods, "template": template}]},
        "status": {
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": f"2026-01-01T{at}Z"}
                for kind, at in moments.items()
            ]
        },
    }


def test_accounts_of_slurm(tmp_path: Path) -> None:
    file = tmp_path / "history.txt"
    file.write_text(ACCOUNTS)
    read_in = read(file, on_fault="skip")
    wide, narrow = read_in.jobs
    assert (wide.width.asked_gpus, wide.work.amount, wide.submit_seconds) == (8, 5400, 0)
    assert (narrow.width.asked_gpus, narrow.request.cpus, narrow.work.amount) == (0, 4, 86410)
    assert str(wide.tenant) == "lab"
    assert read_in.recorded[narrow.id].status == "FAILED"
    assert [fault.row for fault in read_in.faults if fault.severity == "error"] == [4]


FULL = "JobID|User|Account|Partition|Submit|Start|End|Elapsed|State|ReqTRES|AllocTRES"


def accounts(
    tmp_path: Path, *rows: dict[str, str], head: str = FULL, on_fault: OnFault = "skip"
) -> Workload:
    """Rows of sacct: each is a job of four GPUs that has ended, but for what it says."""
    usual = {
        "JobID": "1",
        "User": "ann",
        "Account": "lab",
        "Partition": "gpu",
        "Submit": "2026-01-01T10:00:00",
        "Start": "2026-01-01T10:01:30",
        "End": "2026-01-01T11:01:30",
        "Elapsed": "01:00:00",
        "State": "COMPLETED",
        "ReqTRES": "cpu=8,gres/gpu=4",
        "AllocTRES": "cpu=8,gres/gpu:a100=4,gres/gpu=4,mem=64G,node=1",
    }
    lines = [
        head,
        *("|".join((usual | row).get(name, "") for name in head.split("|")) for row in rows),
    ]
    file = tmp_path / "accounts.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    return read(file, on_fault=on_fault)


def told(workload: Workload, severity: str) -> list[tuple[str, str]]:
    """Column and problem of the faults of one severity."""
    return [(one.column, one.problem) for one in workload.faults if one.severity == severity]


def test_wait_user_partition_and_gpu_type_are_kept(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {})
    (job,) = read_in.jobs
    assert read_in.recorded[job.id] == Recorded(
        status="COMPLETED",
        queue_seconds=90.0,
        user="ann",
        partition="gpu",
        allocated_gpu_types="a100",
    )
    assert (str(job.tenant), str(job.request.queue)) == ("lab", "default")
    assert (job.request.cpus_per_gpu, job.request.memory_gib_per_gpu) == (2.0, 16.0)
    assert job.request.gpu_types == (), "it was given that type and did not ask for it"
    written = tmp_path / "own.csv"
    write(read_in, written)
    again = read(written)
    assert (again.jobs, again.recorded) == (read_in.jobs, read_in.recorded)


def test_a_requested_gpu_type_is_a_demand_and_a_remark_states_it(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {"ReqTRES": "gres/gpu:a100=4"}, {"JobID": "2"})
    assert [job.request.gpu_types for job in read_in.jobs] == [(GpuSpeed(GpuType("a100")),), ()]
    (remark,) = [one for one in read_in.faults if one.column == "ReqTRES"]
    assert "1 job requests a GPU type (a100)" in remark.problem
    assert "--column gpu_types=" in remark.remedy


@pytest.mark.parametrize(
    "asked", ["gres/gpu:a100=2,gres/gpu:h100=2,gres/gpu=4", "gres/gpu:a100=2,gres/gpu=4"]
)
def test_types_for_parts_of_a_job_are_told(tmp_path: Path, asked: str) -> None:
    read_in = accounts(tmp_path, {"ReqTRES": asked})
    assert read_in.jobs[0].request.gpu_types == ()
    ((column, problem),) = told(read_in, "warning")
    assert column == "ReqTRES" and "for parts of its GPUs" in problem


@pytest.mark.parametrize(
    "state",
    [
        *("RUNNING", "PENDING", "SUSPENDED", "REQUEUED", "RESIZING", "COMPLETING", "running"),
        *("REVOKED", "NEW_STATE", "", "RES+"),
    ],
)
def test_a_job_that_has_not_ended_has_no_length(tmp_path: Path, state: str) -> None:
    read_in = accounts(tmp_path, {"State": state}, {"JobID": "2"})
    assert [job.id for job in read_in.jobs] == ["2"]
    ((column, problem),) = told(read_in, "error")
    assert column == "State" and "its length is not known" in problem
    with pytest.raises(TraceFault, match="its length is not known"):
        accounts(tmp_path, {"State": state}, on_fault="raise")


@pytest.mark.parametrize(
    "state",
    [
        *("FAILED", "CANCELLED by 1003", "CANCELLED+", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY"),
        *("OUT_OF_ME+", "PREEMPTED", "DEADLINE", "BOOT_FAIL"),
    ],
)
def test_a_job_that_ended_badly_keeps_its_length(tmp_path: Path, state: str) -> None:
    read_in = accounts(tmp_path, {"State": state})
    assert read_in.jobs[0].work.amount == 3600.0
    assert read_in.recorded[read_in.jobs[0].id].status == state


@pytest.mark.parametrize("end", ["Unknown", "None", ""])
def test_a_row_without_an_end_has_no_length(tmp_path: Path, end: str) -> None:
    assert told(accounts(tmp_path, {"End": end}), "error") == [
        ("End", "has no end, so its length is not known")
    ]


def test_many_running_rows_are_one_remark_with_their_count(tmp_path: Path) -> None:
    rows = [{"JobID": str(number), "State": "RUNNING", "End": "Unknown"} for number in range(40)]
    read_in = accounts(tmp_path, *rows)
    texts = [group.text for group in grouped(read_in.faults) if len(group.faults) > 1]
    assert texts == [
        "accounts.txt, 40 rows (2, 3, 4, …), State 'RUNNING': had not ended when sacct was asked, "
        "so its length is not known"
    ]


def test_a_job_that_never_started_is_told_as_such(tmp_path: Path) -> None:
    never = {"State": "CANCELLED by 7", "Start": "Unknown", "Elapsed": "00:00:00", "AllocTRES": ""}
    assert told(accounts(tmp_path, never), "error") == [
        ("AllocTRES", "never started: no resources were allocated")
    ]


def test_of_a_requeued_job_the_last_run_counts(tmp_path: Path) -> None:
    first = {"State": "PREEMPTED", "Elapsed": "00:10:00"}
    second = {"State": "NODE_FAIL", "Submit": "2026-01-01T12:00:00"}
    last = {"Submit": "2026-01-01T14:00:00", "Start": "2026-01-01T14:00:10", "Elapsed": "02:00:00"}
    read_in = accounts(tmp_path, last, first, second)
    (job,) = read_in.jobs
    assert job.work.amount == 7200.0
    recorded = read_in.recorded[job.id]
    assert (recorded.attempts, recorded.queue_seconds) == (3, 10.0)
    assert [column for column, _ in told(read_in, "error")] == ["JobID", "JobID"]
    assert "earlier run of a job whose last run is row 2" in told(read_in, "error")[0][1]


def test_a_requeued_job_that_runs_again_has_no_length(tmp_path: Path) -> None:
    again = {"Submit": "2026-01-01T12:00:00", "Start": "Unknown", "End": "Unknown"}
    read_in = accounts(tmp_path, {"State": "NODE_FAIL"}, again | {"State": "PENDING"})
    assert read_in.jobs == ()
    assert {column for column, _ in told(read_in, "error")} == {"JobID", "State"}


def test_a_job_that_stands_twice_is_counted_once(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {}, {})
    assert len(read_in.jobs) == 1
    assert "stands in row 2 already" in told(read_in, "error")[0][1]


def test_restarts_are_attempts(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {"Restarts": "2"}, head=f"{FULL}|Restarts")
    assert read_in.recorded[read_in.jobs[0].id].attempts == 3


@pytest.mark.parametrize(
    "cell", [{"User": "a_long_na+"}, {"AllocTRES": "billing=8,+"}, {"JobID": "123456+"}]
)
def test_a_cell_that_is_cut_off_is_a_fault(tmp_path: Path, cell: dict[str, str]) -> None:
    read_in = accounts(tmp_path, cell)
    assert (next(iter(cell)), "is cut off") in told(read_in, "error")
    assert read_in.jobs == ()


def test_components_of_a_heterogeneous_job_are_told(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {"JobID": "7+0"}, {"JobID": "7+1"}, {"JobID": "8_4"})
    assert [job.id for job in read_in.jobs] == ["7+0", "7+1", "8_4"]
    assert [column for column, _ in told(read_in, "warning")] == ["JobID", "JobID"]


def test_a_start_before_the_submission_is_no_wait(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {"Start": "2026-01-01T09:59:00"})
    assert read_in.recorded[read_in.jobs[0].id].queue_seconds is None
    assert "lies before the submission" in told(read_in, "warning")[0][1]


def test_columns_that_an_export_lacks_are_named(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {}, head="JobID|User|Submit|Elapsed|State|AllocTRES")
    (absent,) = [one for one in read_in.faults if "has no" in one.problem]
    assert absent.problem.startswith("has no Account, Partition, Start, ReqTRES: tenants,")
    assert "sacct -o Account,Partition,Start,ReqTRES" in absent.remedy
    assert str(read_in.jobs[0].tenant) == "ann"


def test_accelerators_that_are_not_counted_are_told(tmp_path: Path) -> None:
    read_in = accounts(tmp_path, {"AllocTRES": "cpu=8,gres/dcu=4"})
    assert read_in.jobs[0].width.max_gpus == 0
    assert ("AllocTRES", "holds gres/dcu=4, which is left out") in told(read_in, "warning")


def test_a_quote_in_a_job_name_takes_in_no_rows(tmp_path: Path) -> None:
    rows = [{"JobID": "1", "JobName": '"a'}, {"JobID": "2"}, {"JobID": "3", "JobName": 'b"'}]
    read_in = accounts(tmp_path, *rows, head=FULL.replace("JobID", "JobID|JobName"))
    assert [job.id for job in read_in.jobs] == ["1", "2", "3"]


def test_separators_at_the_ends_of_lines_are_no_column(tmp_path: Path) -> None:
    assert len(accounts(tmp_path, {}, head=f"{FULL}|").jobs) == 1


def test_steps_of_jobs_are_no_jobs(tmp_path: Path) -> None:
    file = tmp_path / "history.txt"
    row = "1.batch||lab|gpu|2026-01-01T10:00:00|01:30:00|COMPLETED|gres/gpu=8"
    file.write_text(ACCOUNTS + row + "\n")
    with pytest.raises(TraceFault, match=r"'1\.batch': is a step"):
        read(file)


def test_workloads_of_kueue(tmp_path: Path) -> None:
    file = tmp_path / "workloads.json"
    items = [workload("a"), workload("b", over=False)]
    file.write_text(json.dumps({"kind": "List", "items": items}))
    read_in = read(file, on_fault="skip")
    (job,) = read_in.jobs
    assert (job.id, str(job.tenant)) == ("team-a/a", "vision")
    assert (job.width.asked_gpus, job.work.amount) == (8, 3600)
    assert read_in.recorded[job.id].queue_seconds == 60.0
    (running,) = [fault for fault in read_in.faults if fault.severity == "error"]
    assert running.row == 2


def test_a_long_workload_keeps_every_second(tmp_path: Path) -> None:
    long = workload("a")
    status: Any = long["status"]
    status["conditions"][-1]["lastTransitionTime"] = "2026-01-15T16:57:07Z"
    file = tmp_path / "workloads.json"
    file.write_text(json.dumps({"items": [long]}))
    assert read(file).jobs[0].work.amount == 1_234_567.0


def test_the_wait_of_an_evicted_workload_is_not_known(tmp_path: Path) -> None:
    evicted = workload("a")
    status: Any = evicted["status"]
    status["conditions"].append({"type": "Evicted", "status": "False"})
    file = tmp_path / "workloads.json"
    file.write_text(json.dumps({"items": [evicted]}))
    read_in = read(file)
    assert read_in.recorded[read_in.jobs[0].id].queue_seconds is None


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"items": [{"kind": "Pod"}]}', '{"items": []}'])
def test_what_holds_no_workloads_is_said(text: str, tmp_path: Path) -> None:
    file = tmp_path / "workloads.json"
    file.write_text(text)
    with pytest.raises(TraceFault):
        read(file)


@pytest.mark.parametrize(
    ("tres", "gpus"),
    [
        ("cpu=8,gres/gpu=4,node=1", 4),
        ("cpu=8,gres/gpu:a100=4,gres/gpu=4", 4),
        ("cpu=8,gres/gpu:a100=4,gres/gpu:h100=2", 6),
        ("cpu=8,gres/gpu:a100=2,gres/gpu=4", 4),
        ("cpu=8,node=1", 0),
    ],
)
def test_gpus_of_slurm_are_counted_by_type_or_together(
    tres: str, gpus: int, tmp_path: Path
) -> None:
    file = tmp_path / "accounts.txt"
    head = "JobID|Submit|Elapsed|State|AllocTRES"
    file.write_text(f"{head}\n1|2026-01-01T10:00:00|01:00:00|COMPLETED|{tres}\n")
    (job,) = read(file).jobs
    assert job.width.asked_gpus == gpus


@pytest.mark.parametrize(
    ("tres", "problem"),
    [
        ("gres/gpu=x", "no whole number"),
        ("gres/gpu=0.5", "no whole number"),
        ("gres/gpu:a100:4", "no NAME=AMOUNT"),
        ("gres/gpu:a100=6,gres/gpu=4", "counts 4 GPUs, and 6 by type"),
        ("gres/gpu:a100_1g.5gb=2,gres/gpu=2", "MIG slices"),
        ("gres/gpu:3g.20gb=1", "MIG slices"),
        ("cpu=4,gres/shard=2", "part of a GPU"),
        ("cpu=4,gres/mps:a100=50", "part of a GPU"),
        ("cpu=4,mem=12X", "no amount of memory"),
    ],
)
def test_resources_that_cannot_be_counted_are_refused(tres: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        read_tres(tres)


@pytest.mark.parametrize(
    ("amount", "gib"), [("512G", 512), ("1.50T", 1536), ("2048M", 2), ("1024", 1), ("0", 0)]
)
def test_memory_of_slurm(amount: str, gib: float) -> None:
    assert read_tres(f"mem={amount}").memory_gib == gib


def test_gpus_that_cannot_be_counted_are_not_none(tmp_path: Path) -> None:
    file = tmp_path / "accounts.txt"
    head = "JobID|Submit|Elapsed|State|AllocTRES"
    file.write_text(f"{head}\n1|soon|01:00:00|COMPLETED|cpu=8,gres/gpu=x\n")
    faults = [fault for fault in read(file, on_fault="skip").faults if fault.severity == "error"]
    assert {fault.column for fault in faults} == {"Submit", "AllocTRES"}, "both, at once"
