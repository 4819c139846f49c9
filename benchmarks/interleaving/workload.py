"""Jobs with stages: Muri's traces, as its simulator reads them or a cluster gets them, and others.

Generated jobs have stages of Muri's eight models, by a checksum of their names, at the measured
width nearest to their own.
"""

from dataclasses import replace
from pathlib import Path
from zlib import crc32

from benchmarks.conformance import DEFAULT_OVERHEAD_SECONDS, ITERATION_FACTOR
from benchmarks.elastic.workloads import generated as elastic_jobs
from benchmarks.interleaving.stages import Measured, measured
from weft.model.claim import StageClaim
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Locality, Width
from weft.model.stages import StageProfile
from weft.model.truth import Work
from weft.trace.generator import generate
from weft.trace.readers.muri import MuriRow, read_muri

GENERATED_SEED = 20


def replayed(traces: Path, name: str) -> tuple[list[Job], dict[JobId, float]]:
    """By the rules of Muri's simulator: lengths are known, and each job has a start overhead."""
    rows = _rows(traces, name)
    jobs = [_job(row, factor=ITERATION_FACTOR, locality=INDIFFERENT) for row in rows]
    starts = {row.job: row.start_seconds for row in rows}
    return jobs, {job: DEFAULT_OVERHEAD_SECONDS if s is None else s for job, s in starts.items()}


def ordinary(traces: Path, name: str) -> list[Job]:
    """As a cluster gets them: nobody tells how long they take, and being spread costs."""
    return [_job(row, locality=Locality(), tell_work=False) for row in _rows(traces, name)]


def generated(
    traces: Path,
    load: float,
    *,
    elastic: bool = False,
    seed: int = GENERATED_SEED,
    jobs: int = 2_000,
    gpus: int = 64,
) -> list[Job]:
    """Jobs like Philly's at that load; nobody tells how long they take, or how they scale."""
    if elastic:
        drawn = elastic_jobs(seed, load=load, jobs=jobs, gpus=gpus).jobs
    else:
        drawn = generate(jobs=jobs, seed=seed, load=load, gpus=gpus).jobs
    table = measured(traces)
    return [_with_stages(job, table) for job in drawn]


def _with_stages(job: Job, table: list[Measured]) -> Job:
    """The same job, untold, with the stages of one of the models."""
    gpus = max(job.width.asked_gpus, 1)
    width = min({row.gpus for row in table}, key=lambda one: (abs(one - gpus), one))
    models = [row.profile for row in table if row.gpus == width]
    stages = models[crc32(job.id.encode()) % len(models)]
    request = replace(
        job.request,
        work=None,
        curve=None if job.width.elastic else job.request.curve,
        stages=StageClaim(stages),
        shareable=True,
        saves_on_demand=True,
    )
    return Job(request, replace(job.truth, stages=stages, saves_on_demand=True))


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
        stages=_profile(row, factor),
    )


def _profile(row: MuriRow, factor: float) -> StageProfile | None:
    """An iteration alone takes longer by the same factor as all the work: speeds are ratios."""
    if row.profile is None:
        return None
    return replace(row.profile, iteration_seconds=row.profile.iteration_seconds * factor)
