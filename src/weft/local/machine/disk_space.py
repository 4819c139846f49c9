"""Room on the daemon's file system: no job's logs fill it, and none starts when it is nearly full.

Logs are the owner's, who may print without end. What exceeds the quota of a job is cut from the
beginning, with a line that says so. Below a floor of free space nothing new is started: it could
neither be recorded nor save. What runs goes on, and when there is room again so does the rest.
"""

import asyncio
import logging
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

from weft.local.answers.logs import EPOCH, WORKER
from weft.local.folders import AGENT_LOG, FOLLOW_NOT, LOGS, Folders, folder_of, names_in
from weft.local.record.entry import Entry, Owner
from weft.view.jobs import ReasonLine

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
GIB: Final = 1 << 30
MOST_FILES: Final = 10_000
MOST_KEPT_BYTES: Final = 16 << 20
AS_WRITTEN: Final = os.O_RDWR | os.O_APPEND | os.O_NONBLOCK | FOLLOW_NOT


class Room:
    """Looks at the disk from time to time; `told` hears when it has become low or is no more."""

    def __init__(
        self,
        folders: Folders,
        entries: Iterable[Entry],
        told: Callable[[], None],
        *,
        floor_gib: float,
        log_gib: float,
    ) -> None:
        self._places = folders
        self._entries = entries
        self._told = told
        self._floor_gib = floor_gib
        self._log_gib = log_gib
        self.low = ""

    async def run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_SECONDS)

    async def look(self) -> None:
        holding = [entry for entry in self._entries if entry.held]
        free_gib = await asyncio.to_thread(self._tidy, holding)
        before, self.low = self.low, self._lowness(free_gib)
        if bool(before) != bool(self.low):
            log.warning("%s", self.low or "there is room on the disk again")
            self._told()

    def _tidy(self, holding: list[Entry]) -> float:
        for entry in holding:
            cut_logs(self._places, entry, round(self._log_gib * GIB))
        try:
            return shutil.disk_usage(self._places.root).free / GIB
        except OSError:
            return 0.0

    def _lowness(self, free_gib: float) -> str:
        if free_gib >= self._floor_gib:
            return ""
        return (
            f"{free_gib:.2f} GiB are free in {self._places.root}, and nothing is started below "
            f"{self._floor_gib:g}"
        )


def reason_of(low: str) -> ReasonLine:
    return ReasonLine(
        "Capacity.Disk",
        "capacity",
        f"{low}.",
        "make room on that file system: checkpoints of jobs that are over, for example",
        "local.md#when-things-break",
    )


def cut_logs(folders: Folders, entry: Entry, most_bytes: int) -> int:
    """Bytes that were cut, so that all logs of the job have no more than `most_bytes`."""
    files = list(_logs_of(folders, entry))
    sizes = [size for _, size in files]
    if sum(sizes) <= most_bytes:
        return 0
    each = most_bytes // len(files)
    cut = 0
    for path, size in files:
        if size > each:
            with suppress(OSError):
                cut += _cut(folders, entry, path, min(each // 2, MOST_KEPT_BYTES))
    if cut:
        log.warning("%s prints too much: %d bytes of its logs are gone", entry.id, cut)
    return cut


def _logs_of(folders: Folders, entry: Entry) -> Iterator[tuple[tuple[str, ...], int]]:
    """Each log with the bytes that it has on the disk."""
    job = folders.job(entry.uid)
    epochs = [name for name in _listed(folders, entry) if EPOCH.fullmatch(name)]
    for epoch in epochs[:MOST_FILES]:
        names = [name for name in _listed(folders, entry, epoch, LOGS) if WORKER.fullmatch(name)]
        for path in [(epoch, AGENT_LOG), *((epoch, LOGS, name) for name in names[:MOST_FILES])]:
            with suppress(OSError), folder_of(job, *path[:-1]) as folder:
                found = os.stat(path[-1], dir_fd=folder, follow_symlinks=False)
                if _is_plain(found, entry.owner):
                    yield path, found.st_blocks * 512


def _listed(folders: Folders, entry: Entry, *below: str) -> list[str]:
    try:
        with folder_of(folders.job(entry.uid), *below) as folder:
            return names_in(folder)
    except OSError:
        return []


def _cut(folders: Folders, entry: Entry, path: tuple[str, ...], kept: int) -> int:
    """All but the last `kept` bytes; whoever writes there goes on behind them."""
    with folder_of(folders.job(entry.uid), *path[:-1]) as folder:
        handle = os.open(path[-1], AS_WRITTEN, dir_fd=folder)
    try:
        found = os.fstat(handle)
        if not _is_plain(found, entry.owner):
            return 0
        tail = os.pread(handle, kept, max(found.st_size - kept, 0))
        os.ftruncate(handle, 0)
        gone = found.st_size - len(tail)
        os.write(handle, f"[weft: {gone} bytes were cut here: too much was printed]\n".encode())
        os.write(handle, tail)
        return gone
    finally:
        os.close(handle)


def _is_plain(found: os.stat_result, owner: Owner) -> bool:
    return stat.S_ISREG(found.st_mode) and found.st_uid == owner.uid and found.st_nlink == 1
