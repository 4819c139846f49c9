"""What is left of workers when a job fails: torch's error files and the ends of their logs.

It is kept beside the outcome, as it was written, for whoever asks whose fault it was; this side
judges nothing. Workers own these files and may have put anything in their place, so nothing but a
plain file is read, nothing is waited for, and what is kept is bounded.
"""

import json
import os
import re
import stat
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from weft.agent.outcome import Outcome

EVIDENCE: Final = "evidence.json"
MOST_WORKERS: Final = 32
MOST_ERROR_BYTES: Final = 64 * 1024
MOST_LOG_BYTES: Final = 16 * 1024
WELL: Final = frozenset({Outcome.FINISHED, Outcome.DRAINED})

_LOG = re.compile(r"worker-(\d{1,9})\.log")


@dataclass(frozen=True, slots=True)
class WorkerEvidence:
    """One worker's error file and the end of its log; the first one listed ended the job."""

    worker: int
    error_file: str
    log_end: str


def keep(folder: Path, logs: Path, first: int | None) -> None:
    """Write what workers left; a full disk must not hide how the job ended."""
    unfinished = folder / f"{EVIDENCE}.tmp"
    told = [asdict(one) for one in gathered(logs, first)]
    try:
        unfinished.write_text(json.dumps(told))
        unfinished.replace(folder / EVIDENCE)
    except OSError:
        unfinished.unlink(missing_ok=True)


def forget(folder: Path, logs: Path) -> None:
    """Nothing of an earlier run is taken for this one's."""
    (folder / EVIDENCE).unlink(missing_ok=True)
    for old in logs.glob(error_file("*")):
        with suppress(OSError):
            old.unlink()


def gathered(logs: Path, first: int | None) -> list[WorkerEvidence]:
    """Of all workers that have a log here, or of as many as are kept."""
    try:
        found = {int(name[1]) for file in os.listdir(logs) if (name := _LOG.fullmatch(file))}
    except OSError:
        return []
    order = sorted(found, key=lambda worker: (worker != first, worker))
    return [_of(logs, worker) for worker in order[:MOST_WORKERS]]


def error_file(worker: int | str) -> str:
    """The name of the file that torch is told to write an exception to."""
    return f"worker-{worker}.error.json"


def parsed(text: bytes) -> list[WorkerEvidence]:
    """What was kept, as far as it is that: whoever owns the folder may have written anything."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError):
        return []
    found = (_parsed(one) for one in (told if isinstance(told, list) else [])[:MOST_WORKERS])
    return [one for one in found if one is not None]


def _parsed(told: object) -> WorkerEvidence | None:
    match told:
        case {"worker": int(worker), "error_file": str(error), "log_end": str(end)}:
            return WorkerEvidence(worker, error[:MOST_ERROR_BYTES], end[-MOST_LOG_BYTES:])
    return None


def _of(logs: Path, worker: int) -> WorkerEvidence:
    error = _read_end(logs / error_file(worker), MOST_ERROR_BYTES + 1)
    whole = error if len(error) <= MOST_ERROR_BYTES else b""  # half a document says nothing
    log = _read_end(logs / f"worker-{worker}.log", MOST_LOG_BYTES)
    return WorkerEvidence(worker, whole.decode(errors="replace"), log.decode(errors="replace"))


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
