"""What is left of workers when a job fails: error files, the ends of logs, stacks, how they ended.

It is kept beside the outcome, as it was written, for whoever asks whose fault it was; this side
judges nothing. Workers own these files and may have put anything in their place, so nothing but a
plain file is read, nothing is waited for, and what is kept is bounded.
"""

import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from weft.agent.coordination.worker import Worker
from weft.agent.outcome import Outcome
from weft.agent.workers import memory_events
from weft.agent.workers.stacks import stacks_file
from weft.failure.observed import ErrorFile, Exit, Hang, MemoryEvents, Observed, Output, Where
from weft.model.ids import NodeId

EVIDENCE: Final = "evidence.json"
LOGS: Final = "logs"
MOST_WORKERS: Final = 32
MOST_ERROR_BYTES: Final = 64 * 1024
MOST_LOG_BYTES: Final = 16 * 1024
MOST_STACK_BYTES: Final = 8 * 1024
MOST_CHARS: Final = 640 * 1024  # of all: whoever reads it takes no more than a mebibyte
RECENT_SECONDS: Final = 600.0
WELL: Final = frozenset({Outcome.FINISHED, Outcome.DRAINED})
KILLED: Final = (-9, 137)

_LOG = re.compile(r"worker-(\d{1,9})\.log")
_KILLED = re.compile(r"killed by signal|\bKilled\b")


@dataclass(frozen=True, slots=True)
class WorkerEvidence:
    """Of one worker: rank and exit code where they count, error file, ends of log and stacks."""

    worker: int
    error_file: str
    log_end: str
    rank: int | None = None
    exit_code: int | None = None
    stacks: str = ""

    @property
    def was_killed(self) -> bool:
        return self.exit_code in KILLED or _KILLED.search(self.log_end) is not None


@dataclass(frozen=True, slots=True)
class Stall:
    """A worker that was ended because it made no progress."""

    worker: int
    rank: int | None
    seconds: float
    limit_seconds: float


@dataclass(frozen=True, slots=True)
class Evidence:
    """All that an agent keeps; the first worker listed ended the job, unless it was `nobody`."""

    workers: tuple[WorkerEvidence, ...] = ()
    stall: Stall | None = None
    kills: int = 0
    nobody: bool = False

    @property
    def was_killed(self) -> bool:
        """Whether a process of the job may be among those that were."""
        return self.nobody or any(one.was_killed for one in self.workers)

    def observed(self, node: NodeId | None = None) -> Iterator[Observed]:
        """As what it was seen to be; kills of a cgroup count beside a process that was killed."""
        for one in self.workers:
            where = Where(node=node, rank=one.rank)
            yield ErrorFile(one.error_file, where)
            yield Output(one.log_end, where)
            if one.exit_code:
                yield Exit(one.exit_code, where)
        if self.kills and self.was_killed:
            yield MemoryEvents(self.kills, where=Where(node=node))
        if self.stall is not None:
            stall, where = self.stall, Where(node=node, rank=self.stall.rank)
            yield Hang(stall.seconds, stall.limit_seconds, where=where)


class Witness:
    """What an agent sees itself while its job lasts.

    Without `ranked` a worker stands for several processes, and has no rank of its own.
    """

    def __init__(self, *, ranked: bool = True) -> None:
        self._ranked = ranked
        self._kills = memory_events.kills()
        self._stall: Stall | None = None
        self.kept: Evidence | None = None

    def heard(self, event: str, facts: Mapping[str, Any]) -> None:
        """Of all that is noted, what tells of a failure."""
        if event == "hung":
            self._stall = Stall(**facts)

    def keep(self, folder: Path, workers: Mapping[int, Worker], first: int | None) -> None:
        """Write it into a run's folder; a full disk must not hide how the job ended."""
        unfinished = folder / f"{EVIDENCE}.tmp"
        self.kept = self.evidence(folder / LOGS, workers, first)
        told = asdict(self.kept)
        try:
            unfinished.write_text(json.dumps(told))
            unfinished.replace(folder / EVIDENCE)
        except OSError:
            unfinished.unlink(missing_ok=True)

    def evidence(self, logs: Path, workers: Mapping[int, Worker], first: int | None) -> Evidence:
        """All there is; `first` is the worker that ended the job, if one did."""
        told = [self._told(one, workers, first) for one in gathered(logs, first)]
        kills = max(memory_events.kills() - self._kills, 0)
        return Evidence(tuple(told), self._stall, kills, nobody=first is None)

    def _told(
        self, one: WorkerEvidence, workers: Mapping[int, Worker], first: int | None
    ) -> WorkerEvidence:
        """How it ended counts of the one that ended the job: the others were ended after it."""
        worker = workers.get(one.worker)
        if worker is None:
            return one
        code = worker.exit_code if one.worker == first else None
        return replace(one, rank=worker.rank if self._ranked else None, exit_code=code)


