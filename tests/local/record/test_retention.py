"""What is kept of jobs that are over, and for how long."""

import os
from pathlib import Path

from tests.local.builders import an_entry
from weft.local.folders import Folders
from weft.local.record.entry import Entry, Happening, Owner
from weft.local.record.retention import DAY_SECONDS, GIB, HOUR_SECONDS, Retention, size_of
from weft.local.record.store import Store
from weft.model.state import State

NOW = 100 * DAY_SECONDS
ME = Owner("me", os.getuid(), os.getgid())


class Attic:
    """A store and folders, with jobs that ended some days ago."""

    def __init__(self, folder: Path) -> None:
        self.folders = Folders(folder)
        self.folders.open(for_all=False)
        self.store = Store.at(self.folders.store)

    def put(self, uid: str, days_ago: float | None, kilobytes: int = 1, **spec: object) -> Entry:
        over = days_ago is not None
        entry = an_entry(
            uid=uid,
            name=uid,
            owner=ME,
            spec={"run": "x", **spec},
            state=State.SUCCEEDED if over else State.QUEUED,
            ended_at=NOW - days_ago * DAY_SECONDS if days_ago is not None else None,
        )
        self.store.add(entry, Happening(1.0, "Submitted"))
        self.folders.make_job(uid, ME)
        (self.folders.job(uid) / "log").write_bytes(b"x" * 1024 * kilobytes)
        return entry

    def tidy(self, days: float = 30.0, gib: float = 1.0) -> set[str]:
        """Whose folders are left."""
        Retention(self.folders, self.store, days=days, gib=gib).tidy(NOW)
        return {path.name for path in self.folders.jobs.iterdir()}


def test_folders_go_by_age_and_the_history_stays(tmp_path: Path) -> None:
    attic = Attic(tmp_path)
    attic.put("old", 31)
    attic.put("new", 29)
    attic.put("waits", None)
    assert attic.tidy() == {"new", "waits"}
    assert attic.store.get("old") is not None
    attic.store.close()


def test_folders_go_by_size_the_oldest_first(tmp_path: Path) -> None:
    attic = Attic(tmp_path)
    for days in (3, 2, 1):
        attic.put(f"d{days}", days, kilobytes=100)
    attic.put("waits", None, kilobytes=1000)
    assert attic.tidy(gib=250 * 1024 / GIB) == {"d1", "d2", "waits"}
    attic.store.close()


def test_a_job_with_a_ttl_goes_with_everything(tmp_path: Path) -> None:
    attic = Attic(tmp_path)
    attic.put("gone", 2, ttl="1d")
    attic.put("stays", 0.5, ttl="1d")
    assert attic.tidy() == {"stays"}
    assert attic.store.get("gone") is None
    assert attic.store.history("gone") == []
    attic.store.close()


def test_folders_that_nobody_knows_go_unless_they_are_new(tmp_path: Path) -> None:
    attic = Attic(tmp_path)
    for name, age in (("stranger", 2 * HOUR_SECONDS), ("coming", 60.0)):
        path = attic.folders.job(name)
        path.mkdir()
        os.utime(path, (NOW - age, NOW - age))
    assert attic.tidy() == {"coming"}
    attic.store.close()


def test_sizes_do_not_follow_links(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "large").write_bytes(b"x" * 1_000_000)
    (tmp_path / "job" / "link").symlink_to(tmp_path / "large")
    (tmp_path / "job" / "own").write_bytes(b"x" * 10)
    assert size_of(tmp_path / "job") < 100_000


def test_folders_of_any_depth_are_measured_and_removed(tmp_path: Path) -> None:
    """Deeper than Python recurses, and longer than a path may be."""
    attic = Attic(tmp_path)
    nested(attic.folders.job("deep"), folders=3_000, last=b"x" * 500_000)
    assert size_of(attic.folders.job("deep")) > 500_000
    attic.folders.remove_job("deep")
    assert not attic.folders.job("deep").exists()
    attic.store.close()


def test_holes_in_files_take_no_room(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    assert size_of(tmp_path) < 1_000_000


def nested(top: Path, *, folders: int, last: bytes) -> None:
    """Step by step, as a user can: the whole path is too long for any call."""
    top.mkdir()
    handle = os.open(top, os.O_RDONLY)
    for _ in range(folders):
        os.mkdir("d", dir_fd=handle)
        inner = os.open("d", os.O_RDONLY, dir_fd=handle)
        os.close(handle)
        handle = inner
    file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=handle)
    os.write(file, last)
    os.close(file)
    os.close(handle)
