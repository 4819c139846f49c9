"""A workload: jobs in the order of their submission, and what was found wrong on the way.

Readers differ in what their columns are called and counted in; from typed columns on they are
all the same, so identity, order and the model's own rules are checked here, once.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from weft.model.errors import SpecError
from weft.model.ids import DEFAULT_TENANT, JobId, TenantId
from weft.model.job import Job
from weft.model.request import Width, WorkUnit
from weft.model.truth import Work
from weft.trace.bounds import MOST_SECONDS
from weft.trace.faults import InputFault, OnFault
from weft.trace.reading import Reading

DURATION_REMEDY = "write it, or give --duration MODEL=SECONDS for its model"
#: First words of a status that a job has before its end, in lower case.
UNFINISHED: Final = frozenset(
    {
        *("pending", "queued", "waiting", "running", "suspended", "stopped", "resizing"),
        *("requeued", "configuring", "completing", "started"),
    }
)
TIMES_REMEDY = "check the unit of its times, its samples and its curve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """What a file tells of a job beyond what it asks for: how it fared where it really ran.

    A simulation does not follow it; it is kept for comparisons.
    """

    status: str = ""
    failure_reason: str = ""
    attempts: int | None = None
    queue_seconds: float | None = None
    deadline_seconds: float | None = None
    user: str = ""
    partition: str = ""
    #: Names of types, separated by `|` as in the column `gpu_types`.
    allocated_gpu_types: str = ""


NOTHING_RECORDED = Recorded()


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """Jobs by submission, then file order; `recorded` tells how some of them really fared."""

    name: str
    jobs: tuple[Job, ...]
    faults: tuple[InputFault, ...] = ()
    source: str = ""
    notes: tuple[str, ...] = ()
    recorded: Mapping[JobId, Recorded] = field(default_factory=dict)

    @property
    def gpu_seconds(self) -> float:
        """Work of all jobs that count it in seconds, at the widths they asked for."""
        return sum(
            job.work.amount * job.width.asked_gpus
            for job in self.jobs
            if job.work.unit is WorkUnit.SECONDS
        )

    @property
    def span_seconds(self) -> float:
        """From the first submission to the last."""
        return self.jobs[-1].submit_seconds - self.jobs[0].submit_seconds if self.jobs else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobColumns:
    """Typed columns of a file, in its order. `more` holds other words of `Job.told`."""

    ids: Sequence[str]
    submit_seconds: Sequence[float | None]
    widths: Sequence[Width | None]
    works: Sequence[Work | None]
    tenants: Sequence[str] = ()
    more: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    recorded: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def works_of_seconds(
    reading: Reading,
    column: str,
    seconds: Sequence[float | None],
    *,
    models: Sequence[str] = (),
    durations: Mapping[str, float] | None = None,
    instead: Sequence[Work | None] = (),
) -> list[Work | None]:
    """Work from durations; where the file has none, `instead`, or the given seconds by model."""
    cells = reading.texts(column)
    works: list[Work | None] = []
    for index, stated in enumerate(seconds):
        amount = stated
        if amount is None and instead and instead[index] is not None:
            works.append(instead[index])
            continue
        if amount is None and not cells[index].strip():
            amount = durations.get(models[index]) if durations and models else None
            if amount is None and index not in reading.sheet.ragged:
                model = f" for model '{models[index]}'" if models and models[index] else ""
                problem = f"duration unknown{model}"
                reading.log.error(index, column, "", problem=problem, remedy=DURATION_REMEDY)
        elif amount == 0 and index not in reading.log.bad:
            remedy = "leave it out if it never ran"
            reading.log.warn(index, column, "0", problem="ends as it starts", remedy=remedy)
        works.append(None if amount is None else Work(amount))
    return works


def assemble(reading: Reading, columns: JobColumns, on_fault: OnFault) -> Workload:
    """The workload of a read file; rows in error stop it or stay out, as `on_fault` says."""
    _check_ids(reading, columns.ids)
    _check_tenants(reading, columns.tenants)
    _check_order(reading, columns.submit_seconds)
    _check_ended(reading, columns)
    jobs = _jobs(reading, columns)
    faults = reading.log.settle(on_fault)
    return Workload(
        name=reading.sheet.name,
        jobs=tuple(sorted(jobs.values(), key=lambda job: job.submit_seconds)),
        faults=faults,
        source=str(reading.sheet.path),
        notes=columns.notes,
        recorded=_recorded(columns.recorded, jobs),
    )


def _jobs(reading: Reading, columns: JobColumns) -> dict[int, Job]:
    tenants = columns.tenants or [""] * len(reading)
    more = {name: cells for name, cells in columns.more.items() if _tells(cells)}
    jobs: dict[int, Job] = {}
    rows = zip(columns.ids, columns.submit_seconds, columns.widths, columns.works, strict=True)
    for index, (name, submit, width, work) in enumerate(rows):
        if index in reading.log.bad or submit is None or width is None or work is None:
            continue
        given = {key: cells[index] for key, cells in more.items() if cells[index] is not None}
        try:
            job = Job.told(
                id=JobId(name),
                width=width,
                work=work,
                submit_seconds=submit,
                tenant=TenantId(tenants[index]) if tenants[index] else DEFAULT_TENANT,
                **given,
            )
        except SpecError as error:
            reading.log.error(index, "", name, problem=str(error), remedy=error.hint)
            continue
        if _beyond_time(reading, index, job):
            continue
        jobs[index] = job
        if width.max_gpus == 0:
            reading.log.warn(
                index, "gpus", "0", problem="asks for CPUs only", remedy="leave it out if unwanted"
            )
    return jobs


def _beyond_time(reading: Reading, index: int, job: Job) -> bool:
    """Whether it comes or lasts too long for any clock, whatever its format counts in."""
    times = {"comes after": job.submit_seconds, "takes": job.truth.seconds_as_asked}
    for verb, seconds in times.items():
        if seconds > MOST_SECONDS:
            problem = f"{verb} {seconds:g} seconds, and {MOST_SECONDS:,.0f} are the most"
            reading.log.error(index, "", job.id, problem=problem, remedy=TIMES_REMEDY)
            return True
    return False


def _check_ids(reading: Reading, ids: Sequence[str]) -> None:
    if len(set(ids)) == len(ids):
        return
    first: dict[str, int] = {}
    for index, name in enumerate(ids):
        if name in first:
            problem = f"this id stands in row {reading.sheet.rows[first[name]]} already"
            remedy = "give every job its own id"
            reading.log.error(index, "", name, problem=problem, remedy=remedy)
        elif name:
            first[name] = index


def _check_tenants(reading: Reading, tenants: Sequence[str]) -> None:
    if not any(tenants) or all(tenants):
        return
    for index, tenant in enumerate(tenants):
        if not tenant:
            problem = f"is missing: the job counts as tenant '{DEFAULT_TENANT}'"
            reading.log.warn(index, "tenant", "", problem=problem, remedy="name its tenant")


def is_unfinished(status: str) -> bool:
    """Whether a status is one that a job has before its end."""
    return status.strip().partition(" ")[0].lower() in UNFINISHED


def _check_ended(reading: Reading, columns: JobColumns) -> None:
    """The length of a job that had not ended is a lower bound."""
    statuses = columns.recorded.get("status", ())
    for index, (status, work) in enumerate(zip(statuses, columns.works, strict=False)):
        if not is_unfinished(status) or work is None or index in reading.log.bad:
            continue
        problem = "had not ended when this was written: its length so far counts as its whole one"
        remedy = "leave it out, or write its whole length"
        reading.log.warn(index, "status", status, problem=problem, remedy=remedy)


def _check_order(reading: Reading, submits: Sequence[float | None]) -> None:
    if not submits:
        reading.log.inform("", problem="holds no job", remedy="check that it is the right file")
    latest = float("-inf")
    late = 0
    for submit in submits:
        if submit is not None and submit < latest:
            late += 1
        elif submit is not None:
            latest = submit
    if late:
        reading.log.inform(
            "submit_seconds",
            problem=f"{late:,} {'row stands' if late == 1 else 'rows stand'} after a later "
            "submission; jobs are taken by time",
            remedy="none needed; sort the file if its order was meant",
        )


def _recorded(
    columns: Mapping[str, Sequence[Any]], jobs: Mapping[int, Job]
) -> dict[JobId, Recorded]:
    told = {name: cells for name, cells in columns.items() if _tells(cells)}
    recorded: dict[JobId, Recorded] = {}
    for index, job in jobs.items():
        if any(_told(cells[index]) for cells in told.values()):
            recorded[job.id] = Recorded(**{name: cells[index] for name, cells in told.items()})
    return recorded


def _tells(cells: Sequence[Any]) -> bool:
    """Whether any cell of the column is told; counted by the list itself, for most are empty."""
    return cells.count(None) + cells.count("") < len(cells)


def _told(cell: object) -> bool:
    return cell is not None and cell != ""
