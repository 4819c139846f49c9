"""How many processes a job file starts: as it says, else as what the job is needs."""

import json
from typing import Any

import pytest

from weft.model.errors import SpecError
from weft.model.ids import JobId, TenantId
from weft.model.request import JobRequest
from weft.spec.job_file import JobFile
from weft.spec.reading import parse_job_file
from weft.spec.request import to_request

MODEL = {"parameters": 10**9, "layers": 24, "hidden": 2048, "sequence": 2048, "batch": 64}
PLANS = {"data": "python train.py --dp {data}"}


def a_job(gpus: int | str = 2, **fields: Any) -> JobFile:
    return parse_job_file(
        json.dumps({"run": "python train.py", "resources": {"gpus": gpus}} | fields)
    )


def refusal(**fields: Any) -> SpecError:
    with pytest.raises(SpecError) as caught:
        a_job(**fields)
    return caught.value


@pytest.mark.parametrize(
    ("fields", "per_gpu"),
    [
        ({}, False),
        ({"gpus": "2..2"}, False),
        ({"nodes": 2}, False),
        ({"preemptible": False, "checkpoint": {"every": "10m"}}, False),
        ({"nproc_per_node": "gpu"}, True),
        ({"gpus": "1..2"}, True),
        ({"gpus": "1..2", "nproc_per_node": 1}, False),
        ({"shareable": True}, True),
        ({"model": MODEL}, True),
        ({"model": MODEL, "plans": PLANS}, True),
        ({"model": MODEL, "plans": PLANS, "nproc_per_node": 1}, False),
        ({"gpus": 1}, True),  # the same as a process for the node, with the ranks of one
    ],
)
def test_a_plain_command_starts_once_and_what_weft_changes_for_each_gpu(
    fields: dict[str, Any], per_gpu: bool
) -> None:
    assert a_job(**fields).starts_per_gpu is per_gpu


@pytest.mark.parametrize("value", [0, 2, 8, "1", "cpu", "auto", "", True, 1.0, None, [1]])
def test_another_number_is_refused_with_what_is_meant(value: object) -> None:
    if value is None:
        assert a_job(nproc_per_node=value).nproc_per_node is None
        return
    error = refusal(nproc_per_node=value)
    assert "nproc_per_node" in str(error) and "allowed: 1 or gpu" in str(error)
    assert error.hint.startswith("write gpu for a process on each GPU, 1 for")


@pytest.mark.parametrize("run", ["torchrun train.py", "cd /x && accelerate launch train.py"])
def test_a_launcher_is_not_started_for_each_gpu(run: str) -> None:
    error = refusal(run=run, nproc_per_node="gpu")
    assert f"{'torchrun' if 'torch' in run else 'accelerate'} starts the processes" in str(error)
    assert error.hint == "remove nproc_per_node: the command runs once on each node"
    assert a_job(run=run, nproc_per_node=1)


def test_a_job_without_gpus_has_no_process_for_each() -> None:
    error = refusal(resources={"gpus": 0, "cpus": 1}, nproc_per_node="gpu")
    assert "without GPUs runs one process" in str(error)


def test_another_systems_word_leads_to_the_field() -> None:
    assert "nproc_per_node" in refusal(numProcPerNode=2).hint


def request(**fields: Any) -> JobRequest:
    return to_request(a_job(**fields), id=JobId("a/b"), tenant=TenantId("a"), submit_seconds=0.0)


def test_a_job_with_a_range_saves_on_demand_unless_it_is_one_process() -> None:
    assert request(gpus="1..2").saves_on_demand
    assert not request(gpus="1..2", nproc_per_node=1).saves_on_demand


def test_a_program_that_is_started_otherwise_is_another_program() -> None:
    programs = {request(**fields).program for fields in ({}, {"nproc_per_node": "gpu"})}
    assert len(programs) == 2
