"""What a run leaves behind, and that it is the same each time."""

import csv
import hashlib
from pathlib import Path

import orjson
import pytest

from weft.lab.compare_dir import leave_in
from weft.lab.comparison import compare
from weft.lab.experiment import Experiment, Outcome
from weft.lab.run_dir import JOURNAL, journal_in, prepared, read_manifest, run_into
from weft.lab.workloads.source import FromFile, Generated
from weft.model.errors import SpecError
from weft.model.reason import CAUSES
from weft.trace.generator import generate
from weft.trace.store import write


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_everything_is_there(run_folder: Path) -> None:
    assert sorted(path.name for path in run_folder.iterdir()) == [
        "jobs.csv",
        "journal.jsonl.gz",
        "manifest.json",
        "occupancy.csv",
        "report.html",
        "summary.json",
        "waits.csv",
    ]


def test_the_manifest_says_how_to_do_it_again(run_folder: Path, outcome: Outcome) -> None:
    manifest = read_manifest(run_folder)
    assert manifest["recipes"] == ["las"]
    assert manifest["seed"] == 3
    assert manifest["command"] == ["weft", "simulate"]
    assert manifest["journal_hash"] == outcome.record.journal_hash
    assert manifest["workload"] == {"jobs": 60, "load_factor": 1.5, "days": None}
    for key in ("weft", "python", "numpy", "platform", "costs", "cluster"):
        assert manifest[key]


def test_tables_agree_with_the_record(run_folder: Path, outcome: Outcome) -> None:
    jobs = rows(run_folder / "jobs.csv")
    assert len(jobs) == outcome.summary.jobs
    jcts = [float(row["jct_seconds"]) for row in jobs]
    assert sum(jcts) / len(jcts) == pytest.approx(outcome.summary.mean_jct_seconds)
    waits = rows(run_folder / "waits.csv")
    for cause in CAUSES:
        total = sum(float(row[f"{cause.label}_seconds"]) for row in waits)
        assert total == pytest.approx(outcome.summary.waits_seconds[cause.label])
    summary = orjson.loads((run_folder / "summary.json").read_bytes())
    assert summary["schema"] == "weft-summary/1"


def test_the_same_run_gives_the_same_bytes(run_folder: Path, tmp_path: Path) -> None:
    experiment = Experiment(
        source=Generated(jobs=60, load_factor=1.5), cluster="2x8", recipe="las", seed=3
    )
    run_into(tmp_path, experiment, command=["weft", "simulate"])
    for name in ("jobs.csv", "waits.csv", "occupancy.csv", JOURNAL, "manifest.json"):
        assert (tmp_path / name).read_bytes() == (run_folder / name).read_bytes(), name


def test_inputs_are_hashed(tmp_path: Path) -> None:
    jobs, folder = tmp_path / "jobs.csv", prepared(tmp_path / "out")
    write(generate(jobs=5, seed=0, gpus=8), jobs)
    run_into(folder, Experiment(source=FromFile(path=str(jobs)), cluster="1x8"), command=[])
    digest = hashlib.sha256(jobs.read_bytes()).hexdigest()
    assert read_manifest(folder)["inputs_sha256"] == {str(jobs): digest}


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("all of it")
    with pytest.raises(SpecError, match="not empty"):
        prepared(tmp_path)
    assert prepared(tmp_path, force=True) == tmp_path
    with pytest.raises(SpecError, match="is a file"):
        prepared(tmp_path / "thesis.tex")


def test_a_folder_without_a_run(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no complete run"):
        read_manifest(tmp_path)
    with pytest.raises(SpecError, match=JOURNAL):
        journal_in(tmp_path)


def test_a_comparison_leaves_its_trials(tmp_path: Path) -> None:
    experiment = Experiment(source=Generated(jobs=10), cluster="1x8")
    leave_in(tmp_path, compare(experiment, recipes=["fifo", "las"], seeds=[0]), command=["weft"])
    assert [row["recipe"] for row in rows(tmp_path / "trials.csv")] == ["fifo", "las"]
    assert read_manifest(tmp_path)["recipes"] == ["fifo", "las"]
    assert "2 recipes on 1x8" in (tmp_path / "report.html").read_text()
