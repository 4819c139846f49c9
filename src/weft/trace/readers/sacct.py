"""Slurm's accounts, as `weft trace import --help` shows how to ask sacct for them.

`-X` leaves the steps of a job out, `-P` separates by `|`. GPUs, CPUs and memory come from
AllocTRES, the length is the time that the job ran, and the tenant is its account. The wait from
Submit to Start, the user, the partition and the GPU types that were allocated are recorded. A GPU
type that ReqTRES names is one that the job asked for.

Only a job that has ended has a length. A row of any other state is refused, because the time for
which a running job has run so far looks like the length of a finished one.
"""

from collections.abc import Sequence
from typing import Final

from weft.model.ids import GpuType
from weft.model.request import GpuSpeed, Width
from weft.trace.readers.listing import per_gpu, without_gpus
from weft.trace.readers.options import Options
from weft.trace.readers.slurm_rows import UNKNOWN_TIMES, refuse_rows
from weft.trace.readers.slurm_tres import Tres, read_tres
from weft.trace.reading import Reading
from weft.trace.times import read_span
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"JobID", "Submit", "Elapsed", "State", "AllocTRES"})
#: What an export without the column does not tell.
OPTIONAL: Final = {
    "User": "users",
    "Account": "tenants",
    "Partition": "partitions",
    "Start": "waits",
    "ReqTRES": "requested GPU types",
}
WHOLE_GPUS: Final = "leave it out: a job of a simulation holds whole GPUs"
EMPTY: Final = Tres()
TYPES_LISTED = 5


def translate(reading: Reading, options: Options) -> JobColumns:
    seconds = reading.parsed("Elapsed", read_span, missing="ask for Elapsed", remedy="[D-]HH:MM:SS")
    attempts = refuse_rows(reading, seconds)
    names = reading.texts("JobID")
    submits = reading.instants("Submit", missing="ask sacct for Submit")
    given = reading.parsed("AllocTRES", read_tres, remedy=WHOLE_GPUS)
    held = [tres or EMPTY for tres in given]
    widths = [Width.fixed(tres.gpus) for tres in held]
    cpus = [tres.cpus for tres in held]
    memory = [tres.memory_gib for tres in held]
    _tell_absent_columns(reading)
    _tell_other_resources(reading, held)
    return JobColumns(
        ids=["" if index in reading.log.bad else name for index, name in enumerate(names)],
        submit_seconds=reading.since_first("Submit", submits),
        widths=widths,
        works=works_of_seconds(reading, "Elapsed", seconds),
        tenants=_tenants(reading),
        more={
            "cpus": without_gpus(cpus, widths),
            "cpus_per_gpu": per_gpu(cpus, widths),
            "memory_gib": without_gpus(memory, widths),
            "memory_gib_per_gpu": per_gpu(memory, widths),
            "gpu_types": _requested_types(reading),
        },
        recorded={
            "status": reading.texts("State"),
            "attempts": attempts,
            "queue_seconds": _waits(reading, submits),
            "user": reading.texts("User"),
            "partition": reading.texts("Partition"),
            "allocated_gpu_types": ["|".join(tres.types) for tres in held],
        },
    )


def _tenants(reading: Reading) -> Sequence[str]:
    """Accounts; users at a site that has none."""
    accounts = reading.texts("Account")
    return accounts if any(accounts) else reading.texts("User")


def _waits(reading: Reading, submits: Sequence[float | None]) -> list[float | None]:
    """Seconds from the submission to the start, where both are known."""
    starts = reading.instants("Start", unknown=UNKNOWN_TIMES)
    waits: list[float | None] = []
    for index, (submit, start) in enumerate(zip(submits, starts, strict=True)):
        wait = None if submit is None or start is None else start - submit
        if wait is not None and wait < 0 and index not in reading.log.bad:
            value = reading.sheet.columns["Start"][index]
            problem = "lies before the submission, so the wait of the job is left out"
            remedy = "none; a clock that was set back does this"
            reading.log.warn(index, "Start", value, problem=problem, remedy=remedy)
        waits.append(None if wait is None or wait < 0 else wait)
    return waits


def _requested_types(reading: Reading) -> list[tuple[GpuSpeed, ...] | None]:
    """The GPU type that a job names in its request."""
    asked = reading.parsed("ReqTRES", read_tres, remedy=WHOLE_GPUS)
    types: list[tuple[GpuSpeed, ...] | None] = [None] * len(asked)
    for index, tres in enumerate(asked):
        if tres is None or not tres.types or index in reading.log.bad:
            continue
        if tres.all_typed and len(tres.types) == 1:
            types[index] = (GpuSpeed(GpuType(tres.types[0])),)
            continue
        problem = f"requests {' and '.join(tres.types)} for parts of its GPUs: no type is kept"
        remedy = "none; a job of a simulation runs on GPUs of one type"
        value = reading.sheet.columns["ReqTRES"][index]
        reading.log.warn(index, "ReqTRES", value, problem=problem, remedy=remedy)
    _tell_requested_types(reading, types)
    return types


def _tell_requested_types(reading: Reading, types: Sequence[tuple[GpuSpeed, ...] | None]) -> None:
    names = sorted({str(one.type) for accepted in types for one in accepted or ()})
    if not names:
        return
    jobs = len(types) - types.count(None)
    listed = ", ".join(names[:TYPES_LISTED] + ["…"] * (len(names) > TYPES_LISTED))
    counted = "1 job requests" if jobs == 1 else f"{jobs:,} jobs request"
    problem = f"{counted} a GPU type ({listed}) and can use no other"
    remedy = (
        "none needed if the cluster's nodes have these types by these names; otherwise read the "
        "imported table with --column gpu_types="
    )
    reading.log.inform("ReqTRES", problem=problem, remedy=remedy)


def _tell_absent_columns(reading: Reading) -> None:
    absent = {name: held for name, held in OPTIONAL.items() if not reading.has(name)}
    if absent:
        problem = f"has no {', '.join(absent)}: {', '.join(absent.values())} are not known"
        remedy = f"none needed to simulate; sacct -o {','.join(absent)} exports them"
        reading.log.inform("", problem=problem, remedy=remedy)


def _tell_other_resources(reading: Reading, held: Sequence[Tres]) -> None:
    """Accelerators of another kind would make a job one of CPUs only."""
    for index, tres in enumerate(held):
        if tres.others and index not in reading.log.bad:
            problem = f"holds {', '.join(tres.others)}, which is left out"
            value = reading.sheet.columns["AllocTRES"][index]
            remedy = "none if these are no GPUs; otherwise map the column with their number to gpus"
            reading.log.warn(index, "AllocTRES", value, problem=problem, remedy=remedy)
