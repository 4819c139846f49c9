"""Curves over plans: the best plan of each allocation, and which allocations are of use.

An allocation is of use if no smaller one does 99 % of it. What is left rises strictly, and often in
cliffs: a model that fits into 16 GPUs and not into 8 gains nothing in between. `envelope` looks
across them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.plan import ExecutionPlan
from weft.model.shape import MIXED, Precision
from weft.perf.plans.columns import Floats, Ints, PlanColumns
from weft.perf.plans.fit import StepModel
from weft.perf.plans.laws import Bounds
from weft.perf.plans.memory import peak_memory
from weft.perf.plans.space import legal_plans
from weft.perf.plans.step import Cases

AS_GOOD = 0.99
CORES = (1, 2, 4, 8, 12)


@dataclass(frozen=True, slots=True, order=True)
class Allocation:
    """What a job is given; cores are per GPU."""

    gpus: int
    cores: float


@dataclass(frozen=True, slots=True)
class Configuration:
    """An allocation with its best plan: seconds of a step as foretold, and its slower end."""

    allocation: Allocation
    plan: ExecutionPlan
    seconds: float
    slow_seconds: float
    gpu_bytes: float = 0.0

    @property
    def speed(self) -> float:
        """Steps per second that may be counted on."""
        return 1.0 / self.slow_seconds


@dataclass(frozen=True, slots=True)
class PlanCurve:
    """Useful configurations, smallest first; empty if no plan fits anywhere."""

    points: tuple[Configuration, ...]

    @classmethod
    def of(cls, configurations: Iterable[Configuration]) -> "PlanCurve":
        """Only those of use."""
        kept: list[Configuration] = []
        for one in sorted(configurations, key=lambda one: (one.allocation, -one.speed)):
            within = [
                other.speed
                for other in kept
                if other.allocation.gpus <= one.allocation.gpus
                and other.allocation.cores * other.allocation.gpus
                <= one.allocation.cores * one.allocation.gpus
            ]
            if max(within, default=0.0) < AS_GOOD * one.speed:
                kept.append(one)
        return cls(tuple(kept))

    def at(self, gpus: int, cores: float = float("inf")) -> Configuration | None:
        """The fastest with no more than this; none if nothing runs on it."""
        within = [
            one
            for one in self.points
            if one.allocation.gpus <= gpus and one.allocation.cores <= cores
        ]
        return max(within, key=lambda one: one.speed, default=None)


def plan_curve(
    model: StepModel,
    bounds: Bounds,
    widths: Sequence[int],
    *,
    cores: Sequence[float] = CORES,
    precision: Precision = MIXED,
) -> PlanCurve:
    """Of one job, over so many GPUs and so many cores beside each."""
    return PlanCurve.of(best_plans(model, bounds, widths, cores=cores, precision=precision))


def best_plans(
    model: StepModel,
    bounds: Bounds,
    widths: Sequence[int],
    *,
    cores: Sequence[float] = CORES,
    precision: Precision = MIXED,
    among: PlanColumns | None = None,
    booked: float | None = None,
) -> list[Configuration]:
    """The best plan of every allocation, of use or not; those where nothing fits are left out.

    Only offload asks for more than the fewest cores, so other plans are looked at once. Without
    plans `among` which to look, they are all legal ones. A job may have `booked` fewer cores than
    the fewest, which are then not missed on a node that has less.
    """
    fabric = model.fabric
    plans = legal_plans(bounds, tuple(widths)) if among is None else among
    peak = peak_memory(plans, bounds.shape, bounds.batch, precision)
    fits = np.flatnonzero(peak.fits(fabric))
    plans, used = plans.take(fits), peak.total[fits]
    rows: Ints = np.arange(len(plans))
    found = []
    for count in sorted(cores):
        fewest = count == min(cores)
        owed = count if booked is None or not fewest else booked
        there = owed * np.minimum(plans.width, fabric.gpus_per_node) <= fabric.cores_per_node
        here = rows[there if fewest else there & plans.offload]
        part = plans.take(here)
        placed = [fabric.filled(gpus) for gpus in part.width.tolist()]
        cases = Cases.laid(part, placed, np.full(len(part), float(count)), fabric)
        foretold = model.forecast(cases)
        for row in _fastest(part.width, foretold.high):
            found.append(
                Configuration(
                    Allocation(int(part.width[row]), float(count)),
                    part.plan(row),
                    float(foretold.seconds[row]),
                    float(foretold.high[row]),
                    float(used[here[row]]),
                )
            )
    return found


def _fastest(widths: Ints, seconds: Floats) -> list[int]:
    """The first of the fastest rows of each width."""
    order = np.lexsort((np.arange(len(widths)), seconds, widths))
    firsts = np.unique(widths[order], return_index=True)[1]
    return [int(row) for row in order[firsts]]
