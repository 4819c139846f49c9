"""Slurm's accounts, as `weft trace import --help` shows how to ask sacct for them.

`-X` leaves the steps of a job out, `-P` separates by `|`. GPUs, or CPUs of a job without, are
counted from the TRES (`gres/gpu=8`, else all of `gres/gpu:a100=4`; `cpu=4`), the length is the time
that the job ran, and the tenant is its account.
"""

import re

from weft.model.request import Width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.times import read_span
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"JobID", "Submit", "Elapsed", "State", "AllocTRES"})
GPUS, TYPED_GPUS = re.compile(r"gres/gpu=(\d+)"), re.compile(r"gres/gpu:[^=,]+=(\d+)")
CPUS = re.compile(r"\bcpu=(\d+)")
STEP = re.compile(r"\d+\S*\.\S+")
NOTHING = Width.fixed(0)
LEAVE_STEPS = "leave steps out: sacct -X"


def translate(reading: Reading, options: Options) -> JobColumns:
    ids = reading.texts("JobID", missing="ask sacct for JobID")
    for index, name in enumerate(ids):
        if STEP.fullmatch(name):
            reading.log.error(index, "JobID", name, problem="is a step", remedy=LEAVE_STEPS)
    seconds = reading.parsed("Elapsed", read_span, missing="ask for Elapsed", remedy="[D-]HH:MM:SS")
    return JobColumns(
        ids=ids,
        submit_seconds=reading.moments("Submit", missing="ask sacct for Submit"),
        widths=[
            width or NOTHING
            for width in reading.parsed("AllocTRES", _width, remedy="write it as gres/gpu=4")
        ],
        works=works_of_seconds(reading, "Elapsed", seconds),
        tenants=reading.texts("Account") if reading.has("Account") else reading.texts("User"),
        more={"cpus": [_cpus(tres) for tres in reading.texts("AllocTRES")]},
        recorded={"status": reading.texts("State")},
    )


def _width(tres: str) -> Width:
    return Width.fixed(_gpus(tres))


def _gpus(tres: str) -> int:
    """Sites may count GPUs together, by type, or both; a part of them must not be read as none."""
    found = GPUS.search(tres)
    typed = [int(count) for count in TYPED_GPUS.findall(tres)]
    if found is None and not typed and "gres/gpu" in tres:
        raise ValueError("tells no number of GPUs")
    return int(found[1]) if found else sum(typed)


def _cpus(tres: str) -> float | None:
    found = CPUS.search(tres)
    return float(found[1]) if found and "gres/gpu" not in tres else None
