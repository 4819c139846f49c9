"""One writer on each seat: every pod makes durable what its own workers have saved.

The head orders it when all parts of a snapshot are sealed, each in the memory of the pod that holds
it. All pods write at once into one folder of the vault, and whoever completes the set gives it its
name; so there is a checkpoint when every part is on the disk, and none before. A part whose pod is
lost, or does not write it in time, is missing: then there is no checkpoint of that step, which is
told. A part that lies in two places is taken from the other one.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from weft.agent.checkpoint.errors import CheckpointError, NotWritten, StepExists
from weft.agent.checkpoint.vault import Run, Vault
from weft.agent.messages import Keep, Kept

Paths = Mapping[int, Path]
LOOK_SECONDS: Final = 1.0
HERE: Final = -1  # in place of a seat: the one from which the job is led, whichever that is


@dataclass(frozen=True, slots=True)
class Held:
    """Where a part of a snapshot lies: on a seat, in its memory."""

    seat: int
    path: Path


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The slots of one moment: of each part who holds it, the first that has told of it first."""

    step: int
    cursor: int
    parts: Mapping[int, list[Held]]
    left: bool = False

    @property
    def near(self) -> tuple[Path, ...]:
        """All of it in the memory of this machine, by part; nothing if it is not."""
        here = self.on({HERE}).get(HERE, {})
        return tuple(here[n] for n in sorted(here)) if len(here) == len(self.parts) else ()

    @property
    def spread(self) -> bool:
        """Whether other machines hold what is to be written, and write it."""
        return any(part[0].seat != HERE for part in self.parts.values())

    @property
    def seats(self) -> frozenset[int]:
        return frozenset(held.seat for part in self.parts.values() for held in part)

    def on(self, seats: Collection[int]) -> dict[int, Paths]:
        """By seat: which part is to be taken from where, if these are all there are."""
        found: dict[int, dict[int, Path]] = {}
        for number, part in self.parts.items():
            for held in part:
                if held.seat in seats:
                    found.setdefault(held.seat, {})[number] = held.path
                    break
        return dict(found)


@dataclass(slots=True)
class _Writing:
    """What the seats have said of one snapshot."""

    step: int
    awaited: set[int] = field(default_factory=set)
    missing: dict[int, str] = field(default_factory=dict)
    whole: bool = False


class Writers:
    """The head's side: it orders, writes its own parts, and waits for the others."""

    def __init__(
        self, vault: Vault, order: Callable[[int, Keep], None], limit_seconds: float
    ) -> None:
        self._vault, self._order, self._limit_seconds = vault, order, limit_seconds
        self._changed = threading.Condition()
        self._writing = _Writing(-1)
        self._given_up = ""  # why no other seat is to be waited for any more

    def write(self, snapshot: Snapshot, run: Run, running: Collection[int]) -> Path:
        """The folder, once every part of it is there; called by the thread that writes."""
        seats = snapshot.seats
        while True:
            missing = self._try(snapshot, snapshot.on(seats), run, running)
            if not missing:
                return self._vault.root / f"step-{snapshot.step}.inc-{self._vault.incarnation}"
            seats = seats.difference(missing)
            held = sum(len(parts) for parts in snapshot.on(seats).values())
            if held < len(snapshot.parts):
                raise _not_whole(snapshot, held, missing)

    def told(self, seat: int, kept: Kept) -> None:
        """A seat has written its parts, or could not."""
        with self._changed:
            if kept.step != self._writing.step or seat not in self._writing.awaited:
                return
            self._writing.awaited.discard(seat)
            self._writing.whole = self._writing.whole or kept.whole
            if kept.why:
                self._writing.missing[seat] = kept.why
            self._changed.notify_all()

    def lost(self, seat: int) -> None:
        """Nothing is to be hoped for from that seat."""
        self.told(seat, Kept(self._writing.step, whole=False, why="it is lost"))

    def give_up(self, why: str) -> None:
        """No other seat listens to this one any more."""
        with self._changed:
            self._given_up = why
            self._writing.missing.update(dict.fromkeys(self._writing.awaited, why))
            self._writing.awaited.clear()
            self._changed.notify_all()

    def _try(
        self, snapshot: Snapshot, parts: Mapping[int, Paths], run: Run, running: Collection[int]
    ) -> dict[int, str]:
        """Write every part at once; which seats have not, and why."""
        mine = parts.get(HERE, {})
        others = {seat: held for seat, held in parts.items() if seat != HERE}
        writing = _Writing(snapshot.step, awaited=set(others))
        with self._changed:
            if others and self._given_up:
                return dict.fromkeys(others, self._given_up)
            self._writing = writing
        for seat, held in others.items():
            self._order(seat, _keep(snapshot, held, run, running))
        keep = _keep(snapshot, mine, run, ())
        writing.whole = written(self._vault, keep) or writing.whole
        self._wait(writing)
        if not writing.missing and not writing.whole:
            raise NotWritten(
                f"the parts of step {snapshot.step} do not go together",
                hint="the next snapshot is written as usual",
            )
        return writing.missing

    def _wait(self, writing: _Writing) -> None:
        deadline = time.monotonic() + self._limit_seconds
        with self._changed:
            while writing.awaited and time.monotonic() < deadline:
                self._changed.wait(LOOK_SECONDS)
            for seat in writing.awaited:
                writing.missing[seat] = f"not written in {self._limit_seconds:.0f} s"


