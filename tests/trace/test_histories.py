"""A cluster's own history: Slurm's accounts, Kueue's workloads."""

import json
from pathlib import Path

import pytest

from weft.model.errors import TraceFault
from weft.trace.readers import read

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
    (running,) = [fault for fault in read_in.faults if fault.severity == "error"]
    assert running.row == 2


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


def test_gpus_that_cannot_be_counted_are_not_none(tmp_path: Path) -> None:
    file = tmp_path / "accounts.txt"
    head = "JobID|Submit|Elapsed|State|AllocTRES"
    file.write_text(f"{head}\n1|soon|01:00:00|COMPLETED|cpu=8,gres/gpu=x\n")
    faults = [fault for fault in read(file, on_fault="skip").faults if fault.severity == "error"]
    assert {fault.column for fault in faults} == {"Submit", "AllocTRES"}, "both, at once"
