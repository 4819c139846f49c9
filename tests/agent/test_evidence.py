"""What is kept of workers when a job fails: bounded, plain files only, and judged elsewhere."""

import json
import os
import subprocess
import sys
from pathlib import Path

from weft.agent.coordination.worker import Worker
from weft.agent.evidence import (
    EVIDENCE,
    MOST_CHARS,
    MOST_ERROR_BYTES,
    MOST_LOG_BYTES,
    MOST_WORKERS,
    RECENT_SECONDS,
    Evidence,
    Stall,
    Witness,
    WorkerEvidence,
    error_file,
    forget,
    gathered,
    parsed,
)
from weft.failure.diagnosis import diagnose
from weft.failure.diagnosis import gathered as lines_of_all
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
    tmp_path /= "logs"
    tmp_path.mkdir()
    for worker in range(MOST_WORKERS + 9):
        (tmp_path / f"worker-{worker}.log").write_bytes(b"x" * 99_999 + b"end")
        (tmp_path / error_file(worker)).write_bytes(b"x" * (MOST_ERROR_BYTES + worker % 2))
    found = gathered(tmp_path, MOST_WORKERS + 3)
    assert found[0].worker == MOST_WORKERS + 3 and len(found) < MOST_WORKERS
    assert all(len(one.log_end) == MOST_LOG_BYTES and one.log_end.endswith("end") for one in found)
    assert {len(one.error_file) for one in found} == {0, MOST_ERROR_BYTES}
    Witness().keep(tmp_path.parent, {}, None)
    assert (tmp_path.parent / EVIDENCE).stat().st_size < MOST_CHARS + 1000


def test_who_has_ended_long_before_is_no_evidence(tmp_path: Path) -> None:
    for worker in (0, 1, 2):
        (tmp_path / f"worker-{worker}.log").write_text("x\n")
    long_ago = (tmp_path / "worker-2.log").stat().st_mtime - RECENT_SECONDS - 1
    for worker in (0, 1):
        os.utime(tmp_path / f"worker-{worker}.log", (long_ago, long_ago))
    assert [one.worker for one in gathered(tmp_path, None)] == [2]
    assert [one.worker for one in gathered(tmp_path, 1)] == [1, 2]


def test_kills_of_a_shared_cgroup_count_beside_a_process_that_was_killed() -> None:
    killed, ended = WorkerEvidence(0, "", "", 0, -9), WorkerEvidence(0, "", "", 0, 1)
    loader = WorkerEvidence(0, "", "DataLoader worker (pid 7) is killed by signal: Killed.", 0, 1)
    for one, kind in ((killed, "memory"), (loader, "memory"), (ended, "unknown")):
        seen = lines_of_all(Evidence((one,), None, 1).observed())
        assert diagnose(seen, shipped()).kind == kind
    given_up = lines_of_all(Evidence((ended,), None, 1, nobody=True).observed())
    assert diagnose(given_up, shipped()).kind == "memory"


def test_how_workers_ended_counts_only_of_the_one_that_ended_the_job(tmp_path: Path) -> None:
    """When a job is given up, all that are left are killed."""
    for worker in (0, 1):
        (tmp_path / f"worker-{worker}.log").write_text("x\n")
    workers = {number: Worker(number, rank=number, exit_code=-9) for number in (0, 1)}
    codes = {
        first: [one.exit_code for one in Witness().evidence(tmp_path, workers, first).workers]
        for first in (None, 1)
    }
    assert codes == {None: [None, None], 1: [-9, None]}


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
    workers = {0: Worker(0, rank=3, exit_code=1)}
    witness = Witness()
    witness.heard("hung", {"worker": 0, "rank": 3, "seconds": 61.5, "limit_seconds": 60.0})
    witness.keep(tmp_path, workers, 0)
    kept = (tmp_path / EVIDENCE).read_bytes()
    whole = Evidence((WorkerEvidence(0, "{}", "a\n", 3, 1),), Stall(0, 3, 61.5, 60.0))
    assert parsed(kept) == whole
    assert parsed(kept.replace(b'"worker": 0', b'"worker": "0"')) == Evidence()
    assert parsed(kept.replace(b"61.5", b"null")).stall is None
    hostile = (b"", b"[", b"7", b"\xff", b'{"workers": [1], "kills": 0}', b"{}", b"[" * 100_000)
    for text in hostile:
        assert parsed(text) == Evidence()
    forget(tmp_path, logs)
    assert [path.name for path in logs.iterdir()] == ["worker-0.log"]
    assert not (tmp_path / EVIDENCE).exists()


def test_a_disk_that_takes_nothing_does_not_hide_how_a_job_ended(tmp_path: Path) -> None:
    Witness().keep(tmp_path / "gone", {}, 0)
    (tmp_path / EVIDENCE).mkdir()
    Witness().keep(tmp_path, {}, 0)
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
    kept = parsed((folder / EVIDENCE).read_bytes())
    found = diagnose(lines_of_all(kept.observed()), shipped())
    assert (found.rule, found.rank) == ("import_error", 0)
    assert found.line == "ModuleNotFoundError: No module named 'nothing_of_that_name'"
