"""`weft spec`: job files without a cluster."""

import io
from pathlib import Path

import pytest

from tests.cli.called import Weft, expect_json_shape
from weft.spec.explain import example_file


def test_a_first_file_can_be_used(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "first-job.yaml"
    assert f"weft spec check {path}" in weft("spec", "init", path).err
    assert weft("spec", "check", path).out == f"{path}: first-job, 1 GPU\n"
    assert weft("spec", "init", "--name", "first-job").out == path.read_text()


def test_a_file_is_not_written_over(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.touch()
    called = weft("spec", "init", path)
    assert called.status == 2
    assert "hint: --force" in called.err
    assert weft("spec", "init", path, "--force").status == 0
    assert weft("spec", "init", tmp_path / "none" / "job.yaml").status == 2
    assert weft("spec", "init", "--name", "No").status == 2


def test_check_tells_what_is_wrong_with_each(weft: Weft, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(example_file())
    bad.write_text("run: x\nresources: {gpu: 8}\n")
    called = weft("spec", "check", good, bad)
    assert called.status == 2
    assert "llama-sft, 4..16 GPUs of H100 or A100" in called.out
    assert "error: bad.yaml line 2" in called.err
    assert "hint: did you mean 'gpus'?" in called.err
    twin = weft("spec", "check", good, bad, "-o", "json")
    assert twin.status == 2
    assert [line["error"] is None for line in twin.json["files"]] == [True, False]
    expect_json_shape("spec-check.json", twin.json)


def test_all_faults_of_a_file_are_told_at_once(weft: Weft, tmp_path: Path) -> None:
    bad = tmp_path / "bad.yaml"
    bad.write_text("rnu: x\nresources: {gpus: two}\npriority: high\n")
    for words in (("spec", "check", bad), ("submit", "--dry-run", bad)):
        called = weft(*words)
        assert called.status == 2
        assert called.err.count("error: ") == called.err.count("hint: ") == 4
        for field in ("rnu", "run", "resources.gpus", "priority"):
            assert f"{field}: " in called.err
        assert called.err.startswith("error: bad.yaml line 1, rnu: there is no such field\n")
    (line,) = weft("spec", "check", bad, "-o", "json").json["files"]
    assert len(line["faults"]) == 4
    assert all(fault["hint"] for fault in line["faults"])


@pytest.mark.parametrize(
    ("file", "name"),
    [("train.yaml", "train"), ("My Job.yaml", "no name (submit it with --name)")],
)
def test_check_names_a_job_as_submit_would(
    weft: Weft, tmp_path: Path, file: str, name: str
) -> None:
    (tmp_path / file).write_text("run: x\n")
    assert weft("spec", "check", tmp_path / file).out == f"{tmp_path / file}: {name}, 1 GPU\n"


def test_check_reads_standard_input(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"run: x\n")))
    assert weft("spec", "check", "-").out == "-: no name, 1 GPU\n"


def test_explain(weft: Weft) -> None:
    assert "resources" in weft("spec", "explain").out
    assert "4..16" in weft("spec", "explain", "resources.gpus").out
    called = weft("spec", "explain", "resources.gpu")
    assert called.status == 2
    assert "resources.gpus" in called.err
    expect_json_shape("spec-explain.json", weft("spec", "explain", "resources", "-o", "json").json)


def test_schema(weft: Weft) -> None:
    assert "run" in weft("spec", "schema").json["properties"]


def test_import_slurm(weft: Weft, tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n#SBATCH --job-name=sft --gpus=8\ntorchrun train.py\n")
    path = tmp_path / "job.yaml"
    path.write_text(weft("spec", "import-slurm", script).out)
    assert weft("spec", "check", path).out == f"{path}: sft, 8 GPUs\n"
    assert weft("spec", "import-slurm", tmp_path / "none").status == 2
