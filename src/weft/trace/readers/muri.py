"""Muri's traces: iterations, iteration time and stage times of every job, in milliseconds.

The work of a job is iterations × iteration time: that is what its simulator and testbed run. The
`duration` beside it is where the row came from and often says something else; rows that disagree
by more than 5 % are reported and used as they stand. The `priority` column is a coin flip for one
baseline, so it stays in `MuriRow` and does not become the job's priority.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.model.ids import JobId
from weft.model.request import Width
from weft.model.stages import StageProfile
from weft.model.truth import Work
from weft.trace.faults import OnFault
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.sheet import load
from weft.trace.workload import JobColumns, Workload, assemble

STAGES = ("resource_time_0", "resource_time_1", "resource_time_2")
COLUMNS = frozenset({"job_id", "num_gpu", "submit_time", "iterations", "iteration_time", *STAGES})
MS_PER_SECOND = 1000.0
DISAGREEMENT = 0.05
ROUNDING = 1e-9  # milliseconds became seconds: a row at exactly the limit stays within it
LEAST_STAGE_SHARE = 0.5
# What the authors' simulator charges a model and width that it has no measurement of.
UNMEASURED_START_SECONDS = 10.0

StartOverheads = Mapping[tuple[str, int], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class MuriRow:
    """A row in seconds; `stage_seconds` are data loading, GPU and network of one iteration.

    `stated_seconds` is the duration column; `start_seconds` is None where no table was given.
    """

    job: JobId
    gpus: int
    submit_seconds: float
    iterations: int
    iteration_seconds: float
    stage_seconds: tuple[float, ...]
    model: str
    batch_size: int | None
    stated_seconds: float
    priority: int | None
    start_seconds: float | None = None

    @property
    def work_seconds(self) -> float:
        return self.iterations * self.iteration_seconds

    @property
    def profile(self) -> StageProfile | None:
        """Storage and CPU are one stage here; nothing is known of an iteration of no length."""
        if self.iteration_seconds <= 0:
            return None
        loading, gpu, network = self.stage_seconds
        return StageProfile(
            iteration_seconds=self.iteration_seconds,
            loading_seconds=loading,
            gpu_seconds=gpu,
            network_seconds=network,
        )


@dataclass(frozen=True, slots=True)
class MuriTrace:
    """The workload, and its rows in the order of its jobs."""

    rows: tuple[MuriRow, ...]
    workload: Workload


def read_muri(
    path: Path, *, start_overheads: Path | None = None, on_fault: OnFault = "raise"
) -> MuriTrace:
    """A trace with what a conformance run needs besides the jobs."""
    reading = Reading(load(path))
    starts = read_start_overheads(start_overheads) if start_overheads else None
    rows = _rows(reading, starts)
    workload = assemble(reading, _columns(reading, rows), on_fault)
    by_id = {row.job: row for row in rows if row is not None}
    return MuriTrace(tuple(by_id[job.id] for job in workload.jobs), workload)


def read_start_overheads(path: Path) -> dict[tuple[str, int], float]:
    """Seconds to start a model on a number of GPUs; a table with a fault is refused."""
    reading = Reading(load(path))
    models = reading.texts("model_name", missing="name the model")
    gpus = reading.wholes("num_gpu", least=1, missing="write its GPUs")
    seconds = reading.numbers("start_overhead_seconds", missing="write seconds")
    reading.log.settle("raise")
    return {
        (model, width): start
        for model, width, start in zip(models, gpus, seconds, strict=True)
        if width is not None and start is not None
    }


def translate(reading: Reading, options: Options) -> JobColumns:
    del options  # a Muri trace says everything
    return _columns(reading, _rows(reading, None))


def _columns(reading: Reading, rows: Sequence[MuriRow | None]) -> JobColumns:
    return JobColumns(
        ids=reading.texts("job_id", missing="name every job"),
        submit_seconds=[None if row is None else row.submit_seconds for row in rows],
        widths=[None if row is None else Width.fixed(row.gpus) for row in rows],
        works=[None if row is None else Work(row.work_seconds) for row in rows],
        more={
            "model": reading.texts("model_name"),
            "shareable": [True] * len(rows),
            "stages": [None if row is None else row.profile for row in rows],
        },
        notes=("work is iterations × iteration time, not the stated duration",),
    )


def _rows(reading: Reading, starts: StartOverheads | None) -> list[MuriRow | None]:
    ids = reading.texts("job_id")
    models = reading.texts("model_name")
    gpus = reading.wholes("num_gpu", least=1, missing="write its GPUs")
    submits = _milliseconds(reading, "submit_time")
    iterations = reading.wholes("iterations", missing="write its iterations")
    each = _milliseconds(reading, "iteration_time")
    stages = [_milliseconds(reading, stage) for stage in STAGES]
    stated = _milliseconds(reading, "duration")
    batches = reading.wholes("batch_size")
    priorities = reading.wholes("priority")
    rows: list[MuriRow | None] = []
    for index in range(len(reading)):
        if index in reading.log.bad:
            rows.append(None)
            continue
        row = MuriRow(
            job=JobId(ids[index]),
            gpus=gpus[index] or 0,
            submit_seconds=submits[index] or 0.0,
            iterations=iterations[index] or 0,
            iteration_seconds=each[index] or 0.0,
            stage_seconds=tuple(stage[index] or 0.0 for stage in stages),
            model=models[index],
            batch_size=batches[index],
            stated_seconds=stated[index] or 0.0,
            priority=priorities[index],
            start_seconds=None
            if starts is None
            else starts.get((models[index], gpus[index] or 0), UNMEASURED_START_SECONDS),
        )
        _check(reading, index, row)
        rows.append(row)
    return rows


def _milliseconds(reading: Reading, column: str) -> list[float | None]:
    return reading.numbers(
        column, per=MS_PER_SECOND, missing="write milliseconds", remedy="write milliseconds"
    )


def _check(reading: Reading, index: int, row: MuriRow) -> None:
    work, stated = row.work_seconds, row.stated_seconds
    if abs(work - stated) > DISAGREEMENT * stated * (1 + ROUNDING):
        reading.log.warn(
            index,
            "duration",
            f"{stated:g} s",
            problem=f"iterations × iteration time is {work:g} s",
            remedy="the iterations count; mend the row if the duration is right",
        )
    stages = sum(row.stage_seconds)
    if stages < LEAST_STAGE_SHARE * row.iteration_seconds:
        reading.log.warn(
            index,
            "iteration_time",
            f"{row.iteration_seconds:g} s",
            problem=f"the stages of an iteration add up to {stages:g} s only",
            remedy="measure its stages again before interleaving it",
        )
