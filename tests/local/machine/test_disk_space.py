"""Room on the disk: logs that are cut and say so, and a floor below which nothing is started."""

import asyncio
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.local.builders import a_started
from tests.local.daemons import a_lab, wait_until
from weft.local.answers.logs import LogReader
from weft.local.folders import Folders
from weft.local.machine import disk_space as room
from weft.local.machine.disk_space import cut_logs
from weft.local.record.entry import Owner
from weft.model.state import State
from weft.view.logs import Which

ME = Owner("me", os.getuid(), os.getgid())
ENTRY = a_started(State.RUNNING, 0, owner=ME)
LINE = b"x" * 99 + b"\n"
LONG = "model total=100000 step=0.02"


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    found = Folders(tmp_path)
    found.open(for_all=False)
    found.make_job(ENTRY.uid, ME)
    (found.epoch(ENTRY) / "logs").mkdir(parents=True)
    return found


def log_of(folders: Folders, worker: int = 0) -> Path:
    return folders.epoch(ENTRY) / "logs" / f"worker-{worker}.log"


def test_what_exceeds_the_quota_is_cut_from_the_beginning(folders: Folders) -> None:
    log_of(folders).write_bytes(LINE * 10_000 + b"the last\n")
    log_of(folders, 1).write_bytes(b"quiet\n")
    with log_of(folders).open("ab", buffering=0) as writer:
        assert cut_logs(folders, ENTRY, 2_000_000) == 0
        assert cut_logs(folders, ENTRY, 200_000) > 900_000
        writer.write(b"and after\n")
    first, *_, last, after = log_of(folders).read_bytes().splitlines()
    assert first.startswith(b"[weft: ") and b"bytes were cut here" in first
    assert (last, after) == (b"the last", b"and after")
    assert log_of(folders, 1).read_bytes() == b"quiet\n"
    assert log_of(folders).stat().st_size < 200_000


def test_a_reader_goes_on_behind_a_cut(folders: Folders) -> None:
    log_of(folders).write_bytes(LINE * 10_000)

    async def read() -> list[bytes]:
        reader = LogReader(folders, lambda: ENTRY, "bench")
        found = []
        async for line in reader.lines(Which(), follow=True):
            found.append(line.text)
            if len(found) == 10_000:
                cut_logs(folders, ENTRY, 100_000)
            if line.text.startswith(b"[weft: "):
                break
        return found

    assert b"were cut here" in asyncio.run(read())[-1]


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "sparse"])
def test_what_is_no_plain_log_is_left_alone(folders: Folders, tmp_path: Path, kind: str) -> None:
    precious, path = tmp_path / "precious", log_of(folders)
    precious.write_bytes(LINE * 10_000)
    made: dict[str, Any] = {
        "link": lambda: path.symlink_to(precious),
        "hard link": lambda: os.link(precious, path),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "sparse": lambda: make_sparse(path),
    }
    made[kind]()
    assert cut_logs(folders, ENTRY, 1000) == 0
    assert precious.read_bytes() == LINE * 10_000


def test_below_the_floor_nothing_is_started_and_that_is_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with a_lab() as lab:
        full = lab.folder / "full"

        def usage(path: Path) -> Any:  # noqa: ANN401
            found = real(path)
            return found._replace(free=10 << 20) if full.exists() else found

        def sabotage() -> None:
            monkeypatch.setattr(room, "LOOK_SECONDS", 0.1)
            monkeypatch.setattr(shutil, "disk_usage", usage)

        real = shutil.disk_usage
        lab.options = replace(lab.options, floor_gib=0.02)
        lab.start(sabotage=sabotage)
        lab.submit("runs", LONG)
        lab.wait_for("runs", "Running")
        full.touch()
        wait_until(lambda: "nothing is started" in lab.log.read_text(), "the disk to be full")
        lab.submit("waits", LONG)
        wait_until(lambda: bool(lab.client.why("waits").detail.reasons), "a reason")
        first = lab.client.why("waits").detail.reasons[0]
        assert (first.code, "0.01 GiB are free" in first.text) == ("Capacity.Disk", True)
        assert (lab.state("runs"), lab.state("waits")) == ("Running", "Queued")
        full.unlink()
        lab.wait_for("waits", "Running")


def make_sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)
