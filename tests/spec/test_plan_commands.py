"""A job file that tells its model, and by which command it is started under which plan."""

import re
from pathlib import Path

import pytest

from weft.model.capability import EVERYTHING, Capability
from weft.model.errors import SpecError
from weft.model.ids import JobId, TenantId
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.model.request import JobRequest, WorkUnit
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.options import Asked, options
from weft.spec.job_file import JobFile
from weft.spec.model_file import read_model_file
from weft.spec.plan_commands import WORDS, PlanCommands, filled
from weft.spec.reading import parse_job_file
from weft.spec.request import to_request

SHAPE = "parameters: 1000000000, layers: 24, hidden: 2048, sequence: 2048, batch: 64"
MODEL = f"run: python train.py\nmodel: {{{SHAPE}}}\n"
TITAN = """
plans:
  data: torchtitan --replicas {data}
  fsdp2: torchtitan --replicas {data} --shards {shard} --tp {tensor}
  tensor: torchtitan --tp {tensor} --dp {data}
  pipeline: torchtitan --pp {pipeline} --tp {tensor} --micro {micro_batch} --gpus {gpus}
"""


def file_of(text: str) -> JobFile:
    return parse_job_file(MODEL + text)


def commands(text: str = TITAN) -> PlanCommands:
    found = file_of(text).plans
    assert found is not None
    return found


def request(text: str) -> JobRequest:
    file = parse_job_file(text)
    return to_request(file, id=JobId("a/b"), tenant=TenantId("a"), submit_seconds=0.0)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("plans: {tensor: x --tp 2}", "tensor is not told how many", "put {tensor}"),
        ("plans: {pipeline: 'x {pipeline}'}", "not told the micro-batches", "{micro_batches}"),
        ("plans: {tensor: 'x {tensors}'}", "'{tensors}' is no placeholder", "{tensor}?"),
        ("plans: {data: 'awk {print}'}", "'{print}' is no placeholder", "{{print}}"),
        ("plans: {data: 'x {0}'}", "is no placeholder", "{{0}}"),
        ("plans: {ddp: x}", "no such field", "'plans.data'"),
        ("plans: {tp: 'x {tensor}'}", "no such field", "'plans.tensor'"),
        ("plans: {fsdp: x}", "no such field", "'fsdp2'"),
        ("plans: {megatron: x}", "no such field", "data, zero1"),
        ("plans: {data: [python, train.py]}", "is not text", "python train.py --dp {data}"),
        ("plans: {data: ''}", "too short", ""),
        ("plans: {data: }", "no family of plans has a command", "remove plans"),
        ("plans: {}", "no family of plans has a command", "remove plans"),
        (f"plans: {{data: {'x' * 4001}}}", "too long", ""),
    ],
)
def test_commands_that_are_refused(text: str, says: str, hint: str) -> None:
    with pytest.raises(SpecError, match="plans") as refused:
        file_of(text)
    assert says in str(refused.value)
    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("run: x\nplans: {data: y}", "without the model's shape"),
        (f"run: x\nmodel: {{{SHAPE}}}\nresources: {{gpus: 0, cpus: 1}}", "none to split a model"),
        (f"run: x\nmodel: {{{SHAPE}, offers: [data]}}\nplans: {{data: y}}", "from its commands"),
        (f"run: x\nmodel: {{{SHAPE}, offers: [zero1, data]}}", "does not run a model by zero1"),
        (f"run: x\nmodel: {{{SHAPE}, offers: [expert]}}", "none of them"),
        (f"run: x\nmodel: {{{SHAPE}, offers: []}}", "too few"),
        (f"run: x\nmodel: {{{SHAPE}, vocabulary: 1000000}}", "fewer than its embedding"),
        ("run: x\nmodel: {parameters: 1000}", "is missing"),
        (f"run: x\nmodel: {{{SHAPE.replace('64', '0')}}}", "too small"),
        (f"run: x\nmodel: {{{SHAPE.replace('24', '1e9')}}}", "whole number"),
    ],
)
def test_models_that_are_refused(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says) as refused:
        parse_job_file(text)
    assert refused.value.hint


def test_what_it_offers_follows_from_its_commands() -> None:
    found = {family.name: set(family.offers) for family in commands().families}
    assert found["data"] == {Capability.DATA}
    assert found["fsdp2"] == {
        *(Capability.DATA, Capability.FSDP2, Capability.HYBRID, Capability.TENSOR)
    }
    assert found["pipeline"] == {
        *(Capability.DATA, Capability.PIPELINE, Capability.TENSOR, Capability.ACCUMULATION)
    }


