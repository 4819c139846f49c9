"""Which slots stay in memory when their worker has ended."""

from dataclasses import replace
from pathlib import Path

from weft.agent.checkpoint.writer import CheckpointWriter
from weft.agent.messages import Saved


def saved(folder: Path, worker: int, index: int, step: int, *, epoch: int = 1) -> Saved:
    """A sealed slot, as far as the writer can tell."""
    path = folder / f"worker-{worker}.{index}"
    path.touch()
    return Saved(epoch, step, step * 16, 0, 1, str(path), 0.0)


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_of_a_worker_that_has_ended_only_the_newest_snapshot_stays(tmp_path: Path) -> None:
    checkpoint_writer = CheckpointWriter(None)
    checkpoint_writer.saved(saved(tmp_path, 0, 0, step=10))
    checkpoint_writer.saved(saved(tmp_path, 0, 1, step=20))
    checkpoint_writer.sweep(tmp_path, running=(0, 1))
    assert left(tmp_path) == ["worker-0.0", "worker-0.1"]
    checkpoint_writer.sweep(tmp_path, running=(1,))
    assert left(tmp_path) == ["worker-0.1"]
    assert checkpoint_writer.newest() == (str(tmp_path / "worker-0.1"), 20)


def test_it_goes_when_another_worker_has_saved_a_newer_one(tmp_path: Path) -> None:
    checkpoint_writer = CheckpointWriter(None)
    checkpoint_writer.saved(saved(tmp_path, 0, 0, step=10))
    checkpoint_writer.saved(saved(tmp_path, 1, 0, step=20, epoch=2))
    checkpoint_writer.sweep(tmp_path, running=(1,))
    assert left(tmp_path) == ["worker-1.0"]


def test_parts_of_a_snapshot_that_is_not_complete_stay(tmp_path: Path) -> None:
    checkpoint_writer = CheckpointWriter(None)
    path = tmp_path / "worker-0.0"
    path.touch()
    checkpoint_writer.saved(Saved(1, 10, 160, 0, 2, str(path), 0.0))
    checkpoint_writer.sweep(tmp_path, running=())
    assert left(tmp_path) == ["worker-0.0"]


def test_what_is_no_slot_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "worker-x.0").touch()
    (tmp_path / "notes.txt").touch()
    CheckpointWriter(None).sweep(tmp_path, running=())
    assert left(tmp_path) == ["notes.txt", "worker-x.0"]


def test_a_snapshot_of_a_loop_that_was_left_is_what_is_begun_again_from(tmp_path: Path) -> None:
    """It is of the same step as another, and says more."""
    checkpoint_writer = CheckpointWriter(None)
    checkpoint_writer.saved(saved(tmp_path, 0, 0, step=10))
    checkpoint_writer.saved(replace(saved(tmp_path, 0, 1, step=10), left=True))
    assert checkpoint_writer.newest() == (str(tmp_path / "worker-0.1"), 10)
