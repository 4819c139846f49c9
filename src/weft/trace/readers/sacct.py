"""Slurm's accounts, as `weft trace import --help` shows how to ask sacct for them.

`-X` leaves the steps of a job out, `-P` separates by `|`. GPUs, or CPUs of a job without, are
counted from the TRES (`gres/gpu=8`, `cpu=4`), the length is the time that the job ran, and the
tenant is its account.
"""

import re

from weft.model.request import Width
from weft.trace.readers.options import Options
from weft.trace.reading import Reading
from weft.trace.times import read_span
from weft.trace.workload import JobColumns, works_of_seconds

COLUMNS = frozenset({"JobID", "Submit", "Elapsed", "State", "AllocTRES"})
GPUS, CPUS = re.compile(r"gres/gpu=(\d+)"), re.compile(r"\bcpu=(\d+)")
STEP = re.compile(r"\d+\S*\.\S+")
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
        widths=[_width(tres) for tres in reading.texts("AllocTRES")],
        works=works_of_seconds(reading, "Elapsed", seconds),
        tenants=reading.texts("Account") if reading.has("Account") else reading.texts("User"),
        more={"cpus": [_cpus(tres) for tres in reading.texts("AllocTRES")]},
        recorded={"status": reading.texts("State")},
    )


def _width(tres: str) -> Width:
    found = GPUS.search(tres)
    return Width.fixed(int(found[1]) if found else 0)


def _cpus(tres: str) -> float | None:
    found = CPUS.search(tres)
    return float(found[1]) if found and not GPUS.search(tres) else None
