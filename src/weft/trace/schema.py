"""The job table: one schema for every workload that Weft writes, and for a cluster's own logs.

One row is one job. A file needs `job_id`, `submit_seconds`, `gpus` and one of `duration_seconds`
and `samples`; every other column may be absent, and an empty cell takes the default of `Job.told`.
Times count in seconds from the start of the workload, durations are work at the asked width.
The last columns are not what a job asks for but how it fared; they become `Recorded`.
The version rises when a column changes its meaning, not when one is added.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any, NamedTuple

from weft.model.errors import SpecError
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import JobRequest, Width, WorkUnit
from weft.model.truth import JobTruth, Work
from weft.trace.cells import (
    write_cell,
    write_curve,
    write_gpu_types,
    write_plans,
    write_stages,
    write_width,
)
from weft.trace.workload import NOTHING_RECORDED, Recorded, Workload

SCHEMA_VERSION = 1


class Kind(StrEnum):
    """What a column holds; `CODED` cells follow the notation of `cells`."""

    TEXT = "text"
    NUMBER = "number"
    WHOLE = "whole number"
    FLAG = "true or false"
    CODED = "notation"


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, what it holds, the value it becomes and its meaning.

    A number is at least `least`. `always` columns are written even where all have the default.
    """

    name: str
    kind: Kind
    becomes: str
    meaning: str
    always: bool = False
    least: float = 0.0


class Row(NamedTuple):
    """One row's values, as a column's `becomes` names them."""

    request: JobRequest
    truth: JobTruth
    recorded: Recorded

    @classmethod
    def of(cls, job: Job, recorded: Recorded = NOTHING_RECORDED) -> "Row":
        return cls(job.request, job.truth, recorded)


COLUMNS: tuple[Column, ...] = (
    Column("job_id", Kind.TEXT, "request.id", "unique name", always=True),
    Column("tenant", Kind.TEXT, "request.tenant", "who pays: team, virtual cluster", always=True),
    Column("queue", Kind.TEXT, "request.queue", "the queue it waits in", always=True),
    Column("submit_seconds", Kind.NUMBER, "request.submit_seconds", "when it came", always=True),
    Column(
        "duration_seconds", Kind.NUMBER, "truth.work", "seconds at the asked width", always=True
    ),
    Column("samples", Kind.NUMBER, "truth.work", "instead of seconds; needs a curve"),
    Column("work_known", Kind.FLAG, "request.work", "whether the request tells it"),
    Column("gpus", Kind.CODED, "request.width", "GPUs, or min..max", always=True),
    Column("asked_gpus", Kind.WHOLE, "request.width.asked_gpus", "within min..max; empty: the max"),
    Column("cpus", Kind.NUMBER, "request.cpus", "CPUs of a job without GPUs"),
    Column("cpus_per_gpu", Kind.NUMBER, "request.cpus_per_gpu", "CPUs beside each GPU"),
    Column("memory_gib", Kind.NUMBER, "request.memory_gib", "host memory of a job without GPUs"),
    Column("memory_gib_per_gpu", Kind.NUMBER, "request.memory_gib_per_gpu", "beside each GPU"),
    Column("gpu_types", Kind.CODED, "request.gpu_types", "with speeds, V100|A100:1.8; empty: any"),
    Column("max_nodes", Kind.WHOLE, "request.max_nodes", "most nodes to be spread over", least=1.0),
    Column(
        "node_doubling_slowdown",
        Kind.NUMBER,
        "request.locality.per_node_doubling",
        "slowdown per doubling of its nodes",
    ),
    Column(
        "rack_doubling_slowdown",
        Kind.NUMBER,
        "request.locality.per_rack_doubling",
        "slowdown per doubling of its racks",
    ),
    Column("curve", Kind.CODED, "truth.curve", "samples/s by width, 1:100|2:190"),
    Column("curve_known", Kind.FLAG, "request.curve", "whether the request tells it"),
    Column(
        "stages",
        Kind.CODED,
        "truth.stages",
        "seconds by stage of an iteration alone, iteration:1|storage:0.3|gpu:0.6|memory:8",
    ),
    Column("plans", Kind.CODED, "request.plans", "data=4 tensor=2|recompute; empty: as written"),
    Column("priority", Kind.WHOLE, "request.priority", "higher goes first", least=-1e9),
    Column("preemptible", Kind.FLAG, "request.preemptible", "may be stopped for another"),
    Column("shareable", Kind.FLAG, "request.shareable", "may be interleaved with others"),
    Column(
        "checkpoint_interval_seconds",
        Kind.NUMBER,
        "request.checkpoint_interval_seconds",
        "training between two checkpoints",
    ),
    Column(
        "saves_on_demand",
        Kind.FLAG,
        "request.saves_on_demand",
        "saves when it is told to stop; empty: if it has a range of GPUs",
    ),
    Column("max_retries", Kind.WHOLE, "request.max_retries", "restarts after failures"),
    Column("model", Kind.TEXT, "request.model", "what it trains"),
    Column("status", Kind.TEXT, "recorded.status", "how it ended"),
    Column("failure_reason", Kind.TEXT, "recorded.failure_reason", "why it failed"),
    Column("attempts", Kind.WHOLE, "recorded.attempts", "times it was started"),
    Column("queue_seconds", Kind.NUMBER, "recorded.queue_seconds", "wait for its first start"),
    Column("deadline_seconds", Kind.NUMBER, "recorded.deadline_seconds", "when it was due"),
    Column("user", Kind.TEXT, "recorded.user", "the user who submitted it"),
    Column("partition", Kind.TEXT, "recorded.partition", "the partition in which it ran"),
    Column(
        "allocated_gpu_types",
        Kind.TEXT,
        "recorded.allocated_gpu_types",
        "the GPU types on which it ran, a100|h100",
    ),
    Column("schema_version", Kind.WHOLE, "", "this schema's version", always=True),
)

