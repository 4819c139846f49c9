"""Job files tried in the simulated world before anybody runs them."""

from pathlib import Path

import pytest

from weft.lab.experiment import Experiment, run
from weft.lab.workloads.source import FromFile
from weft.model.errors import SpecError

JOB = "run: python train.py\nresources: {gpus: 1..4}\nduration: 1h\n"


def test_one_file_is_one_job_named_after_it(tmp_path: Path) -> None:
    file = tmp_path / "sft.yaml"
    file.write_text(JOB)
    (job,) = FromFile(path=str(file)).load(seed=0, gpus=4).jobs
    assert (job.id, job.width.min_gpus, job.width.max_gpus) == ("sft", 1, 4)
    assert job.work.amount == 3600.0


def test_a_folder_runs_and_widths_follow_the_recipe(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text(JOB)
    source = FromFile(path=str(tmp_path))
    recipe = "maxmin(hold=0,spacing=1)"
    experiment = Experiment(source=source, cluster="1x4", recipe=recipe, costs="free")
    record = run(experiment).record
    assert [line.outcome for line in record.jobs.values()] == ["succeeded", "succeeded"]
    assert record.end == pytest.approx(7200.0, rel=0.01), "two jobs of four GPU-hours on four GPUs"


@pytest.mark.parametrize(
    ("text", "hint"), [("run: python train.py\n", "duration"), ("walk: far\n", "run")]
)
def test_what_cannot_be_simulated_is_told_with_a_hint(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "job.yaml").write_text(text)
    with pytest.raises(SpecError) as told:
        FromFile(path=str(tmp_path / "job.yaml")).load(seed=0, gpus=4)
    assert hint in told.value.hint + str(told.value)


def test_an_empty_folder_is_no_workload(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no job files"):
        FromFile(path=str(tmp_path)).load(seed=0, gpus=4)
