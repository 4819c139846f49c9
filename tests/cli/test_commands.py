"""Each command once as a person would use it, and its JSON twin."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.called import Weft, expect_json_shape

SMALL = ("--jobs", "30", "--cluster", "1x8")


@pytest.fixture
def folder(weft: Weft, tmp_path: Path) -> Path:
    """The folder of a small run."""
    target = tmp_path / "run"
    called = weft("simulate", *SMALL, "--load", "2", "--out", target)
    assert called.status == 0
    assert f"report: {target / 'report.html'}" in called.err
    return target


def test_simulate_prints_tables(weft: Weft) -> None:
    called = weft("simulate", *SMALL)
    assert called.status == 0
    assert "elasticity is not used: all 30 jobs" in called.err
    for word in ("completion time", "start delay", "Waiting time by cause", "Tenants", "30 of 30"):
        assert word in called.out


def test_simulate_in_json(weft: Weft) -> None:
    called = weft("simulate", *SMALL, "--recipe", "fair", "--costs", "free", "-o", "json")
    assert called.json["recipe"] == "fair"
    assert called.json["schema"] == "weft-summary/1"
    expect_json_shape("simulate.json", called.json)


def test_simulate_tells_what_never_finished(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    assert weft("trace", "generate", path, *SMALL[:2], "--cluster", "8x8").status == 0
    called = weft("simulate", path, "--cluster", "1x1", "-o", "json")
    assert called.json["unfinished"] > 0
    assert "never finished" in called.err


def test_compare_tells_differences_first_and_then_means(weft: Weft) -> None:
    called = weft("compare", *SMALL, "-r", "fifo,las", "-r", "srtf", "--workers", "1")
    assert called.status == 0
    apart, means = called.out.split("means over the seeds")
    for part, names in ((apart, ["las", "srtf"]), (means, ["fifo", "las", "srtf"])):
        first = [line.split()[0] for line in part.splitlines() if line.strip()]
        assert [one for one in first if one in ("fifo", "las", "srtf")] == names
    assert "against fifo, seed by seed" in apart
    assert "% ±" in apart


def test_compare_fits_a_terminal_of_80_columns(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.cli.terminal.screen.PIPE_WIDTH", 80)
    long = "tiresias(limits=(3250.0, 7200.0), promote=8.0)"
    out = weft("compare", *SMALL, "-r", f"fifo,weave,{long}", "--workers", "1").out
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out
    assert weft("compare", *SMALL, "-r", "fifo", "--workers", "1").out.count("fifo") == 1


def test_compare_claims_nothing_of_a_recipe_under_which_no_job_ends(
    weft: Weft, tmp_path: Path
) -> None:
    mine = tmp_path / "never.py"
    mine.write_text(
        "from weft.policy.recipes import fifo\nfrom dataclasses import replace\n"
        "never = replace(fifo(), place=lambda room, fabric, kind, width, avoid=None: None)\n"
    )
    words = ("compare", *SMALL, "--seeds", "0", "--workers", "1", "-r", f"fifo,{mine}:never")
    called = weft(*words)
    assert "%" not in called.out.split("means over the seeds")[0]
    assert "30 jobs never finished under" in called.out
    row = weft(*words, "-o", "json").json["recipes"][1]
    assert (row["ended"], row["ratio_to_first"]["mean_jct_seconds"]) == (0, None)


def test_jobs_that_failed_for_good_are_told(weft: Weft) -> None:
    """A recipe under which they fail early would else look fast."""
    words = (*SMALL, "--failures", "philly*5")
    failed = weft("simulate", *words, "-o", "json").json["failed"]
    assert failed > 1
    assert f"jobs finished, {failed} failed for good, in" in weft("simulate", *words).out
    both = ("compare", *words, "--seeds", "0", "--workers", "1", "-r", "fifo,weave")
    (row, _) = weft(*both, "-o", "json").json["recipes"]
    assert row["failed"] > 1
    assert f"{row['failed']} jobs failed for good under fifo" in weft(*both).out


def test_compare_in_json_and_wide(weft: Weft, tmp_path: Path) -> None:
    words = ("compare", *SMALL, "-r", "fifo,las", "--seeds", "0,4", "--workers", "1")
    called = weft(*words, "-o", "json", "--out", tmp_path / "out")
    assert called.json["seeds"] == [0, 4]
    expect_json_shape("compare.json", called.json)
    assert (tmp_path / "out" / "report.html").is_file()
    assert "Jain" in weft(*words, "-o", "wide").out


def test_recipes(weft: Weft) -> None:
    assert "tiresias" in weft("recipes").out
    listed = {line["name"]: line for line in weft("recipes", "-o", "json").json["recipes"]}
    assert listed["las"]["parameters"]["hold"] == 600.0


@pytest.mark.parametrize("name", ["las", "weave", "muri-srtf"])
def test_each_recipe_is_explained(weft: Weft, name: str) -> None:
    told = weft("recipes", name)
    assert told.status == 0
    assert weft("recipes", "show", name).out == told.out
    facts = weft("recipes", name, "-o", "json").json
    assert weft("recipes", "-o", "json", name).json == facts
    assert all(one["meaning"] and one["kind"] for one in facts["parameters"])
    assert all(f"\n{one['name']} " in told.out for one in facts["parameters"])


def test_a_recipe_that_is_not_there(weft: Weft) -> None:
    called = weft("recipes", "wave")
    assert called.status == 2
    assert "did you mean 'weave'?" in called.err


def test_a_recipe_of_ones_own_is_begun(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    begun = weft("recipes", "new", "mine")
    assert "next: weft compare --recipe fifo,mine.py:mine" in begun.err
    assert weft("recipes", "new", "mine").status == 2
    assert weft("recipes", "new", "mine.py", "--force").status == 0
    assert "aging" in weft("recipes", "mine.py:mine").out
    assert weft("compare", *SMALL, "-r", "fifo,mine.py:mine", "--workers", "1").status == 0
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "3 passed" in done.stdout, done.stdout


@pytest.mark.parametrize("name", ["9lives", "my-recipe", "class", "Mine", "nowhere/mine", ""])
def test_a_name_that_no_recipe_can_have(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    called = weft("recipes", "new", name)
    assert called.status == 2
    assert "hint: " in called.err
    assert not [*tmp_path.iterdir()]


def test_why(weft: Weft, folder: Path) -> None:
    with (folder / "waits.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    job = max(rows, key=lambda row: float(row["capacity_seconds"]))["job"]
    called = weft("why", job, "--run", folder)
    assert called.status == 0
    for word in (f"{job}: QUEUED at", "position", "\n1 ", "remedy: ", "waited for: ", "History"):
        assert word in called.out
    expect_json_shape("why.json", weft("why", job, "--run", folder, "-o", "json").json)
    later = weft("why", job, "--run", folder, "--at", "1e9")
    assert f"{job}: SUCCEEDED" in later.out
    assert "does not wait" in later.out


def test_replay(weft: Weft, folder: Path) -> None:
    for path in (folder, folder / "journal.jsonl.gz"):
        assert "replay bit for bit" in weft("replay", path).out
    expect_json_shape("replay.json", weft("replay", folder, "-o", "json").json)


def test_replay_of_another_journal_than_the_manifest_promises(weft: Weft, folder: Path) -> None:
    manifest = folder / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"journal_hash": "', '"journal_hash": "0'))
    called = weft("replay", folder)
    assert called.status == 1
    assert "its manifest says" in called.err


def test_replay_of_a_torn_journal(weft: Weft, folder: Path) -> None:
    journal = folder / "journal.jsonl.gz"
    journal.write_bytes(journal.read_bytes()[:-500])
    called = weft("replay", folder)
    assert called.status == 0
    assert "is cut short" in called.err


def test_trace_there_and_back(weft: Weft, tmp_path: Path) -> None:
    first, second = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    assert "40 jobs" in weft("trace", "generate", first, "--jobs", "40").err
    assert "40 jobs" in weft("trace", "convert", first, second).err
    shown = weft("trace", "show", second)
    assert "40 jobs" in shown.out
    facts = weft("trace", "show", second, "-o", "json").json
    assert facts["jobs"] == 40
    expect_json_shape("trace-show.json", facts)


def test_trace_show_names_what_is_wrong(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    weft("trace", "generate", path, "--jobs", "3")
    text = path.read_text()
    path.write_text(text + text.splitlines()[1] + "\n")
    called = weft("trace", "show", path)
    assert "error: jobs.csv row 5" in called.err
    assert weft("simulate", path).status == 2
    assert weft("simulate", path, "--on-fault", "skip").status == 0


def test_trace_show_states_what_was_recorded(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    head = "job_id,submit_seconds,duration_seconds,gpus,queue_seconds,user,partition"
    rows = ["a,0,60,1,120,ann,gpu,a100", "b,1,60,1,240,bob,gpu,a100|h100", "c,2,60,1,,,,"]
    path.write_text("\n".join([f"{head},allocated_gpu_types", *rows]))
    shown = " ".join(weft("trace", "show", path).out.split())
    assert (
        "Recorded: 2 users, 1 partition (gpu), 2 GPU types (a100, h100), 2 waits of median 3 min "
        "and p90 3.8 min." in shown
    )
    recorded = weft("trace", "show", path, "-o", "json").json["recorded"]
    assert (recorded["waits"], recorded["median_wait_seconds"]) == (2, 180.0)


def test_a_history_of_sacct_is_imported(weft: Weft, tmp_path: Path) -> None:
    history, table = tmp_path / "history.txt", tmp_path / "own.csv"
    head = "JobID|User|Partition|Submit|Start|End|Elapsed|State|AllocTRES"
    day = "2026-01-01T10"
    done = f"{day}:00:00|{day}:02:00|{day}:03:00|00:01:00|COMPLETED|gres/gpu:a100=2"
    running = f"{day}:00:00|{day}:02:00|Unknown|00:01:00|RUNNING|gres/gpu:a100=2"
    rows = [f"1|ann|gpu|{done}", *(f"{number}|ann|gpu|{running}" for number in range(2, 22))]
    history.write_text("\n".join([head, *rows]))
    refused = weft("trace", "import", "sacct", history, table)
    assert refused.status == 2
    assert "20 rows cannot be used" in refused.err and not table.exists()
    called = weft("trace", "import", "sacct", history, table, "--on-fault", "skip")
    assert called.status == 0
    (remark,) = [line for line in called.err.splitlines() if "RUNNING" in line]
    assert "20 rows (3, 4, 5, …)" in remark
    assert "1 job" in called.err
    shown = " ".join(weft("trace", "show", table).out.split())
    assert "Recorded: 1 user, 1 partition (gpu), 1 GPU type (a100), 1 wait" in shown


def test_a_column_is_mapped_once(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    weft("trace", "generate", path, "--jobs", "3")
    called = weft("trace", "show", path, "--column", "gpus=gpus", "--column", "gpus=queue")
    assert called.status == 2
    assert "'gpus' is given twice" in called.err


def test_only_json_is_imported_as_kueues(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    weft("trace", "generate", path, "--jobs", "3")
    called = weft("trace", "import", "kueue", path, tmp_path / "out.csv")
    assert called.status == 2
    assert "-o json" in called.err
