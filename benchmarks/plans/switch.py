"""Switch: how long a real job stands still when it goes to another plan while it trains.

A language model with 150 MB of state (weights and moments, fp32) on two workers goes through
replicas, tensors, FSDP2, FSDP2 over tensors on four, and two stages: first with the new workers
warmed beside the old ones, then with the old ones stopped first, as where there is no memory for
both. Standing still is the time between the last step under one plan and the first under the next,
without that of a usual step.
"""

import json
import statistics
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from benchmarks.row import Row, at_most, clocked, exactly, told
from benchmarks.runtime.job import say
from tests.train.driving import Driven, driven
from tests.train.lines import check_each_once

MOST_SECONDS = 3.0
STAGES = "pipeline=2,micro_batches=2"
CYCLE = ("tensor=2", "shard=2", "shard=2,tensor=2 4", f"{STAGES} 2", "replicated")
SIZES = ("--width", "384", "--layers", "7", "--context", "16", "--batch", "4", "--sizes")
SAMPLES = 160


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """The cycle, both ways."""
    for how, word in (("beside", ""), ("stopped first", " stop")):
        with tempfile.TemporaryDirectory() as folder:
            yield from _cycle(Path(folder), how, word, short=short)
        if short:
            return


def _cycle(folder: Path, how: str, word: str, *, short: bool) -> Iterator[Row]:
    with driven(folder, "plans.py", "--total", "100000", *SIZES, agent=("-n", "2")) as job:
        job.steady(2)
        job.reached(5)
        for plan in CYCLE:
            _go(job, plan, word)
        job.order("drain 30")
        job.wait()
    lines = [line for line in job.lines() if line.get("stepped")]
    state = max(json.loads(path.read_text()) for path in folder.glob("state-*.json"))
    yield told(f"state, {how}", state / 1e6, "MB")
    for (before, after), seconds in stood_still(lines).items():
        row = at_most(f"{before} → {after}, {how}", seconds, "s", MOST_SECONDS)
        if not row.holds:
            say(f"{row.name} took {seconds:.1f} s; {job.logs(events=400)}")
        yield clocked(row, short=short)
    total = max(line["step"] for line in lines) + 1
    check_each_once(job.lines(), total=total, batch=4, size=SAMPLES)
    yield exactly(f"samples lost or repeated, {how}", 0, "", 0)


def _go(job: Driven, plan: str, word: str) -> None:
    known = len(job.named("replanned"))
    job.order(f"plan {plan}{word}")
    job.until(lambda _: len(job.named("replanned")) > known)
    job.reached(job.newest_step + 5)


def stood_still(lines: list[dict[str, object]]) -> dict[tuple[str, str], float]:
    """Seconds without a step between two plans, beyond those of a usual one."""
    steps: dict[int, tuple[float, str]] = {}
    for line in lines:
        time, plan = float(str(line["time"])), str(line["plan"])
        known = steps.get(int(str(line["step"])), (0.0, plan))
        steps[int(str(line["step"]))] = max(known[0], time), plan
    ordered = [steps[step] for step in sorted(steps)]
    usual = {
        plan: statistics.median(b[0] - a[0] for a, b in pairwise(ordered) if a[1] == b[1] == plan)
        for plan in {plan for _, plan in ordered}
    }
    return {
        (before, after): later - sooner - usual[after]
        for (sooner, before), (later, after) in pairwise(ordered)
        if before != after
    }
