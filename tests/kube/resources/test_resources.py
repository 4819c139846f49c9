"""The custom resources as models: what is read of a spec and of a status, and how fast."""

from datetime import UTC, datetime
from typing import Any, get_args

import pytest

from tests.work import calls_of
from weft.kube.resources.queue import QueueSpec
from weft.kube.resources.training_job import (
    Plan,
    StateName,
    TrainingJobSpec,
    TrainingJobStatus,
    manifest,
)
from weft.model.errors import SpecError, UnknownName
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.state import State
from weft.spec.job_file import JobFile
from weft.spec.reading import validated

STATUS: dict[str, Any] = {
    "observedGeneration": 1,
    "state": "Running",
    "gpus": 8,
    "progress": "37%",
    "reasons": [{"code": "Capacity.Busy", "text": "busy", "remedy": "wait"}],
    "decision": {
        "epoch": 3,
        "width": 8,
        "at": "2026-11-15T05:00:00Z",
        "leader": 7,
        "plan": {"data": 8, "accumulationSteps": 2},
        "seats": [{"node": "n0", "gpus": 8, "cpus": 64, "memoryGib": 476.5}],
    },
    "work": {"done": 10, "total": 100.5, "unit": "steps", "remainingSeconds": 5},
    "metrics": {"loss": 0.25},
    "past": {"attainedGpuSeconds": 12.5, "failures": 1},
    "startedAt": "2026-11-15T05:00:00.123456Z",
    "conditions": [
        {
            "type": "Running",
            "status": "True",
            "reason": "Running",
            "lastTransitionTime": "2026-11-15T05:00:00Z",
        }
    ],
    "ofANewerOperator": {"x": 1},
}


def test_a_training_job_is_the_job_file_without_its_name() -> None:
    assert set(TrainingJobSpec.model_fields) == set(JobFile.model_fields) - {"name"}
    with pytest.raises(UnknownName):
        validated(TrainingJobSpec, {"run": "x", "name": "y"})


def test_the_states_are_those_of_the_brain() -> None:
    assert get_args(StateName) == tuple(state.name.capitalize() for state in State)


def test_a_plan_is_that_of_the_brain() -> None:
    assert set(Plan.model_fields) == {name for name in ExecutionPlan.__dataclass_fields__}
    assert Plan.model_validate({}).model_dump() == {
        name: getattr(AS_WRITTEN, name) for name in Plan.model_fields
    }


def test_a_status_is_read() -> None:
    status = TrainingJobStatus.model_validate(STATUS)
    assert status.decision is not None
    assert status.decision.seats[0].memory_gib == 476.5
    assert status.decision.plan is not None
    assert status.decision.plan.accumulation_steps == 2
    assert status.started_at == datetime(2026, 11, 15, 5, 0, 0, 123456, UTC)
    assert status.past is not None
    assert (status.past.failures, status.past.preemptions) == (1, 0)
    assert TrainingJobStatus.model_validate({}).state is None


def test_a_manifest() -> None:
    assert manifest("vit", {"run": "x"}, namespace="team") == {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "TrainingJob",
        "metadata": {"name": "vit", "namespace": "team"},
        "spec": {"run": "x"},
    }
    assert manifest("vit", {"run": "x"})["metadata"] == {"name": "vit"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"guaranteed": 8, "limit": 4}, "guaranteed is above limit"),
        ({"parent": "a", "recipe": "las"}, "only a queue without a parent"),
        ({"recipe": "/tmp/x.py:las"}, "does not fit"),
        ({"recipe": "x.py:las"}, "does not fit"),
        ({"recipe": "las(hold=__import__('os'))"}, "does not fit"),
        ({"guaranteed": -1}, "is too small"),
        ({"weight": 0}, "is too small"),
        ({"max_slowdown": 0.9}, "is too small"),
        ({"weight": float("nan")}, "is not a finite number"),
        ({"namespaces": ["A"]}, "does not fit"),
        ({"limits": 3}, "there is no such field"),
    ],
)
def test_a_queue_that_cannot_be(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said) as caught:
        validated(QueueSpec, spec)
    assert caught.value.hint


def test_a_spec_is_read_in_few_calls() -> None:
    spec = {
        "run": "torchrun train.py",
        "image": "x:1",
        "resources": {"gpus": "4..16", "gpu_type": ["H100"], "cpus_per_gpu": 8},
        "env": {f"V{number}": "x" for number in range(10)},
        "volumes": [{"claim": "a", "path": "/a"}],
        "checkpoint": {"path": "/a/b", "every": "10m"},
        "queue": "default",
        "priority": 0,
        "preemptible": True,
        "grace": "30s",
        "retry": {"limit": 3},
    }
    TrainingJobSpec.model_validate(spec)
    calls = calls_of(lambda: TrainingJobSpec.model_validate(spec))

    assert calls < 300
