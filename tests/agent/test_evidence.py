"""What is kept of workers when a job fails: bounded, plain files only, and judged elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from weft.agent.evidence import (
    EVIDENCE,
    MOST_ERROR_BYTES,
    MOST_LOG_BYTES,
    MOST_WORKERS,
    WorkerEvidence,
    error_file,
    forget,
    gathered,
    keep,
    parsed,
)
from weft.failure.diagnosis import diagnose
from weft.failure.diagnosis import gathered as lines_of_all
from weft.failure.observed import ErrorFile, Observed, Output, Where
from weft.failure.rulebook import shipped

ROOT = Path(__file__).parents[2]


def test_the_worker_that_ended_the_job_comes_first(tmp_path: Path) -> None:
    for worker in (0, 1, 10):
        (tmp_path / f"worker-{worker}.log").write_text(f"line of {worker}\n")
    (tmp_path / error_file(10)).write_text('{"message": "no"}')
    assert gathered(tmp_path, 10) == [
        WorkerEvidence(10, '{"message": "no"}', "line of 10\n"),
        WorkerEvidence(0, "", "line of 0\n"),
        WorkerEvidence(1, "", "line of 1\n"),
    ]


def test_what_is_kept_is_bounded(tmp_path: Path) -> None:
    for worker in range(MOST_WORKERS + 9):
        (tmp_path / f"worker-{worker}.log").write_bytes(b"x" * 99_999 + b"end")
        (tmp_path / error_file(worker)).write_bytes(b"x" * (MOST_ERROR_BYTES + worker % 2))
    found = gathered(tmp_path, MOST_WORKERS + 3)
    assert len(found) == MOST_WORKERS and found[0].worker == MOST_WORKERS + 3
    assert all(len(one.log_end) == MOST_LOG_BYTES and one.log_end.endswith("end") for one in found)
    assert {len(one.error_file) for one in found} == {0, MOST_ERROR_BYTES}


@pytest.mark.timeout(5)
def test_nothing_but_a_plain_file_is_read_and_nothing_waited_for(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "worker-0.log").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / error_file(0))
    (tmp_path / "worker-1.log").mkdir()
    (tmp_path / "worker-1e9.log").touch()
    (tmp_path / "worker-2.log").write_bytes(b"\xff\xfe\0")
    assert gathered(tmp_path, None) == [
        WorkerEvidence(0, "", ""),
        WorkerEvidence(1, "", ""),
        WorkerEvidence(2, "", "\ufffd\ufffd\0"),
    ]


def test_what_was_kept_is_read_again_and_anything_else_is_nothing(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    assert gathered(logs, 0) == []
    logs.mkdir()
    (logs / "worker-0.log").write_text("a\n")
    (logs / error_file(0)).write_text("{}")
    keep(tmp_path, logs, 0)
    kept = (tmp_path / EVIDENCE).read_bytes()
    assert parsed(kept) == [WorkerEvidence(0, "{}", "a\n")]
    assert parsed(kept.replace(b"0", b'"0"')) == []
    for hostile in (b"", b"[", b"7", b"\xff", b'[{"a": 1}]', b"[1]", b"[" * 100_000):
        assert parsed(hostile) == []
    forget(tmp_path, logs)
    assert [path.name for path in logs.iterdir()] == ["worker-0.log"]
    assert not (tmp_path / EVIDENCE).exists()


def test_a_disk_that_takes_nothing_does_not_hide_how_a_job_ended(tmp_path: Path) -> None:
    keep(tmp_path / "gone", tmp_path, 0)
    (tmp_path / EVIDENCE).mkdir()
    keep(tmp_path, tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == [EVIDENCE]


FAILING = """
import sys
print("step 1 loss 2.0", flush=True)
import nothing_of_that_name
"""


def test_an_agent_keeps_what_its_worker_left_and_rules_name_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILING)
    folder = tmp_path / "run"
    command = ["-m", "weft.agent", "run", "--folder", str(folder), str(tmp_path / "train.py")]
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert json.loads((folder / "outcome.json").read_text())["outcome"] == "user error"
    (kept,) = parsed((folder / EVIDENCE).read_bytes())
    where = Where(rank=0)
    seen: list[Observed] = [ErrorFile(kept.error_file, where), Output(kept.log_end, where)]
    found = diagnose(lines_of_all(seen), shipped())
    assert found.rule == "import_error"
    assert found.line == "ModuleNotFoundError: No module named 'nothing_of_that_name'"
