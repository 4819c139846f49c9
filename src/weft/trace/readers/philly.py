"""Philly's attempts: when each try of a job began and ended.

The jobs themselves come as a listing, whose `attempts` and `queue_seconds` are the recorded
outcome; this table holds the tries one by one, for models of retry and lost work.
"""

from dataclasses import dataclass
from pathlib import Path

from weft.model.ids import JobId
from weft.trace.faults import InputFault, OnFault
from weft.trace.reading import Reading
from weft.trace.sheet import load


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try of a job, counted from 0."""

    job: JobId
    number: int
    start_seconds: float
    end_seconds: float


@dataclass(frozen=True, slots=True)
class Attempts:
    """Tries in file order, and what was wrong with the others."""

    attempts: tuple[Attempt, ...]
    faults: tuple[InputFault, ...] = ()


def read_attempts(path: Path, *, on_fault: OnFault = "raise") -> Attempts:
    """A file of `job_id, attempt, start_s, end_s`."""
    reading = Reading(load(path))
    ids = reading.texts("job_id", missing="name its job")
    numbers = reading.wholes("attempt", missing="count attempts from 0")
    starts = reading.numbers("start_s", missing="write when it began")
    ends = reading.numbers("end_s", missing="write when it ended")
    attempts = []
    for index, (job, number, start, end) in enumerate(zip(ids, numbers, starts, ends, strict=True)):
        if number is None or start is None or end is None or index in reading.log.bad:
            continue
        if end < start:
            problem = f"ends before it begins at {start:g}"
            reading.log.error(index, "end_s", f"{end:g}", problem=problem, remedy="swap or drop")
            continue
        attempts.append(Attempt(JobId(job), number, start, end))
    return Attempts(tuple(attempts), reading.log.settle(on_fault))
