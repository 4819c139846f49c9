"""The vault: a job's durable checkpoints below one folder.

    <root>/fence.json                     the newest incarnation that has been here
    <root>/lock                           held while names change
    <root>/step-1200.inc-3/manifest.json  what the shards are, and their digests
    <root>/step-1200.inc-3/shard-0-of-2.bin
    <root>/step-1200.inc-3/shard-1-of-2.bin

What `newest` returns was read to the last byte and compared with its digests. What it refuses it
names, with the reason: that is progress lost, and must be told. Nothing here imports torch or knows
what the bytes mean, so the agent can write a checkpoint after its trainer has died.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from weft.agent.checkpoint import beneath, chunks, fence, inspection
from weft.agent.checkpoint.errors import (
    CheckpointError,
    Damaged,
    NotWritten,
    StepExists,
    VaultError,
)
from weft.agent.checkpoint.folders import Folder, Kind, listing
from weft.agent.checkpoint.manifest import Head, Manifest, Plan
from weft.agent.checkpoint.retention import HOUR_SECONDS, LAST, kept
from weft.agent.checkpoint.saving import Saving, awaits_others, being_written
from weft.agent.checkpoint.slot import Slot
from weft.crash import passing

ABANDONED_SECONDS: Final = HOUR_SECONDS
UNFENCED: Final = -1


@dataclass(frozen=True, slots=True)
class Run:
    """What the manifest says about the program that was running."""

    world: int = 1
    plan: Plan = field(default_factory=dict)
    code: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A folder whose every byte was compared with its digest."""

    path: Path
    manifest: Manifest

    @property
    def step(self) -> int:
        return self.manifest.head.step

    @property
    def cursor(self) -> int:
        return self.manifest.head.cursor


