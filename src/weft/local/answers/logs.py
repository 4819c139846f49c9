"""What the workers of a job printed, kept after its end: a file for each worker of each epoch.

The files are the owner's, and the daemon reads them as it reads everything of an owner's: without
following links. Reading goes on over restarts of the job: what the next incarnation prints follows
what the last one said.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from weft.local.folders import LOGS, Folders, folder_of, names_in, open_file
from weft.local.record.entry import Entry, Owner
from weft.model.errors import SpecError, WorldError
from weft.view.logs import LogLine, Which

POLL_SECONDS: Final = 0.25
BLOCK_BYTES: Final = 1 << 18
MOST_LINE_BYTES: Final = 1 << 16
MOST_TAIL_BYTES: Final = 1 << 24
NEWLINE: Final = re.compile(rb"\n")
EPOCH: Final = re.compile(r"epoch-(\d{1,9})")
WORKER: Final = re.compile(r"worker-(\d{1,9})\.log")


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """One worker's output."""

    epoch: int
    worker: int

    @property
    def path(self) -> tuple[str, str, str]:
        return f"epoch-{self.epoch}", LOGS, f"worker-{self.worker}.log"


class LogReader:
    """Reads one job's logs; `entry` gives the job as it stands now."""

    def __init__(self, folders: Folders, entry: Callable[[], Entry | None], node: str) -> None:
        self._places = folders
        self._entry = entry
        self._node = node
        self._read: dict[LogFile, int] = {}
        self._rest: dict[LogFile, bytes] = {}

    async def lines(self, which: Which, *, follow: bool) -> AsyncGenerator[LogLine, None]:
        """What is there; with `follow` also what comes, until the job has ended."""
        entry = self._entry()
        if entry is None:
            return
        first_epoch = entry.epoch
        if not follow:
            self._refuse_absent(entry, which)
        while entry is not None:
            over = entry.state.final
            news = [line for line in self._news(entry, which, first_epoch)]
            for line in news:
                yield line
            if not news and (over or not follow):
                break
            await asyncio.sleep(0 if news else POLL_SECONDS)
            entry = self._entry() or entry
        for line in self._last_words(entry):
            yield line

    def _news(self, entry: Entry, which: Which, first_epoch: int) -> list[LogLine]:
        found: list[LogLine] = []
        for file in self._files(entry, which, first_epoch):
            if not _is_wanted(entry, which, file):
                continue
            fresh = self._fresh(entry.owner, entry.uid, file, which.tail)
            found += [LogLine(_rank(entry, file), file.epoch, text, self._node) for text in fresh]
        return found

    def _refuse_absent(self, entry: Entry, which: Which) -> None:
        """Whoever asks for what never was would take silence for an answer."""
        if which.epoch is not None and not 0 < which.epoch <= entry.epoch:
            raise SpecError(
                f"there is no epoch {which.epoch}: {entry.name} was started {entry.epoch} times",
                hint=f"--epoch 1 to {entry.epoch}" if entry.epoch else "it has not started yet",
            )
        files = self._files(entry, which, entry.epoch)
        ranks = {_rank(entry, file) for file in files}
        absent = sorted((which.ranks or set()) - ranks)
        if ranks and absent:
            raise SpecError(
                f"there is no rank {absent[0]}: epoch {files[-1].epoch} of {entry.name} has "
                f"{len(ranks)} workers that print",
                hint="--all shows them all",
            )

    def _files(self, entry: Entry, which: Which, first_epoch: int) -> list[LogFile]:
        folder = self._places.job(entry.uid)
        epochs = [int(name[1]) for name in map(EPOCH.fullmatch, _listed(folder)) if name]
        wanted = [e for e in epochs if (e == which.epoch if which.epoch else e >= first_epoch)]
        return sorted(
            LogFile(epoch, int(name[1]))
            for epoch in wanted
            for name in map(WORKER.fullmatch, _listed(folder, f"epoch-{epoch}", LOGS))
            if name
        )

    def _fresh(self, owner: Owner, uid: str, file: LogFile, tail: int | None) -> list[bytes]:
        """Whole lines that were not read before."""
        *below, name = file.path
        try:
            with folder_of(self._places.job(uid), *below) as folder:
                return self._read_on(folder, name, owner, file, tail)
        except (OSError, WorldError):
            return []

    def _read_on(
        self, folder: int, name: str, owner: Owner, file: LogFile, tail: int | None
    ) -> list[bytes]:
        with open_file(folder, name, owner) as opened:
            if file not in self._read:
                self._read[file] = _begin_of_tail(opened.fileno(), tail)
            if self._read[file] > os.fstat(opened.fileno()).st_size:  # it was cut meanwhile
                self._read[file], self._rest[file] = 0, b""
            opened.seek(self._read[file])
            block = opened.read(BLOCK_BYTES)
        self._read[file] += len(block)
        *lines, rest = (self._rest.get(file, b"") + block).split(b"\n")
        if len(rest) > MOST_LINE_BYTES:  # a progress bar never ends its line
            lines, rest = [*lines, rest], b""
        self._rest[file] = rest
        return lines

    def _last_words(self, entry: Entry) -> list[LogLine]:
        """Lines that nobody has ended."""
        return [
            LogLine(_rank(entry, file), file.epoch, rest, self._node)
            for file, rest in sorted(self._rest.items())
            if rest
        ]


def _rank(entry: Entry, file: LogFile) -> int:
    """Under which rank that worker trained, as far as its agent told; first it is its number."""
    ranks: Mapping[str, int] = entry.ranks.get(str(file.epoch), {})
    return ranks.get(str(file.worker), file.worker)


def _is_wanted(entry: Entry, which: Which, file: LogFile) -> bool:
    return which.ranks is None or _rank(entry, file) in which.ranks


def _listed(path: Path, *below: str) -> list[str]:
    try:
        with folder_of(path, *below) as folder:
            return names_in(folder)
    except OSError:
        return []


def _begin_of_tail(handle: int, tail: int | None) -> int:
    """Where the last lines begin, no further back than `MOST_TAIL_BYTES`.

    A job's owner can make a file of any size without a line's end, at no cost. So blocks are read
    once, from the end, and only so many of them.
    """
    if tail is None:
        return 0
    end = at = os.fstat(handle).st_size
    ends = [end] if end and os.pread(handle, 1, end - 1) != b"\n" else []
    while len(ends) <= tail and at > max(end - MOST_TAIL_BYTES, 0):
        begin = max(at - BLOCK_BYTES, 0)
        ends += reversed(_line_ends(os.pread(handle, at - begin, begin), begin))
        at = begin
    return ends[tail] if len(ends) > tail else at


def _line_ends(block: bytes, begin: int) -> list[int]:
    """Behind each newline of a block that begins there."""
    return [begin + found.end() for found in NEWLINE.finditer(block)]