def forget(folder: Path, logs: Path) -> None:
    """Nothing of an earlier run is taken for this one's."""
    (folder / EVIDENCE).unlink(missing_ok=True)
    for name in (error_file("*"), stacks_file("*")):
        for old in logs.glob(name):
            with suppress(OSError):
                old.unlink()


def gathered(logs: Path, first: int | None) -> list[WorkerEvidence]:
    """Of all workers that have a log here, or of as many as are kept.

    One that has written nothing for long before the last one did has ended otherwise, and the job
    went on: what it says is not why the job has ended.
    """
    written = _written(logs)
    recent = max(written.values(), default=0.0) - RECENT_SECONDS
    names = (worker for worker, at in written.items() if at >= recent or worker == first)
    order = sorted(names, key=lambda worker: (worker != first, worker))
    found: list[WorkerEvidence] = []
    left = MOST_CHARS
    for worker in order[:MOST_WORKERS]:
        found.append(one := _of(logs, worker))
        left -= len(json.dumps(asdict(one)))
        if left < 0:
            return found[:-1]
    return found


def error_file(worker: int | str) -> str:
    """The name of the file that torch is told to write an exception to."""
    return f"worker-{worker}.error.json"


def parsed(text: bytes) -> Evidence:
    """What was kept, as far as it is that: whoever owns the folder may have written anything."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return Evidence()
    match told:
        case {"workers": list(workers), "kills": int(kills)}:
            found = (_parsed(one) for one in workers[:MOST_WORKERS])
            stall = _parsed_stall(told.get("stall"))
            kept = tuple(one for one in found if one is not None)
            nobody = told.get("nobody") is True
            return Evidence(kept, stall, min(max(kills, 0), MOST_CHARS), nobody)
    return Evidence()


def _parsed(told: object) -> WorkerEvidence | None:
    match told:
        case {"worker": int(worker), "error_file": str(error), "log_end": str(end), **rest}:
            stacks = rest.get("stacks")
            return WorkerEvidence(
                worker,
                error[:MOST_ERROR_BYTES],
                end[-MOST_LOG_BYTES:],
                _small(rest.get("rank")),
                _small(rest.get("exit_code")),
                stacks[-MOST_STACK_BYTES:] if isinstance(stacks, str) else "",
            )
    return None


def _parsed_stall(told: object) -> Stall | None:
    match told:
        case {
            "worker": int(worker),
            "seconds": int(seconds) | float(seconds),
            "limit_seconds": int(limit) | float(limit),
            **rest,
        }:
            return Stall(worker, _small(rest.get("rank")), float(seconds), float(limit))
    return None


def _small(value: object) -> int | None:
    return value if type(value) is int and abs(value) <= MOST_CHARS else None


def _written(logs: Path) -> dict[int, float]:
    """When each worker wrote last."""
    found: dict[int, float] = {}
    with suppress(OSError), os.scandir(logs) as entries:
        for entry in entries:
            name = _LOG.fullmatch(entry.name)
            if name is not None:
                found[int(name[1])] = entry.stat(follow_symlinks=False).st_mtime
    return found


def _of(logs: Path, worker: int) -> WorkerEvidence:
    error = _read_end(logs / error_file(worker), MOST_ERROR_BYTES + 1)
    whole = error if len(error) <= MOST_ERROR_BYTES else b""  # half a document says nothing
    log = _read_end(logs / f"worker-{worker}.log", MOST_LOG_BYTES)
    stacks = _read_end(logs / stacks_file(worker), MOST_STACK_BYTES)
    texts = (text.decode(errors="replace") for text in (whole, log, stacks))
    error_text, log_end, where = texts
    return WorkerEvidence(worker, error_text, log_end, stacks=where)


def _read_end(path: Path, most: int) -> bytes:
    """The last bytes of a plain file; nothing of a pipe, a device or a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        facts = os.fstat(handle)
        if not stat.S_ISREG(facts.st_mode):
            return b""
        return os.pread(handle, most, max(0, facts.st_size - most))
    except OSError:
        return b""
    finally:
        os.close(handle)