class SeatWriter:
    """A follower's side: one order after the other, the newest first."""

    def __init__(self, vault: Vault, slots: Path, tell: Callable[[Kept], None]) -> None:
        self._vault, self._slots, self._tell = vault, slots, tell
        self._changed = threading.Condition()
        self._waiting: Keep | None = None
        threading.Thread(target=self._write_all, name="weft-writer", daemon=True).start()

    def order(self, keep: Keep) -> None:
        with self._changed:
            if self._waiting is not None:
                self._tell(Kept(self._waiting.step, whole=False, why="a newer one has come"))
            self._waiting = keep
            self._changed.notify_all()

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting is not None)
                keep, self._waiting = self._waiting, None
            assert keep is not None
            self._tell(self._written(keep))

    def _written(self, keep: Keep) -> Kept:
        try:
            whole = written(self._vault, keep)
        except (CheckpointError, OSError) as error:
            return Kept(keep.step, whole=False, why=str(error)[:500])
        sweep(self._slots, keep)
        return Kept(keep.step, whole=whole)


def written(vault: Vault, keep: Keep) -> bool:
    """Write these parts; whether they were the last that the checkpoint lacked."""
    path = None
    for number, place in sorted((int(part), Path(held)) for part, held in keep.parts.items()):
        try:
            path = vault.write(
                keep.step,
                keep.cursor,
                [place],
                run=Run(**keep.run),
                first=number,
                shards=keep.count,
                replace=keep.replace,
            )
        except StepExists:
            return True
    return path is not None


def sweep(slots: Path, keep: Keep) -> None:
    """Of workers that have ended, what is older than what was just written goes."""
    used = [Path(held) for held in keep.parts.values()]
    with suppress(OSError):
        written_at = min(path.stat().st_mtime_ns for path in used)
        for path in slots.glob("worker-*.*"):
            worker, _, _ = path.name.removeprefix("worker-").partition(".")
            ended = worker.isdigit() and int(worker) not in keep.running
            if ended and path not in used and path.stat().st_mtime_ns < written_at:
                path.unlink()


def _keep(snapshot: Snapshot, parts: Paths, run: Run, running: Collection[int]) -> Keep:
    return Keep(
        snapshot.step,
        snapshot.cursor,
        {str(number): str(path) for number, path in parts.items()},
        len(snapshot.parts),
        asdict(run),
        snapshot.left,
        tuple(running),
    )


def _not_whole(snapshot: Snapshot, held: int, missing: Mapping[int, str]) -> NotWritten:
    why = "; ".join(f"seat {seat}: {reason}" for seat, reason in sorted(missing.items()))
    return NotWritten(
        f"{len(snapshot.parts) - held} of {len(snapshot.parts)} parts of step {snapshot.step} "
        f"are missing ({why})",
        hint="there is no checkpoint of that step; a new snapshot is taken at once",
    )
