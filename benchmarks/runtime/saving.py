"""Part c: a snapshot stops the loop for one copy; the agent writes it while training goes on.

Saves are ordered one by one in a job that trains. The loop stands still as long as the worker says
and, seen from outside, by what the step with the save takes longer than its neighbours. A snapshot
is durable when its checkpoint has its name. Beside it `torch.save` of the same state, which stops
the loop until it returns.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.row import Row, at_most, exactly, told
from benchmarks.runtime.figures import MS, held, in_ms, only_full, spread
from benchmarks.runtime.job import (
    FULL,
    JOBS,
    SHORT,
    Event,
    Job,
    Size,
    Step,
    outcome_of,
    running,
    say,
    scratch,
)
from benchmarks.runtime.switches import SETTLED_STEPS
from weft.model.errors import WorldError

SAVES, SHORT_SAVES = 15, 3
STEPS_BETWEEN = 8
BLOCK_BAR_MS = 60.0
REPORT_BAR_BYTES = 1024
LIMIT_SECONDS = 120.0
LOOK_SECONDS = 0.005
SHARED_MEMORY = "/dev/shm"
OUTER_FIELDS = ("event", "seconds", "worker", "at")


@dataclass(frozen=True, slots=True)
class Saved:
    """One snapshot: when it was sealed and when it was durable, and how long the loop stood."""

    step: int
    sealed: float
    durable: float
    blocked: float


@dataclass(frozen=True, slots=True)
class Saving:
    """All of them, the steps of the worker, and the sizes of its profiler's reports."""

    saves: list[Saved]
    steps: list[Step]
    report_bytes: list[int]


def rows(*, short: bool) -> Iterator[Row]:
    """The snapshots, then what stands beside them."""
    size, times = (SHORT, SHORT_SAVES) if short else (FULL, SAVES)
    with scratch() as folder:
        saving = measure_saves(folder / "job", size, times)
        yield exactly("c: snapshots that became checkpoints", len(saving.saves), "", times)
        yield from _saving_rows(saving, judged=not short)
        yield at_most(
            "c: the largest report of the stage profiler",
            max(saving.report_bytes, default=float("nan")),
            "bytes",
            REPORT_BAR_BYTES,
        )
        if short:
            yield from only_full("c", "beside torch.save")
            return
        yield from _torch_rows(files(folder, size, times, weft=False))


def measure_saves(folder: Path, size: Size, count: int) -> Saving:
    """Order so many, with undisturbed steps between."""
    say(f"{count} snapshots")
    vault = folder / "vault"
    with running(folder, size, agent=("--checkpoints", str(vault))) as job:
        job.steady(1)
        job.go_on(SETTLED_STEPS)
        saves = []
        for _ in range(count):
            saves.append(_save(job, vault))
            job.go_on(STEPS_BETWEEN)
        job.drain()
    return Saving(saves, [s for s in job.steps if s.stepped], _report_bytes(job))


def files(
    folder: Path, size: Size, times: int, *, weft: bool
) -> tuple[int, dict[str, list[float]]]:
    """Bytes of the state, and seconds of each deed of `jobs/files.py`."""
    say(f"{times} files{' of both kinds' if weft else ' by torch.save'}")
    disk = folder / "files"
    disk.mkdir()
    with TemporaryDirectory(prefix="weft-bench-", dir=SHARED_MEMORY) as slots:
        words = [str(JOBS / "files.py"), str(disk), slots, *size.words()]
        more = ["--times", str(times), *(["--weft"] if weft else [])]
        found = outcome_of([*words, *more], LIMIT_SECONDS)
    return found["bytes"], found["seconds"]


def _save(job: Job, vault: Path) -> Saved:
    known = len(job.events)
    job.order("save")
    event = job.until("a snapshot", lambda e: e["event"] == "saved", since=known)
    durable = _until_durable(vault, event)
    return Saved(event["step"], event["at"], durable, event["blocked_seconds"])


def _until_durable(vault: Path, event: Event) -> float:
    path = vault / f"step-{event['step']}.inc-1"
    deadline = time.monotonic() + LIMIT_SECONDS
    while not os.path.lexists(path):
        if time.monotonic() > deadline:
            raise WorldError(f"{path.name} did not become durable")
        time.sleep(LOOK_SECONDS)
    return time.monotonic()


def _report_bytes(job: Job) -> list[int]:
    """As they go over the wire."""
    found = []
    for event in job.named("stages"):
        report = {key: value for key, value in event.items() if key not in OUTER_FIELDS}
        found.append(len(json.dumps(report, separators=(",", ":"))))
    return found


def _saving_rows(saving: Saving, *, judged: bool) -> Iterator[Row]:
    calm = _calm(saving)
    blocked = in_ms([save.blocked for save in saving.saves])
    yield told("c: a step without a snapshot", MS * calm, "ms")
    yield held(
        "c: the loop stands still for a snapshot", blocked, "ms", BLOCK_BAR_MS, judged=judged
    )
    longer = [_step_behind(saving.steps, save).seconds - calm for save in saving.saves]
    yield spread("c: … the step that has it is longer by", in_ms(longer), "ms")
    durable = in_ms([save.durable - save.sealed for save in saving.saves])
    yield spread("c: … until it is durable", durable, "ms")
    busy = [s.seconds for s in saving.steps if _beside_writing(s, saving.saves)]
    slower = 100 * (median(busy) / calm - 1) if busy else None
    yield told("c: a step is longer while the agent writes by", slower, "%")


def _calm(saving: Saving) -> float:
    """The median step that has no snapshot and no writing beside it."""
    with_save = {save.step + 1 for save in saving.saves}
    steps = [
        step.seconds
        for step in saving.steps[SETTLED_STEPS // 2 :]
        if step.step not in with_save and not _meets_writing(step, saving.saves)
    ]
    return median(steps)


def _step_behind(steps: Sequence[Step], save: Saved) -> Step:
    """A snapshot is taken between two steps, and counted to the second."""
    return next(step for step in steps if step.step == save.step + 1)


def _beside_writing(step: Step, saves: Sequence[Saved]) -> bool:
    """Whether the agent wrote during all of it, and it had no snapshot itself."""
    return any(save.sealed <= step.began and step.ended <= save.durable for save in saves)


def _meets_writing(step: Step, saves: Sequence[Saved]) -> bool:
    return any(step.began < save.durable and save.sealed < step.ended for save in saves)


def _torch_rows(found: tuple[int, dict[str, list[float]]]) -> Iterator[Row]:
    size, seconds = found
    times = in_ms(seconds["torch.save"])
    yield spread(f"c: torch.save of {size / 1e6:,.1f} MB stops the loop for", times, "ms")
