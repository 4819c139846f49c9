"""The pen of the agent: snapshots in shared memory become checkpoints on disk, in the background.

A worker only copies its state into a slot and goes on; the agent writes, hashes and renames, and
does so also when the worker has died meanwhile. The newest snapshot wins: if disks are slower than
snapshots come, those in between are skipped. Where no folder for checkpoints is given, the slots
themselves are what a restart of the workers begins from. They are so too beside an object store:
what is there is fetched once, when the agent begins.

A loop may be left by `break` or by an error, and only the end of the script tells which. So a
snapshot that says that its loop was left serves those who are started again at once, and comes to
the disk when the script has gone on: with the next one, or at an end that is no error of its own.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weft.agent.checkpoint.errors import CheckpointError, StepExists
from weft.agent.checkpoint.home import Home
from weft.agent.checkpoint.vault import Run
from weft.agent.messages import FRESH, Saved

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The slots of one moment, one for each worker that holds a part."""

    step: int
    cursor: int
    paths: tuple[Path, ...]
    left: bool = False


class Keeper:
    """Writes one snapshot after the other, the newest first."""

    def __init__(self, home: Home | None, about: Callable[[], Run] = Run) -> None:
        self._about = about
        self._vault = home
        self._parts: dict[tuple[int, int, bool], dict[int, Path]] = {}
        self._complete = (0, FRESH, False)
        self._waiting: Snapshot | None = None
        self._latest: Snapshot | None = None
        self._durable: tuple[str, int] = ("", FRESH)
        self._durable_step = FRESH
        self._changed = threading.Condition()
        self._closed = self._writing = False
        self._thread = threading.Thread(target=self._write_all, name="weft-keeper", daemon=True)
        self.write_seconds: list[float] = []

    @property
    def durable_step(self) -> int:
        return self._durable_step

    def resume(self) -> tuple[str, int]:
        """Raise the fence; the newest sound checkpoint and its step, or nothing."""
        self._thread.start()
        if self._vault is None:
            return self._durable
        self._vault.claim()
        found = self._vault.newest()
        for refused in found.refused:
            log.error("checkpoint %s is refused: %s", refused.name, refused.reason)
        if found.checkpoint is not None and found.checkpoint.step > self._durable[1]:
            self._durable = str(found.checkpoint.path), found.checkpoint.step
            self._durable_step = found.checkpoint.step
        return self._durable

    def saved(self, message: Saved) -> None:
        """A part is sealed, or a copy of it has come; when all parts are there they are written.

        A part that lies in the memory of another machine is as good as none.
        """
        moment = (message.epoch, message.step, message.left)
        if moment <= self._complete or not os.access(message.path, os.R_OK):
            return
        parts = self._parts.setdefault(moment, {})
        parts.setdefault(message.part, Path(message.path))
        if len(parts) < message.parts:
            return
        self._complete = moment
        self._parts = {key: value for key, value in self._parts.items() if key > moment}
        paths = tuple(parts[number] for number in sorted(parts))
        with self._changed:
            self._latest = Snapshot(message.step, message.cursor, paths, message.left)
            if self._vault is not None and not message.left:
                self._waiting = self._latest
            self._changed.notify_all()

    @property
    def busy(self) -> bool:
        """Whether a snapshot is on its way to the disk."""
        return self._writing or self._waiting is not None

    def durable(self) -> tuple[str, int]:
        """Where workers of any machine can begin again."""
        return self._durable

    def newest(self) -> tuple[str, int]:
        """Where workers of this machine begin again: shared memory, else the disk."""
        latest = self._latest
        if latest is None or (latest.step, latest.left) <= (self._durable[1], False):
            return self._durable
        return os.pathsep.join(map(str, latest.paths)), latest.step

    def sweep(self, slots: Path, running: Collection[int]) -> None:
        """Of workers that have ended only what a restart would begin from stays in memory."""
        kept = {path for parts in self._parts.values() for path in parts.values()}
        for snapshot in (self._latest, self._waiting):
            kept.update(snapshot.paths if snapshot else ())
        for path in slots.glob("worker-*.*"):
            worker, _, _ = path.name.removeprefix("worker-").partition(".")
            if path not in kept and worker.isdigit() and int(worker) not in running:
                with suppress(OSError):
                    path.unlink()

    def close(self, *, failed: bool = False) -> None:
        """Write what is waiting, then end; `failed` if the script's own error has ended the job."""
        with self._changed:
            self._closed = True
            if self._vault is not None and self._latest and self._latest.left and not failed:
                self._waiting = self._latest
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def _write_all(self) -> None:
        while (snapshot := self._next()) is not None:
            try:
                self._write(snapshot)
            except CheckpointError as error:
                log.error("step %d is not durable: %s", snapshot.step, error)
            finally:
                self._writing = False

    def _next(self) -> Snapshot | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closed)
            snapshot, self._waiting = self._waiting, None
            self._writing = snapshot is not None
            return snapshot

    def _write(self, snapshot: Snapshot) -> None:
        assert self._vault is not None
        began = time.monotonic()
        try:
            path = self._vault.write(
                snapshot.step,
                snapshot.cursor,
                snapshot.paths,
                run=self._about(),
                replace=snapshot.left,
            )
        except StepExists:
            return
        if path is not None:
            self._durable = str(path), snapshot.step
        if path is not None or not self._vault.local:
            self._durable_step = snapshot.step
        self._vault.retain(time.time())
        self.write_seconds.append(time.monotonic() - began)