REQUIRED: frozenset[str] = frozenset({"job_id", "submit_seconds", "gpus"})
NAMES: frozenset[str] = frozenset({"job_id", "tenant", "queue"})
_PLAIN = Row.of(Job.told(id=JobId("job"), width=Width.fixed(1), work=Work(0.0)))


def tabulate(workload: Workload) -> dict[str, Sequence[str]]:
    """Cells by column; columns in which every job has the default are left out."""
    recorded = workload.recorded
    rows = [Row.of(job, recorded.get(job.id, NOTHING_RECORDED)) for job in workload.jobs]
    table: dict[str, Sequence[str]] = {}
    for column in COLUMNS:
        write = _writer(column)
        cells = [write(row) for row in rows]
        if column.always or any(cell != write(_PLAIN) for cell in set(cells)):
            table[column.name] = cells
    return table


def describe() -> str:
    """The schema as a Markdown table, for the reference."""
    lines = ["| column | holds | becomes | meaning |", "|---|---|---|---|"]
    for column in COLUMNS:
        meaning = column.meaning.replace("|", "\\|")
        becomes = f"`{column.becomes}`" if column.becomes else ""
        lines.append(f"| `{column.name}` | {column.kind} | {becomes} | {meaning} |")
    return "\n".join(lines) + "\n"


def _writer(column: Column) -> Callable[[Row], str]:
    special = _SPECIAL.get(column.name)
    if special is not None:
        return special
    value = attrgetter(column.becomes)
    if column.name in NAMES:
        return lambda row: _name(value(row))
    write = _CODES.get(column.name, _line if column.kind is Kind.TEXT else write_cell)
    return lambda row: write(value(row))


def _amount(work: Work, unit: WorkUnit) -> str:
    return write_cell(work.amount) if work.unit is unit else ""


def _asked(width: Width) -> str:
    return "" if width.asked_gpus == width.max_gpus else str(width.asked_gpus)


def _saves(request: JobRequest) -> str:
    by_default = request.saves_on_demand is request.width.elastic
    return "" if by_default else write_cell(request.saves_on_demand)


def _name(text: str) -> str:
    if not text:
        raise SpecError("a name is empty", hint="name every job, tenant and queue")
    return _line(text)


def _line(text: str) -> str:
    if any(sign in text for sign in "\r\n\0"):
        raise SpecError(f"{text!r} does not fit on a line", hint="take line breaks out of names")
    return text


_CODES: Mapping[str, Callable[[Any], str]] = {
    "gpus": write_width,
    "gpu_types": write_gpu_types,
    "curve": write_curve,
    "plans": write_plans,
    "stages": write_stages,
}
_SPECIAL: Mapping[str, Callable[[Row], str]] = {
    "duration_seconds": lambda row: _amount(row.truth.work, WorkUnit.SECONDS),
    "samples": lambda row: _amount(row.truth.work, WorkUnit.SAMPLES),
    "work_known": lambda row: write_cell(row.request.work is not None),
    "curve_known": lambda row: write_cell(row.truth.curve is None or row.request.curve is not None),
    "saves_on_demand": lambda row: _saves(row.request),
    "asked_gpus": lambda row: _asked(row.request.width),
    "schema_version": lambda _: str(SCHEMA_VERSION),
}
