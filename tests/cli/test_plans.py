"""`weft plans`: a model file, and the table of what could be done with it."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from weft.cli.spec.plans import plans
from weft.model.errors import SpecError
from weft.spec.model_file import read_model_file

LLAMA = """\
parameters: 6738415616
layers: 32
hidden: 4096
sequence: 2048
batch: 16
vocabulary: 32000
heads: 32
"""


@pytest.fixture
def model(tmp_path: Path) -> Path:
    file = tmp_path / "llama.yaml"
    file.write_text(LLAMA)
    return file


def test_every_width_with_time_and_memory(model: Path) -> None:
    said = CliRunner().invoke(plans, [str(model), "--gpus", "8", "-o", "json"])
    found = json.loads(said.output)
    assert found["schema"] == "weft-plans/1"
    assert [one["gpus"] for one in found["plans"]] == [1, 2, 4, 8]
    for one in found["plans"]:
        assert 0.0 < one["seconds"] <= one["slow_seconds"]
        assert 0.0 < one["gpu_gib"] <= 80.0


def test_a_smaller_gpu_needs_another_plan(model: Path) -> None:
    large, small = (
        json.loads(CliRunner().invoke(plans, [str(model), "--memory", gib, "-o", "json"]).output)[
            "plans"
        ]
        for gib in ("80", "24")
    )
    assert large[0]["gpus"] < small[0]["gpus"] or large[0]["plan"] != small[0]["plan"]


def test_the_table_says_when_nothing_fits(model: Path) -> None:
    said = CliRunner().invoke(plans, [str(model), "--gpus", "1", "--memory", "2"])
    assert "no plan fits" in said.output


def test_what_no_program_offers_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(LLAMA + "offers: [expert]\n")
    with pytest.raises(SpecError, match="none of them"):
        read_model_file(file)
    with pytest.raises(SpecError, match="cannot be read"):
        read_model_file(tmp_path / "missing.yaml")


def of_job(tmp_path: Path, gpus: str, *words: str) -> list[int]:
    """The widths that are shown for a job that asks for so many."""
    file = tmp_path / "job.yaml"
    model = "".join(f"  {line}\n" for line in LLAMA.splitlines())
    file.write_text(f"name: x\nrun: train\nresources: {{gpus: {gpus}}}\nmodel:\n{model}")
    said = CliRunner().invoke(plans, [str(file), "-o", "json", *words])
    assert said.exit_code == 0, said.output
    return [one["gpus"] for one in json.loads(said.output)["plans"]]


def test_of_a_job_only_widths_that_it_may_have(tmp_path: Path) -> None:
    assert of_job(tmp_path, "4..16") == [4, 8, 16]
    assert of_job(tmp_path, "4..8") == [4, 8]
    assert of_job(tmp_path, "8") == [8]
    assert of_job(tmp_path, "4..8", "--gpus", "4") == [4]
    assert of_job(tmp_path, "4..8", "--gpus", "64") == [4, 8]
    assert of_job(tmp_path, "1..2") == [], "none that fits"
