"""Which rows of Slurm's accounts are jobs that have ended.

Steps, jobs that were still running or waiting, jobs that never started and earlier runs of
requeued jobs are refused, each with its reason: none of them has the length of a job.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from weft.trace.reading import Reading

ENDED: Final = frozenset(
    {
        *("BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL"),
        *("OUT_OF_MEMORY", "PREEMPTED", "TIMEOUT"),
    }
)
UNFINISHED: Final = frozenset(
    {
        *("COMPLETING", "CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"),
        *("RESIZING", "RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT"),
        *("STOPPED", "SUSPENDED"),
    }
)
UNKNOWN_TIMES: Final = frozenset({"Unknown", "None", "N/A"})
STEP: Final = re.compile(r"\d+\S*\.\S+")
HETEROGENEOUS: Final = re.compile(r"\d+\+\d+")
#: Columns whose cells sacct ends in `+` where it cuts them off.
CUT_OFF: Final = ("JobID", "User", "Account", "Partition", "ReqTRES", "AllocTRES")
#: What rows of one job share; numbers of jobs are used again after some years.
JOB_KEY: Final = ("Cluster", "JobID", "User", "Account")
LEAVE_STEPS: Final = "leave steps out: sacct -X"
CUT_NOTHING: Final = "ask sacct with -P, which cuts nothing off"
ENDED_ONLY: Final = (
    "export it again when it has ended, or ask sacct for ended jobs: "
    "--state CD,F,CA,TO,NF,OOM,PR,DL,BF"
)
NEVER_STARTED: Final = "leave it out: it has no length"
LAST_ONLY: Final = "leave earlier runs out: sacct without --duplicates"


class Refusal(NamedTuple):
    """Why a row is no job, and what to do."""

    column: str
    value: str
    problem: str
    remedy: str


def refuse_rows(reading: Reading, seconds: Sequence[float | None]) -> list[int | None]:
    """Log rows that are no jobs that have ended; return how often each job was started."""
    columns = {name: reading.texts(name) for name in ("State", "End", *CUT_OFF)}
    reading.texts("JobID", missing="ask sacct for JobID")
    restarts = reading.wholes("Restarts")
    attempts = [None if count is None else count + 1 for count in restarts]
    last_runs = _last_runs(reading)
    for index in range(len(reading)):
        row = {name: cells[index].strip() for name, cells in columns.items()}
        last, runs = last_runs.get(index, (index, 1))
        if last == index:
            refusal = _refusal(row, seconds[index], has_end=reading.has("End"))
            attempts[index] = attempts[index] or (runs if runs > 1 else None)
        else:
            problem = f"is an earlier run of a job whose last run is row {reading.sheet.rows[last]}"
            refusal = Refusal("JobID", row["JobID"], problem, LAST_ONLY)
        _log(reading, index, row["JobID"], refusal)
    return attempts


def _log(reading: Reading, index: int, name: str, refusal: Refusal | None) -> None:
    if refusal is not None:
        column, value, problem, remedy = refusal
        reading.log.error(index, column, value, problem=problem, remedy=remedy)
    elif HETEROGENEOUS.fullmatch(name):
        problem = "is a component of a heterogeneous job, and counts as a job of its own"
        remedy = "leave such jobs out if their components must start together"
        reading.log.warn(index, "JobID", name, problem=problem, remedy=remedy)


def state_of(cell: str) -> str:
    """The state without what follows it: `CANCELLED by 1003`; a cut name in full where one fits."""
    word = cell.partition(" ")[0].upper()
    if not word.endswith("+"):
        return word
    fitting = [state for state in ENDED | UNFINISHED if state.startswith(word[:-1])]
    return fitting[0] if len(fitting) == 1 else word


def _refusal(row: Mapping[str, str], seconds: float | None, *, has_end: bool) -> Refusal | None:
    if STEP.fullmatch(row["JobID"]):
        return Refusal("JobID", row["JobID"], "is a step", LEAVE_STEPS)
    for column in CUT_OFF:
        if row[column].endswith("+"):
            return Refusal(column, row[column], "is cut off", CUT_NOTHING)
    return _unfinished(row, has_end=has_end) or _never_started(row, seconds)


def _unfinished(row: Mapping[str, str], *, has_end: bool) -> Refusal | None:
    state = state_of(row["State"])
    if state in UNFINISHED:
        problem = "had not ended when sacct was asked, so its length is not known"
        return Refusal("State", row["State"], problem, ENDED_ONLY)
    if state not in ENDED:
        problem = "is not a state in which a job has ended, so its length is not known"
        return Refusal("State", row["State"], problem, ENDED_ONLY)
    if has_end and (not row["End"] or row["End"] in UNKNOWN_TIMES):
        return Refusal("End", row["End"], "has no end, so its length is not known", ENDED_ONLY)
    return None


def _never_started(row: Mapping[str, str], seconds: float | None) -> Refusal | None:
    if row["AllocTRES"]:
        return None
    if not seconds:
        return Refusal("AllocTRES", "", "never started: no resources were allocated", NEVER_STARTED)
    return Refusal("AllocTRES", "", "is missing", "ask sacct for AllocTRES")


def _last_runs(reading: Reading) -> dict[int, tuple[int, int]]:
    """Of a job with rows for several runs, the last one and how many there are, by row.

    Rows that are submitted and started at the same time are one run written twice.
    """
    keys = zip(*(reading.texts(name) for name in JOB_KEY), strict=True)
    times = list(zip(reading.texts("Submit"), reading.texts("Start"), strict=True))
    by_job: dict[tuple[str, ...], list[int]] = {}
    for index, key in enumerate(keys):
        by_job.setdefault(key, []).append(index)
    last_runs: dict[int, tuple[int, int]] = {}
    for rows in by_job.values():
        runs = len({times[index] for index in rows})
        if runs > 1:
            last = max(rows, key=times.__getitem__)
            kept = [index for index in rows if times[index] == times[last]]
            last_runs |= {index: (index if index in kept else last, runs) for index in rows}
    return last_runs
