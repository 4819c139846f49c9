"""As what a job runs, and what else there was: written into its status, and read by a person."""

from typing import Any

from tests.kube.looks import a_job
from weft.kube.operator.status.patches import Standing, standing_patch
from weft.kube.reading.jobs import job_detail
from weft.kube.resources.training_job import TrainingJobStatus
from weft.model.state import State
from weft.view.plans import Alternative, Considered

WAY = Alternative(4, 8.0, "data 2 × tensor 2", 0.625, 19_440.0, "what it was given adds most")
OTHER = Alternative(8, 8.0, "data 8", 0.9, 13_500.0, "4 GPUs are missing")
META = {"name": "job", "namespace": "team"}


def status(found: Considered | None) -> dict[str, object]:
    patch = standing_patch(a_job("job"), Standing(State.RUNNING, 4, plan=found), 0.0)
    told: dict[str, object] = patch["status"]
    choice: Any = told.get("planChoice") or {}
    kept = {name: value for name, value in choice.items() if value is not None}
    TrainingJobStatus.model_validate({"planChoice": kept})
    return told


def test_what_is_written_is_what_is_read() -> None:
    found = Considered(WAY, (OTHER, OTHER), "its steps were +30 % off", "steps")
    told = status(found)
    assert job_detail({"metadata": META, "status": told}).plan == found


def test_of_a_job_without_a_choice_nothing_is_written() -> None:
    assert "planChoice" not in status(None)
    assert job_detail({"metadata": META, "status": {}}).plan is None


def test_one_that_waits_has_only_what_it_could_be() -> None:
    told = status(Considered(None, (OTHER,)))
    read = job_detail({"metadata": META, "status": told}).plan
    assert read == Considered(None, (OTHER,))
