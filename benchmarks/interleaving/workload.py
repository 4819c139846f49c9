"""Muri's traces as jobs with stages: as its simulator reads them, or as a cluster gets them."""

from pathlib import Path

from benchmarks.conformance import DEFAULT_OVERHEAD_SECONDS, ITERATION_FACTOR
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Locality, Width
from weft.model.truth import Work
from weft.trace.readers.muri import MuriRow, read_muri


def replayed(traces: Path, name: str) -> tuple[list[Job], dict[JobId, float]]:
    """By the rules of Muri's simulator: lengths are known, and each job has a start overhead."""
    rows = _rows(traces, name)
    jobs = [_job(row, factor=ITERATION_FACTOR, locality=INDIFFERENT) for row in rows]
    starts = {row.job: row.start_seconds for row in rows}
    return jobs, {job: DEFAULT_OVERHEAD_SECONDS if s is None else s for job, s in starts.items()}


def ordinary(traces: Path, name: str) -> list[Job]:
    """As a cluster gets them: nobody tells how long they take, and being spread costs."""
    return [_job(row, locality=Locality(), tell_work=False) for row in _rows(traces, name)]


def _rows(traces: Path, name: str) -> tuple[MuriRow, ...]:
    folder = traces / "muri"
    overheads = folder / "start_overheads.csv"
    return tuple(read_muri(folder / f"{name}.csv", start_overheads=overheads, on_fault="skip").rows)


def _job(row: MuriRow, *, locality: Locality, factor: float = 1.0, tell_work: bool = True) -> Job:
    return Job.told(
        id=row.job,
        width=Width.fixed(row.gpus),
        work=Work(row.iterations * row.iteration_seconds * factor),
        submit_seconds=row.submit_seconds,
        locality=locality,
        saves_on_demand=True,
        shareable=True,
        tell_work=tell_work,
        stages=row.profile,
    )
