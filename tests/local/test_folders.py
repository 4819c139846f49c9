"""Folders of users hold whatever users put there; the daemon reads plain files and nothing else."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from weft.agent.reports.speed import Measured
from weft.local.folders import MOST_BYTES, Folders, folder_of, open_file, read_file
from weft.local.reconcile.observation import KILLED, read_last_words, read_status
from weft.local.record.entry import Owner
from weft.model.errors import WorldError

ME = Owner("me", os.getuid(), os.getgid())


def test_a_plain_file_is_read_up_to_a_size(tmp_path: Path) -> None:
    (tmp_path / "epoch-1").mkdir()
    (tmp_path / "epoch-1" / "outcome.json").write_bytes(b"x" * (MOST_BYTES + 5))
    with folder_of(tmp_path, "epoch-1") as folder:
        assert len(read_file(folder, "outcome.json", ME)) == MOST_BYTES
        assert read_file(folder, "missing", ME) == b""


def link(path: Path) -> None:
    path.symlink_to("/etc/passwd")


def hard_link(path: Path) -> None:
    (path.parent / "original").write_text("secret")
    path.hardlink_to(path.parent / "original")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize("trap", [link, hard_link, pipe, folder])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, trap: Callable[[Path], None]) -> None:
    trap(tmp_path / "key")
    with folder_of(tmp_path) as handle, pytest.raises((OSError, WorldError)):
        open_file(handle, "key", ME)


def test_a_file_of_somebody_else_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("theirs")
    stranger = Owner("stranger", os.getuid() + 1, 1)
    with folder_of(tmp_path) as handle, pytest.raises(WorldError, match="no plain file"):
        open_file(handle, "key", stranger)


def test_a_folder_that_is_a_link_is_not_entered(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "epoch-1").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="epoch-1"), folder_of(tmp_path, "epoch-1"):
        pass


def test_removing_a_job_leaves_what_its_links_lead_to(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "weft")
    folders.open(for_all=True)
    folders.make_job("abc", ME)
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (folders.job("abc") / "link").symlink_to(precious)
    folders.remove_job("abc")
    assert not folders.job("abc").exists()
    assert (precious / "file").exists()


def test_modes_of_the_folders(tmp_path: Path) -> None:
    for for_all, root, jobs in ((True, 0o755, 0o711), (False, 0o700, 0o700)):
        folders = Folders(tmp_path / str(for_all))
        folders.open(for_all=for_all)
        assert folders.root.stat().st_mode & 0o777 == root
        assert folders.jobs.stat().st_mode & 0o777 == jobs
        folders.make_job("abc", ME)
        assert folders.job("abc").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"nonsense",
        b'{"outcome": "finished"}',
        b'{"outcome": "splendid", "exit_code": 0}',
        b'{"outcome": ["finished"], "exit_code": 0}',
        b"[" * 100_000,
    ],
)
def test_last_words_without_sense_are_none(raw: bytes) -> None:
    assert read_last_words(raw) == KILLED


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"width": "4", "workers": [1], "metrics": "loss", "live": "yes", "devices": "0"},
        {
            "width": -1,
            "target": 1 << 60,
            "step": True,
            "total": 1e308,
            "metrics": {"loss": 10**400},
        },
        {"workers": {"x": {}, "0": None, "1": {"state": 7, "rank": "0", "device": -3}}},
        {"speed": "fast", "paused_seconds": -1.0},
        {"speed": {"number": 1, "width": 2, "steps_per_second": float("nan"), "seconds": 1.0}},
        {"speed": {"number": 1, "width": 2, "steps_per_second": 1e300, "seconds": 1.0}},
        {"speed": {"number": 0, "width": 2, "steps_per_second": 3.0, "seconds": 1.0}},
        {"speed": {"number": 1, "width": True, "steps_per_second": 3.0, "seconds": 1.0}},
        {"paused_seconds": float("inf")},
    ],
)
def test_a_status_without_sense_says_little(body: dict[str, object]) -> None:
    status = read_status(body)
    assert (status.width, status.live, status.progress.step) == (0, None, None)
    assert status.progress.metrics == {}
    assert (status.speed, status.paused_seconds) == (None, None)


def test_a_measured_speed_is_read() -> None:
    speed = {"number": 3, "width": 2, "steps_per_second": 6.5, "seconds": 10}
    status = read_status({"speed": speed, "paused_seconds": 0.25})
    assert status.speed == Measured(3, 2, 6.5, 10.0)
    assert status.paused_seconds == 0.25


def test_a_folder_too_deep_for_a_socket_is_refused_with_how_deep_it_may_be() -> None:
    fitting = Path("/" + "x" * 61)
    Folders(fitting).check_depth()
    with pytest.raises(WorldError, match="1 bytes too long") as refused:
        Folders(Path(f"{fitting}y")).check_depth()
    assert "at most 62 bytes" in refused.value.hint
    deepest = Folders(fitting).jobs / "0123456789abcdef" / "epoch-99999" / "agent.sock"
    assert len(os.fsencode(deepest)) == 107
