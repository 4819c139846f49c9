"""Round: what one decision costs, how that grows, and that nobody is held up by the impossible.

A round is one `handle(Tick)` on a loaded brain (see `loaded`): 1,000 nodes × 8 GPUs with 2,000
running and 5,000 waiting jobs in fifty queues, then 1,000 to 100,000 GPUs at the same load per
GPU. Needs no traces.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

import numpy as np

from benchmarks.loaded import Cost, Desk, Load
from benchmarks.row import Row, exactly, told, with_aim
from weft.brain.event import JobSubmitted
from weft.model.claim import WorkClaim
from weft.model.cluster import Cluster
from weft.model.ids import JobId, QueueId
from weft.model.queue import Queue, QueueTree
from weft.model.request import JobRequest, Width
from weft.policy.recipes import RECIPES

TIMED = ("las", "backfill", "fair", "weave")
GPUS = 8_000
ROUNDS = 120
P99_AIMS_MS = {"las": 100.0, "weave": 250.0}
LARGEST_AIM_MS = 1_500.0
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
SHORT_SIZES = (1_000, 3_000, 10_000)
GROWTH_ROUNDS, SHORT_GROWTH_ROUNDS = 30, 10
SHORT_SIZE_SECONDS = 5.0
ROUND_SECONDS = 60.0

ADMITTING = ("fifo", "backfill", "las")
ADMISSIBLE = 500
TEAM = QueueId("team")
TEAM_LIMIT_GPUS = 504
HEADS = {"more than its queue's limit": 505, "more than the cluster": 1_000}


class Timing(NamedTuple):
    """What each round cost, and the load at the end."""

    costs: list[Cost]
    running: int
    waiting: int

    def wall_ms(self, share: float) -> float:
        return 1e3 * float(np.quantile([cost.wall_seconds for cost in self.costs], share))

    def cpu_ms(self, share: float) -> float:
        return 1e3 * float(np.quantile([cost.cpu_seconds for cost in self.costs], share))


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """Admission first, because it is quick; then one size closely, then all sizes."""
    yield from _admission()
    if not short:
        for recipe in TIMED:
            yield from _one_size(recipe)
    for recipe in TIMED:
        yield from _growth(recipe, short=short)


# --- what a round costs ---------------------------------------------------------------------------


def _one_size(recipe: str) -> Iterator[Row]:
    timing = measure(recipe, GPUS, ROUNDS)
    name = f"{recipe} at {GPUS:,d} GPUs"
    yield told(f"{name}: running", timing.running, "jobs")
    yield told(f"{name}: waiting", timing.waiting, "jobs")
    yield from _costs(name, timing, P99_AIMS_MS.get(recipe))


def _growth(recipe: str, *, short: bool) -> Iterator[Row]:
    """All sizes; in the short form only as long as the last one left time for the next."""
    for gpus in SHORT_SIZES if short else SIZES:
        begin = perf_counter()
        timing = measure(recipe, gpus, SHORT_GROWTH_ROUNDS if short else GROWTH_ROUNDS)
        aims = gpus == max(SIZES) and recipe in P99_AIMS_MS
        name = f"{recipe} growth, {gpus:>7,d} GPUs"
        yield from _costs(name, timing, LARGEST_AIM_MS if aims else None)
        if short and perf_counter() - begin > SHORT_SIZE_SECONDS:
            yield told(f"{recipe} growth beyond {gpus:,d} GPUs: not in the short form", None, "")
            return


def _costs(name: str, timing: Timing, aim_ms: float | None) -> Iterator[Row]:
    """Processor time, which others do not lengthen as much, beside the clock's."""
    for label, share in (("median", 0.5), ("p99", 0.99)):
        row = told(
            f"{name}: {label} round",
            timing.cpu_ms(share),
            "ms",
            peer="by the clock, ms",
            peer_value=timing.wall_ms(share),
        )
        yield row if aim_ms is None or label == "median" else with_aim(row, aim_ms)


def measure(recipe: str, gpus: int, rounds: int) -> Timing:
    """Settle a brain of that size, then time rounds with small changes between them."""
    print(f"  {recipe}, {gpus:,d} GPUs …", file=sys.stderr, flush=True)
    load = Load(RECIPES[recipe](), gpus)
    costs = []
    for _ in range(rounds):
        load.change()
        costs.append(load.desk.round(ROUND_SECONDS))
    return Timing(costs, len(load.desk.running), load.waiting)


# --- who is held up -------------------------------------------------------------------------------


def _admission() -> Iterator[Row]:
    for recipe in ADMITTING:
        for what, gpus in HEADS.items():
            started = admitted_behind(recipe, gpus)
            name = f"{recipe}: started in two rounds behind one that needs {what}"
            yield exactly(name, started, "jobs", ADMISSIBLE)


def admitted_behind(recipe: str, head_gpus: int) -> int:
    """How many of 500 admissible jobs start in two rounds behind a head that never can."""
    tree = QueueTree(
        (
            Queue(id=QueueId("all")),
            Queue(id=TEAM, parent=QueueId("all"), limit_gpus=TEAM_LIMIT_GPUS),
        )
    )
    desk = Desk(RECIPES[recipe](), Cluster.uniform(64, 8), tree)
    desk.tell(JobSubmitted(desk.now, _member("head", head_gpus)))
    desk.round(ROUND_SECONDS)
    for number in range(ADMISSIBLE):
        desk.tell(JobSubmitted(desk.now, _member(f"j{number}", 1)))
    desk.round(ROUND_SECONDS)
    if desk.brain.round_is_due(desk.now + ROUND_SECONDS):
        desk.round(ROUND_SECONDS)
    return len(desk.running)


def _member(name: str, gpus: int) -> JobRequest:
    return JobRequest(id=JobId(name), width=Width.fixed(gpus), work=WorkClaim(3600.0), queue=TEAM)