@pytest.mark.parametrize(
    ("plan", "gpus", "command"),
    [
        (AS_WRITTEN, 4, None),
        (ExecutionPlan(data=4), 4, "torchtitan --replicas 4"),
        (ExecutionPlan(data=1), 1, "torchtitan --replicas 1"),
        (ExecutionPlan(data=2, tensor=4), 8, "torchtitan --tp 4 --dp 2"),
        (
            ExecutionPlan(data=4, sharding=Sharding.PARAMETERS, shard_degree=2),
            4,
            "torchtitan --replicas 4 --shards 2 --tp 1",
        ),
        (
            ExecutionPlan(data=2, tensor=2, sharding=Sharding.PARAMETERS),
            4,
            "torchtitan --replicas 2 --shards 2 --tp 2",
        ),
        (
            ExecutionPlan(data=2, tensor=2, pipeline=2, micro_batches=4),
            8,
            "torchtitan --pp 2 --tp 2 --micro 8 --gpus 8",
        ),
        (ExecutionPlan(data=2, sharding=Sharding.GRADIENTS), 2, None),
        (ExecutionPlan(data=2, pipeline=2, sharding=Sharding.PARAMETERS), 4, None),
    ],
)
def test_the_command_of_a_plan(plan: ExecutionPlan, gpus: int, command: str | None) -> None:
    assert commands().run(plan, gpus=gpus, batch=64) == command


def test_no_plan_is_chosen_that_no_command_carries() -> None:
    claim = commands().claim(file_of(TITAN).model or pytest.fail("no model"))
    asked = Asked(claim=claim, plans=(AS_WRITTEN,), gpus=8, cores=4.0, least_gpus=1, most_gpus=16)
    found = options(asked, Fabric())
    assert len(found.plans) > 50
    for plan in found.plans:
        gpus = plan.data * plan.gpus_per_replica
        assert commands().run(plan, gpus=gpus, batch=64) is not None, plan
    sharded = [plan for plan in found.plans if plan.sharding is not Sharding.NONE]
    assert any(plan.tensor > 1 for plan in sharded)
    assert all(plan.pipeline == 1 for plan in sharded)


def test_braces_of_others_are_left_alone() -> None:
    line = "A=${HOME} B=${1:-{x}} awk '{{print}}' {data} {a,b} {} {data"
    plan = ExecutionPlan(data=3)
    told = "A=${HOME} B=${1:-{x}} awk '{print}' 3 {a,b} {} {data"
    assert filled(line, plan, gpus=3, batch=9) == told
    everything = " ".join(f"{{{word}}}" for word in WORDS)
    assert filled(everything, plan, gpus=3, batch=9) == "3 3 1 1 1 1 1 3 false false"


def test_a_model_makes_a_job_whose_plan_may_be_chosen() -> None:
    job = request(MODEL + "resources: {gpus: 1..8}")
    assert job.splits is not None
    assert job.splits.open
    assert set(job.splits.offers) == {Capability.DATA, Capability.FSDP2, Capability.HYBRID}
    assert (job.unit, job.curve, job.saves_on_demand) == (WorkUnit.STEPS, None, True)
    named = request(f"run: x\nmodel: {{{SHAPE}, offers: [data, tensor]}}")
    assert named.splits is not None
    assert not named.splits.open
    assert request(MODEL + "duration: 2h").unit is WorkUnit.SECONDS
    assert request("run: x").splits is None


def test_a_job_with_commands_goes_on_from_the_checkpoint_that_there_is() -> None:
    job = request(MODEL + "resources: {gpus: 1..8}" + TITAN)
    assert not job.saves_on_demand
    assert job.splits is not None
    assert len(job.splits.families) == 4


def test_the_files_of_the_guide_are_job_files() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "plans.md").read_text()
    pieces = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    assert [parse_job_file(piece).plans is not None for piece in pieces] == [False, True]


def test_a_job_file_can_be_asked_about_its_plans(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(MODEL + TITAN)
    assert len(read_model_file(path).claim.families) == 4
    path.write_text(SHAPE.replace(", ", "\n"))
    assert set(read_model_file(path).claim.offers) == EVERYTHING
    path.write_text("run: x")
    with pytest.raises(SpecError, match="says nothing of its model"):
        read_model_file(path)
    path.write_text("name: a\nresources: {gpus: 8}")
    with pytest.raises(SpecError, match="run: is missing"):
        read_model_file(path)
