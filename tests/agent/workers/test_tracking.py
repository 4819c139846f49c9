"""One run in every tracker, over losses and restarts."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from weft.agent.workers.tracking import FILE, kept, run_id, variables


def test_the_id_is_kept_beside_the_checkpoints(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "kept"
    first = run_id(folder)
    assert run_id(folder) == kept(folder) == first
    assert [path.name for path in folder.iterdir()] == [FILE]
    assert run_id(None) != run_id(None)


def test_two_who_start_at_once_agree(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(run_id, [tmp_path] * 32))) == 1


def test_what_cannot_be_an_id_is_not_passed_on(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("../../etc\n")
    assert kept(tmp_path) == ""
    assert run_id(tmp_path).isalnum()
    assert run_id(Path("/proc/nowhere")).isalnum()


def test_trackers_are_told_on_the_first_worker_and_never_against_their_users_word() -> None:
    assert variables("abc", {}, first=True) == {
        "WEFT_RUN_ID": "abc",
        "WANDB_RUN_ID": "abc",
        "WANDB_RESUME": "allow",
        "MLFLOW_RUN_CONTEXT": json.dumps({"weft_run": "abc"}),
    }
    assert variables("abc", {}, first=False) == {"WEFT_RUN_ID": "abc"}
    mine = {"WANDB_RUN_ID": "mine", "MLFLOW_RUN_CONTEXT": "{}"}
    assert variables("abc", mine, first=True) == {"WEFT_RUN_ID": "abc"}
    assert variables("", {}, first=True) == {}
