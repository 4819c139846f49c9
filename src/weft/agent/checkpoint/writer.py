"""The checkpoint writer: snapshots in shared memory become checkpoints, in the background.

A worker only copies its state into a slot and goes on; the agent writes, hashes and renames, and
does so also when the worker has died meanwhile. The newest snapshot wins: if disks are slower than
snapshots come, those in between are skipped. Where no folder for checkpoints is given, the slots
themselves are what a restart of the workers begins from. They are so too beside an object store:
what is there is fetched once, when the agent begins.

A loop may be left by `break` or by an error, and only the end of the script tells which. So a
snapshot that says that its loop was left serves those who are started again at once, and comes to
the disk when the script has gone on: with the next one, or at an end that is no error of its own.

Of a job over several pods each pod writes what its workers hold
(`weft.agent.checkpoint.seat_writers`).
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from weft.agent.checkpoint.cadence import REMEMBERED, cost_of
from weft.agent.checkpoint.errors import CheckpointError, StepExists
from weft.agent.checkpoint.home import Home
from weft.agent.checkpoint.seat_writers import HERE, Held, Snapshot, Writers
from weft.agent.checkpoint.vault import Run
from weft.agent.messages import FRESH, Saved
from weft.failure.interval import Cost

log = logging.getLogger(__name__)


class CheckpointWriter:
    """Writes one snapshot after the other, the newest first."""

    def __init__(self, home: Home | None, about: Callable[[], Run] = Run) -> None:
        self._about = about
        self._vault = home
        self._parts: dict[tuple[int, int, bool], dict[int, list[Held]]] = {}
        self._complete = self._before = (0, FRESH, False)
        self._waiting: Snapshot | None = None
        self._written: Snapshot | None = None  # that is being written
        self._latest: Snapshot | None = None
        self.writers: Writers | None = None  # those of other pods
        self.running: Collection[int] = ()
        self._missed = False
        self._durable: tuple[str, int] = ("", FRESH)
        self._durable_step = FRESH
        self._changed = threading.Condition()
        self._closed = self._writing = False
        self._thread = threading.Thread(
            target=self._write_all, name="weft-checkpoint-writer", daemon=True
        )
        self.write_seconds: list[float] = []
        self.stopped_seconds: list[float] = []

    @property
    def cost(self) -> Cost | None:
        """Of a save."""
        return cost_of(self.stopped_seconds, self.write_seconds)

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

    def saved(self, message: Saved, seat: int = HERE) -> None:
        """A part is sealed, or a copy of it has come; when all parts are there they are written.

        A part that lies in the memory of another machine is as good as none, unless it is written
        from there.
        """
        moment = (message.epoch, message.step, message.left)
        if moment < self._complete or not self._in_reach(message, seat):
            return
        parts = self._parts.setdefault(moment, {})
        parts.setdefault(message.part, []).append(Held(seat, Path(message.path)))
        if len(parts) < message.parts or moment == self._complete:
            return
        self._complete = moment
        self.stopped_seconds = [*self.stopped_seconds[-REMEMBERED:], message.blocked_seconds]
        self._drop_before(moment)
        with self._changed:
            self._latest = Snapshot(message.step, message.cursor, parts, message.left)
            if self._vault is not None and not message.left:
                self._waiting = self._latest
            self._changed.notify_all()

    def _in_reach(self, message: Saved, seat: int) -> bool:
        if seat == HERE:
            return os.access(message.path, os.R_OK)
        return self.writers is not None

    def _drop_before(self, moment: tuple[int, int, bool]) -> None:
        """Snapshots of which a part has never come; whoever did not save has told why."""
        for earlier in [key for key in self._parts if key < moment]:
            have = len(self._parts.pop(earlier))
            if earlier != self._before:
                log.warning("no checkpoint of step %d: only %d parts came", earlier[1], have)
        self._before = moment

    @property
    def busy(self) -> bool:
        """Whether a snapshot is on its way to the disk."""
        return self._writing or self._waiting is not None

    def needs(self, seat: int) -> bool:
        """Whether something is to be written from the memory of that seat."""
        return any(s is not None and seat in s.seats for s in (self._waiting, self._written))

    def take_missed(self) -> bool:
        """Whether a snapshot has been lost with one of its parts since this was last asked."""
        missed, self._missed = self._missed, False
        return missed

    def durable(self) -> tuple[str, int]:
        """Where workers of any machine can begin again."""
        return self._durable

    def newest(self) -> tuple[str, int]:
        """Where workers of this machine begin again: shared memory, else the disk."""
        latest = self._latest
        if latest is None or (latest.step, latest.left) <= (self._durable[1], False):
            return self._durable
        near = latest.near
        return (os.pathsep.join(map(str, near)), latest.step) if near else self._durable

    def sweep(self, slots: Path, running: Collection[int]) -> None:
        """Of workers that have ended only what a restart would begin from stays in memory."""
        known = (self._latest, self._waiting, self._written)
        told = [*self._parts.values(), *(snapshot.parts for snapshot in known if snapshot)]
        kept = {held.path for parts in told for part in parts.values() for held in part}
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
                self._missed = self._missed or snapshot.spread
            finally:
                self._writing, self._written = False, None

    def _next(self) -> Snapshot | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closed)
            snapshot, self._waiting = self._waiting, None
            self._written = snapshot
            self._writing = snapshot is not None
            return snapshot

    def _write(self, snapshot: Snapshot) -> None:
        assert self._vault is not None
        began = time.monotonic()
        try:
            path = self._path(snapshot)
        except StepExists:
            return
        if path is not None:
            self._durable = str(path), snapshot.step
        if path is not None or not self._vault.local:
            self._durable_step = snapshot.step
        self._vault.retain(time.time())
        self.write_seconds = [*self.write_seconds[-REMEMBERED:], time.monotonic() - began]

    def _path(self, snapshot: Snapshot) -> Path | None:
        """Where it can be read, now that it is written."""
        assert self._vault is not None
        if snapshot.spread and self.writers is not None:
            return self.writers.write(snapshot, self._about(), self.running)
        return self._vault.write(
            snapshot.step,
            snapshot.cursor,
            snapshot.near,
            run=self._about(),
            replace=snapshot.left,
        )
