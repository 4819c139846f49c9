"""What a pod begins with under a plan that was decided."""

from typing import Any

import pytest

from weft.agent.plan import Plan
from weft.agent.settings import from_environment
from weft.kube.pod_plans import with_plan
from weft.kube.pods import PodMaker, WorkerSettings
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.model.plan import AS_WRITTEN, ExecutionPlan, Sharding
from weft.spec.job_file import JobSpec

MODEL = {"parameters": 10**9, "layers": 24, "hidden": 2048, "sequence": 2048, "batch": 64}
COMMANDS = {"tensor": "python train.py --tp {tensor} --dp {data} --home $HOME"}
SPLIT = ExecutionPlan(data=2, tensor=2)


def a_pod(plan: ExecutionPlan | None, **spec: Any) -> dict[str, Any]:
    found = JobSpec.model_validate({"run": "python train.py", "image": "x", **spec})
    maker = PodMaker(WorkerSettings(), namespace="team", name="job", uid="1", spec=found)
    seats = (Seat(NodeId("a"), 4, number=0),)
    return with_plan(maker.pod(epoch=1, seats=seats, number=0, leader=1), found, plan, 4)


def command(pod: dict[str, Any]) -> str:
    return str(pod["spec"]["containers"][0]["command"][-1])


def variables(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0]["env"]}


@pytest.mark.parametrize("plan", [None, AS_WRITTEN])
def test_what_is_left_to_the_job_is_left_alone(plan: ExecutionPlan | None) -> None:
    pod = a_pod(plan, model=MODEL, plans=COMMANDS)
    assert command(pod) == "python train.py"
    assert "WEFT_BEGIN_PLAN" not in variables(pod)


def test_a_job_with_commands_is_started_by_that_of_its_plan() -> None:
    pod = a_pod(SPLIT, model=MODEL, plans=COMMANDS)
    assert command(pod) == "python train.py --tp 2 --dp 2 --home $$HOME"
    assert "WEFT_BEGIN_PLAN" not in variables(pod)


def test_a_plan_that_no_command_carries_is_left_to_the_job() -> None:
    sharded = ExecutionPlan(data=4, sharding=Sharding.OPTIMIZER)
    assert command(a_pod(sharded, model=MODEL, plans=COMMANDS)) == "python train.py"


def test_an_agent_is_told_the_degrees_that_it_begins_with() -> None:
    pod = a_pod(SPLIT, model=MODEL)
    assert command(pod) == "python train.py"
    told = variables(pod)
    assert told["WEFT_BEGIN_PLAN"] == "tensor=2"
    assert from_environment(("x",), told).plan == Plan(tensor=2)
    assert from_environment(("x",), {}).plan == Plan()
