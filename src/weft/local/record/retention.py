"""How long things are kept: logs and checkpoints of jobs that are over, and their records.

A job's folder goes some weeks after its end, or earlier, the oldest first, where all of them
together are too large; its line in the history stays. A job whose file names a `ttl` goes with
everything when that has passed. Checkpoints in a place of the owner's own are never touched.
"""

import asyncio
import logging
import math
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.local.folders import Folders
from weft.local.record.entry import Entry
from weft.local.record.store import Store
from weft.model.errors import SpecError, WorldError
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 600.0
HOUR_SECONDS: Final = 3_600.0
DAY_SECONDS: Final = 86_400.0
GIB: Final = 1024**3
KIB: Final = 1024
COUNTING_SECONDS: Final = 300.0


class Retention:
    """Takes away what has been kept for long enough."""

    def __init__(self, folders: Folders, store: Store, *, days: float, gib: float) -> None:
        self._places = folders
        self._store = store
        self._days = days
        self._gib = gib

    async def run(self, now: Callable[[], float]) -> None:
        while True:
            try:
                await asyncio.to_thread(self.tidy, now())
            except (WorldError, OSError, subprocess.SubprocessError) as error:
                log.warning("not tidied: %s", error)
            await asyncio.sleep(PAUSE_SECONDS)

    def tidy(self, now: float) -> None:
        over = self._store.ended_before(now)
        self._expire(over, now)
        present = [entry for entry in over if self._places.job(entry.uid).exists()]
        for entry in self._too_old(present, now):
            self._places.remove_job(entry.uid)
        self._remove_strangers(_uids(over) | _uids(self._store.active()), now)

    def _expire(self, over: list[Entry], now: float) -> None:
        gone = [entry.uid for entry in over if _ttl_passed(entry, now)]
        for uid in gone:
            self._places.remove_job(uid)
        if gone:
            self._store.forget(gone)

    def _too_old(self, present: list[Entry], now: float) -> list[Entry]:
        """By age, then by size: the latest are kept for as long as they fit."""
        left = self._gib * GIB
        found = []
        for entry in reversed(present):
            left -= size_of(self._places.job(entry.uid))
            old = now - (entry.ended_at or now) > self._days * DAY_SECONDS
            if old or left < 0:
                found.append(entry)
        return found

    def _remove_strangers(self, known: set[str], now: float) -> None:
        """Folders of submissions that were never recorded, though not of one that just comes in."""
        for path in self._places.jobs.iterdir():
            if path.name not in known and path.lstat().st_mtime + HOUR_SECONDS < now:
                self._places.remove_job(path.name)


def size_of(folder: Path) -> float:
    """Bytes on the disk below; without end, where counting does not come to one.

    Left to a program that walks folders of any depth by handles and follows no links: they are a
    user's, who may nest thousands or move them meanwhile.
    """
    try:
        counted = subprocess.run(
            ["du", "-skx", "--", str(folder)],
            capture_output=True,
            timeout=COUNTING_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return math.inf
    kib, _, _ = counted.stdout.partition(b"\t")
    return int(kib) * KIB if kib.isdigit() else 0


def _uids(entries: list[Entry]) -> set[str]:
    return {entry.uid for entry in entries}


def _ttl_passed(entry: Entry, now: float) -> bool:
    try:
        ttl = validated(JobSpec, entry.spec).ttl_seconds
    except SpecError:
        return False
    return ttl is not None and entry.ended_at is not None and entry.ended_at + ttl <= now