@dataclass(frozen=True, slots=True)
class Refused:
    """Something that is no checkpoint, and why."""

    name: str
    step: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest sound checkpoint, and what was passed over on the way to it."""

    checkpoint: Checkpoint | None
    refused: tuple[Refused, ...] = ()


class Vault:
    """The checkpoints of one job, as seen by one of its incarnations."""

    local = True

    def __init__(
        self,
        root: Path,
        job: str,
        incarnation: int,
        *,
        threads: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = root.resolve()
        self.job = job
        self.incarnation = incarnation
        self._threads = threads or chunks.default_threads()
        self._clock = clock
        self._refused: set[Folder] = set()
        self._written_seconds: dict[Folder, float] = {}

    def claim(self) -> None:
        """Raise the fence to this incarnation, so that no older one can write any more."""
        with self._open() as root, fence.locked(root):
            self._claim(root)

    def latest(self) -> int:
        """The newest incarnation that has been here; `UNFENCED` where none has."""
        with self._open() as root:
            with suppress(Damaged):
                present = fence.read(root, self.job)
                if present is not None:
                    return present
            return max((folder.incarnation for folder in listing(root)), default=UNFENCED)

    def write(
        self,
        step: int,
        cursor: int,
        slots: Sequence[Path],
        *,
        run: Run | None = None,
        first: int = 0,
        shards: int | None = None,
        replace: bool = False,
    ) -> Path | None:
        """Make sealed slots durable, and return the folder.

        A step that is there already is not overwritten, unless it is to be replaced. Where other
        agents hold further parts, `shards` is the number of all and `first` that of our first slot;
        the one who completes the set gets the folder, the others None.
        """
        with ExitStack() as held, self._open() as root:
            opened = [held.enter_context(Slot(path)) for path in slots]
            head = head_of(
                self.job, self.incarnation, opened, step=step, cursor=cursor, run=run or Run()
            )
            saving = Saving(head, opened, first=first, count=shards or len(opened))
            held.callback(saving.close)
            try:
                folder = self._save(saving, root, replace=replace)
            except OSError as error:
                saving.give_up(root)
                raise NotWritten(
                    f"step {step} could not be written: {error.strerror}",
                    hint=f"see whether {self.root} is full or read-only",
                ) from error
            except CheckpointError:
                saving.give_up(root)
                raise
        return None if folder is None else self.root / folder.name

    def newest(self) -> Newest:
        """The newest checkpoint that is sound; those refused on the way are named."""
        if not self.root.exists():
            return Newest(None)
        refused: list[Refused] = []
        with self._open() as root:
            limit = self._limit(root, refused)
            for folder in listing(root):
                if folder.kind is not Kind.WHOLE:
                    continue
                try:
                    found = self._sound(root, folder, limit)
                except Damaged as error:
                    self._refused.add(folder)
                    refused.append(Refused(folder.name, folder.step, str(error)))
                else:
                    checkpoint = Checkpoint(self.root / folder.name, found)
                    return Newest(checkpoint, tuple(refused))
        return Newest(None, tuple(refused))

    def retain(self, now: float, *, last: int = LAST) -> tuple[str, ...]:
        """Delete what need not stay, and what crashes have left; returns the names."""
        with self._open() as root:
            outdated = self._outdated(root, last)
            with fence.locked(root):
                self._claim(root)
                doomed = [*outdated, *self._rubbish(root, now)]
                for folder in doomed:
                    _set_aside(folder, root)
            for folder in listing(root):
                if folder.kind is Kind.GOING:
                    folder.remove(root)
        return tuple(folder.name for folder in doomed)

    @contextmanager
    def _open(self) -> Iterator[int]:
        """The root's descriptor; what the system refuses below it becomes an error of ours."""
        try:
            if not self.root.exists():
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
            with beneath.folder(self.root) as root:
                yield root
        except OSError as error:
            raise VaultError(
                f"{self.root} cannot be used: {error.strerror or error}",
                hint="see whether the disk is there, and whether it may be written to",
            ) from error

    def _claim(self, root: int) -> None:
        present: int | None = None
        with suppress(Damaged):
            present = fence.read(root, self.job)
        if present is None:
            numbers = (folder.incarnation for folder in listing(root))
            present = max((n for n in numbers if n > self.incarnation), default=UNFENCED)
        fence.advance(root, self.job, self.incarnation, present=present)

    def _save(self, saving: Saving, root: int, *, replace: bool) -> Folder | None:
        with fence.locked(root):
            self._claim(root)
            if not replace:
                self._check_absent(root, saving.head.step)
            passing("save-claimed")
            saving.begin(root)
        saving.fill(self._threads)
        with fence.locked(root):
            self._claim(root)
            if not saving.complete():
                return None
            for folder in self._written_of(root, saving.head.step) if replace else ():
                _set_aside(folder, root)
            self._check_absent(root, saving.head.step)
            return saving.finish(root, self._clock())

    def _check_absent(self, root: int, step: int) -> None:
        for folder in self._written_of(root, step):
            raise StepExists(f"{folder.name} exists already", hint="go on: that step is durable")

    def _written_of(self, root: int, step: int) -> list[Folder]:
        """What has been written of that step, and not by an incarnation that is over."""
        whole = (folder for folder in listing(root) if folder.kind is Kind.WHOLE)
        return [f for f in whole if f.step == step and f.incarnation >= self.incarnation]

    def _limit(self, root: int, refused: list[Refused]) -> int:
        """The newest incarnation that may have left something here."""
        try:
            present = fence.read(root, self.job)
        except (Damaged, VaultError) as error:
            refused.append(Refused(fence.NAME, None, str(error)))
            present = None
        return self.incarnation if present is None else present

    def _sound(self, root: int, folder: Folder, limit: int) -> Manifest:
        with beneath.folder(folder.name, within=root) as within:
            found = inspection.look(within)
            inspection.check_origin(found, folder, self.job, limit)
            inspection.verify(found, within, threads=self._threads)
        return found

    def _outdated(self, root: int, last: int) -> list[Folder]:
        """Sound ones that retention lets go, and unsound ones once enough sound ones are newer."""
        whole = [folder for folder in listing(root) if folder.kind is Kind.WHOLE]
        sound = {folder: at for folder in whole if (at := self._written(root, folder)) is not None}
        newest = sorted(sound, reverse=True)[:last]
        if len(newest) < last:
            return []
        stay = kept(sound, last=last)
        return [folder for folder in whole if folder < newest[-1] and folder not in stay]

    def _written(self, root: int, folder: Folder) -> float | None:
        """When it was written, if it looks sound; looked up once, since it never changes."""
        if folder in self._refused:
            return None
        if folder not in self._written_seconds:
            try:
                with beneath.folder(folder.name, within=root) as within:
                    found = inspection.look(within)
                inspection.check_origin(found, folder, self.job, self.incarnation)
            except Damaged:
                return None
            self._written_seconds[folder] = found.written_seconds
        return self._written_seconds[folder]

    def _rubbish(self, root: int, now: float) -> list[Folder]:
        """What was never finished, or never wholly deleted."""
        return [
            folder
            for folder in listing(root)
            if folder.kind is Kind.GOING
            or (folder.kind is Kind.GROWING and self._abandoned(folder, root, now))
        ]

    def _abandoned(self, folder: Folder, root: int, now: float) -> bool:
        """Nobody will complete it: fenced off, overtaken, or left by all of its writers."""
        if folder.incarnation < self.incarnation:
            return True
        if folder.incarnation > self.incarnation or being_written(folder, root):
            return False
        if not awaits_others(folder, root):
            return True
        changed = os.stat(folder.name, dir_fd=root, follow_symlinks=False).st_mtime
        newest = max((other for other in listing(root) if other.kind is Kind.WHOLE), default=None)
        overtaken = newest is not None and newest.step > folder.step
        return overtaken or now - changed > ABANDONED_SECONDS


def head_of(
    job: str, incarnation: int, slots: Sequence[Slot], *, step: int, cursor: int, run: Run
) -> Head:
    """What all shards of these slots have in common; refused if they are not of one moment."""
    stamps = [slot.sealed.stamp for slot in slots]
    moments = {(stamp.job, stamp.moment, stamp.step, stamp.cursor) for stamp in stamps}
    if len(moments) != 1 or (stamps[0].step, stamps[0].cursor) != (step, cursor):
        raise NotWritten(
            f"the slots are not all of step {step} of one epoch",
            hint="they were overwritten meanwhile; the next snapshot is written instead",
        )
    if stamps[0].job != job or stamps[0].incarnation > incarnation:
        raise NotWritten(
            f"the slots belong to incarnation {stamps[0].incarnation} of {stamps[0].job!r}",
            hint="each incarnation of a job has a folder of slots of its own",
        )
    return Head(
        job=job,
        incarnation=incarnation,
        epoch=stamps[0].epoch,
        step=step,
        cursor=cursor,
        world=run.world,
        plan=run.plan,
        code=run.code,
        torch=run.torch,
    )


def _set_aside(folder: Folder, root: int) -> None:
    """So that nobody takes a half-deleted checkpoint for a damaged one."""
    if folder.kind is not Kind.GOING:
        with suppress(FileNotFoundError):
            folder.become(Kind.GOING, root)
