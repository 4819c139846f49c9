"""Cliffs: what curves over plans show where one GPU more gains nothing, or one core does.

LLaMA-7B trains on 8 GPUs by offload alone in Rubick's tables (9.4 s a step) and on 16 by tensors
(1.1 s). On one GPU it takes 66 s with two cores beside it and 46 s with four.
"""

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.plans.tables import CORES, FABRIC, WORKS, measured
from benchmarks.plans.time import foretold
from benchmarks.plans.workloads import Line, jobs, nodes
from benchmarks.row import Row, at_most, exactly, told
from tests.perf.plans.shapes import LLAMA7
from weft.brain.brain import Brain
from weft.brain.event import JobSubmitted, NodeAdded, Tick
from weft.brain.instruction import Start
from weft.model.capability import Capability
from weft.model.ids import JobId
from weft.model.plan import ExecutionPlan, Sharding
from weft.perf.plans.curve import Allocation, Configuration, PlanCurve, plan_curve
from weft.perf.plans.envelope import shared_out
from weft.perf.plans.fit import StepModel, fitted
from weft.perf.plans.laws import Bounds
from weft.perf.plans.step import Cases
from weft.policy.recipes import RECIPES

LLAMA, ROBERTA = JobId("llama7"), JobId("roberta")
REQUEST = 8
OFFLOADED = ExecutionPlan(sharding=Sharding.GRADIENTS, offload=True, recompute=True)


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Both cases, the first also as it is scheduled."""
    yield from _across(traces)
    yield from _scheduled(traces)
    yield from _cores(traces)


def _across(traces: Path) -> Iterator[Row]:
    curves = {job: table_curve(traces, job) for job in (LLAMA, ROBERTA)}
    asked = {job: speed_at(curve, REQUEST) for job, curve in curves.items()}
    for gpus, llama, roberta in ((16, 16, 0), (24, 16, 8)):
        given = shared_out(curves, asked, gpus)
        have = {job: given[job].allocation.gpus if job in given else 0 for job in curves}
        yield exactly(f"GPUs of LLaMA-7B of {gpus}, beside RoBERTa", have[LLAMA], "", llama)
        if roberta:
            yield exactly("… of RoBERTa", have[ROBERTA], "", roberta)
        reached = sum(one.speed / asked[job] for job, one in given.items())
        yield told(
            f"… speeds of what was asked for, together, of {gpus}",
            reached,
            "×",
            peer="best of all splits",
            peer_value=best_split(curves, asked, gpus),
        )


def table_curve(traces: Path, model: str) -> PlanCurve:
    """As measured."""
    return PlanCurve.of(
        Configuration(Allocation(row.gpus, CORES), row.plan, row.seconds, row.seconds)
        for row in measured(traces, model)
    )


def speed_at(curve: PlanCurve, gpus: int) -> float:
    found = curve.at(gpus)
    return found.speed if found else 0.0


def best_split(curves: dict[JobId, PlanCurve], asked: dict[JobId, float], gpus: int) -> float:
    """By trying all."""
    one, other = curves
    return max(
        speed_at(curves[one], first) / asked[one]
        + speed_at(curves[other], gpus - first) / asked[other]
        for first in range(gpus + 1)
    )


def _cores(traces: Path) -> Iterator[Row]:
    """Learnt at a batch of 8, and from one step at 16 with two cores."""
    slow, fast = one_gpu_steps(traces)
    model = offloading(traces, slow)
    cases = Cases.of([OFFLOADED], [(1,)], [4.0], FABRIC)
    seconds = float(model.seconds(cases)[0])
    yield at_most("one GPU with four cores, off", 100.0 * abs(seconds / fast - 1.0), "%", 12.0)
    yield told("… foretold", seconds, "s", peer="measured", peer_value=fast)
    offers = frozenset({Capability.ACCUMULATION, Capability.RECOMPUTE, Capability.OFFLOAD})
    bounds = Bounds(shape=LLAMA7, batch=16, offers=offers)
    curve = plan_curve(model, bounds, (1,), cores=(2, 4))
    taken = curve.at(1)
    yield exactly("… cores taken of 2 or 4", int(taken.allocation.cores if taken else 0), "", 4)


def one_gpu_steps(traces: Path) -> tuple[float, float]:
    """With two cores and with four."""
    with (traces / "rubick" / "throughput" / "llama7b_bsz16.csv").open() as lines:
        found = {
            int(row["cpu_threads"]): float(row["iter_time"])
            for row in csv.DictReader(lines)
            if row["exec_plan"] == "zero-offload+gc" and row["placement"] == "1"
        }
    return found[2], found[4]


def offloading(traces: Path, slow: float) -> StepModel:
    before = foretold(traces, "llama7").model.at_batch(2 * WORKS["llama7"].batch)
    point = Cases.of([OFFLOADED], [(1,)], [2.0], FABRIC)
    return fitted(point, np.array([slow]), before)


def _scheduled(traces: Path) -> Iterator[Row]:
    """The same two jobs, each asking for eight GPUs, as a scheduler seats them on 24."""
    brain = Brain(RECIPES["rubick"](spacing=0.0))
    for node in nodes(24):
        brain.handle(NodeAdded(0.0, node))
    for line in (
        Line(str(LLAMA), 0.0, "llama7", REQUEST, "zero-offload", 1, False),
        Line(str(ROBERTA), 0.0, "roberta", REQUEST, "zero-dp", 1, False),
    ):
        brain.handle(JobSubmitted(0.0, jobs(traces, [line])[0].request))
    said = brain.handle(Tick(1.0))
    have = {one.job: one.assignment.width for one in said if isinstance(one, Start)}
    yield exactly("GPUs that the scheduler gives LLaMA-7B of 24", have.get(LLAMA, 0), "", 16)
    yield exactly("… RoBERTa", have.get(ROBERTA, 0), "", 8)
