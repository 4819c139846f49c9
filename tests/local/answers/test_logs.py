"""What workers printed, line by line, over all incarnations of a job."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.local.builders import a_started
from weft.local.answers import logs
from weft.local.answers.logs import LogReader
from weft.local.folders import Folders
from weft.local.record.entry import Entry, Owner
from weft.model.errors import SpecError
from weft.model.state import State
from weft.view.logs import LogLine, Which

ME = Owner("me", os.getuid(), os.getgid())


class Desk:
    """A job's folder, and what can be read there."""

    def __init__(self, folder: Path) -> None:
        self.folders = Folders(folder)
        self.folders.open(for_all=False)
        self.entry = a_started(State.RUNNING, 0, owner=ME)
        self.folders.make_job(self.entry.uid, ME)

    def print(self, text: bytes, *, epoch: int = 1, worker: int = 0) -> None:
        folder = self.folders.job(self.entry.uid) / f"epoch-{epoch}" / "logs"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"worker-{worker}.log").open("ab") as file:
            file.write(text)

    def read(
        self,
        which: Which,
        *,
        follow: bool = False,
        at_each: Callable[[int], None] | None = None,
    ) -> list[LogLine]:
        async def scene() -> list[LogLine]:
            reader = LogReader(self.folders, lambda: self.entry, "bench")
            found = []
            async for line in reader.lines(which, follow=follow):
                found.append(line)
                if at_each is not None:
                    at_each(len(found))
            return found

        return asyncio.run(scene())

    def texts(self, which: Which) -> list[bytes]:
        return [line.text for line in self.read(which)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    monkeypatch.setattr(logs, "POLL_SECONDS", 0.001)
    return Desk(tmp_path)


def test_lines_come_as_they_were_printed(desk: Desk) -> None:
    desk.print(b"one\n\ntw\xffo\r\n")
    assert desk.texts(Which()) == [b"one", b"", b"tw\xffo\r"]


def test_a_line_that_nobody_ended_comes_last(desk: Desk) -> None:
    desk.print(b"one\ntwo")
    assert desk.texts(Which()) == [b"one", b"two"]


def test_a_line_without_end_is_cut(desk: Desk) -> None:
    desk.print(b"x" * (3 * logs.BLOCK_BYTES))
    texts = desk.texts(Which())
    assert sum(map(len, texts)) == 3 * logs.BLOCK_BYTES
    assert len(texts) > 1


def test_a_tail_looks_back_only_so_far(desk: Desk) -> None:
    """A hole of a terabyte costs its owner nothing."""
    desk.print(b"x")
    (log,) = desk.folders.jobs.glob("*/epoch-1/logs/worker-0.log")
    os.truncate(log, 1 << 40)
    assert sum(map(len, desk.texts(Which(tail=1)))) == logs.MOST_TAIL_BYTES


@pytest.mark.parametrize("tail", [0, 1, 2, 3, 50, 1000])
def test_the_last_lines(desk: Desk, tail: int) -> None:
    lines = [f"line {number} {'x' * 500}" for number in range(1000)]
    desk.print("".join(f"{line}\n" for line in lines).encode())
    assert desk.texts(Which(tail=tail)) == [line.encode() for line in lines[1000 - tail :]]


def test_ranks_are_chosen_as_the_agent_told_them(desk: Desk) -> None:
    for worker in range(3):
        desk.print(f"worker {worker}\n".encode(), worker=worker)
    desk.entry = desk.entry.with_changes(ranks={"1": {"2": 0, "0": 1}})
    assert desk.texts(Which()) == [b"worker 2"]
    assert [line.rank for line in desk.read(Which(ranks=None))] == [1, 1, 0]


def test_an_epoch_is_chosen(desk: Desk) -> None:
    for epoch in (1, 2):
        desk.print(f"epoch {epoch}\n".encode(), epoch=epoch)
    desk.entry = desk.entry.with_changes(epoch=2)
    assert desk.texts(Which()) == [b"epoch 2"]
    assert desk.texts(Which(epoch=1)) == [b"epoch 1"]


def test_followed_until_the_job_has_ended(desk: Desk) -> None:
    def go_on(read: int) -> None:
        if read == 1:
            desk.print(b"more\n")
        if read == 2:
            desk.print(b"anew\n", epoch=2)
            desk.entry = desk.entry.with_changes(epoch=2, state=State.SUCCEEDED)

    desk.print(b"first\n")
    lines = desk.read(Which(), follow=True, at_each=go_on)
    assert [(line.epoch, line.text) for line in lines] == [
        (1, b"first"),
        (1, b"more"),
        (2, b"anew"),
    ]


def test_a_job_that_has_printed_nothing(desk: Desk) -> None:
    assert desk.texts(Which()) == []


def test_an_entry_that_is_gone_has_no_logs(desk: Desk) -> None:
    async def scene() -> list[LogLine]:
        nobody: Callable[[], Entry | None] = lambda: None  # noqa: E731
        reader = LogReader(desk.folders, nobody, "bench")
        return [line async for line in reader.lines(Which(), follow=True)]

    assert asyncio.run(scene()) == []


def test_a_rank_and_an_epoch_that_never_were_are_told(desk: Desk) -> None:
    desk.print(b"one\n", worker=0)
    desk.print(b"two\n", worker=1)
    with pytest.raises(SpecError, match="no rank 7: epoch 1 of job has 2 workers"):
        desk.read(Which(frozenset({0, 7})))
    with pytest.raises(SpecError, match="no epoch 9: job was started 1 times"):
        desk.read(Which(epoch=9))
    assert desk.texts(Which(frozenset({1}), epoch=1)) == [b"two"]
