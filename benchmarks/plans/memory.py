"""Memory: peaks foretold beside an accounting that walks every tensor, and how long it takes."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from time import process_time

import numpy as np

from benchmarks.row import Row, at_least, at_most, clocked, exactly, told
from tests.perf.plans.accounting import Walk, counted
from tests.perf.plans.shapes import ALL, LLAMA70
from weft.model.plan import ExecutionPlan
from weft.model.shape import MIXED, ModelShape
from weft.perf.plans import layout, space
from weft.perf.plans.curve import best_plans
from weft.perf.plans.fabric import GIB, Fabric
from weft.perf.plans.fit import unmeasured
from weft.perf.plans.laws import Bounds
from weft.perf.plans.memory import RESERVE_BYTES, peak_memory
from weft.perf.plans.space import legal_plans
from weft.perf.plans.step import Work

PLANS, SHORT_PLANS = 500, 100
CALLS = 5
BATCHES = (16, 32, 64, 128, 256)
WIDTHS = tuple(range(1, 65))
NEARLY_FITS = 160 * GIB
BATCH_OF_70B = 1024
MS = 1000.0


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Accuracy, what is chosen, and time."""
    count = SHORT_PLANS if short else PLANS
    off = np.array(list(differences(count)))
    yield at_most(f"{count} plans walked: mean error", float(np.abs(off).mean()), "%", 8.0)
    yield at_least("… furthest under", float(off.min()), "%", -5.0)
    yield told("… furthest over", float(off.max()), "%")
    chosen, over = _chosen()
    yield exactly(f"out of memory of {chosen} chosen plans", over, "", 0)
    timed = (
        at_most("all plans of 70B on 1 to 64 GPUs, with memory", _judging(), "ms", 200.0),
        at_most("… and the best of each, with times", _choosing(), "ms", 200.0),
    )
    yield from (clocked(row, short=short) for row in timed)
    yield told("… plans", len(legal_plans(_bounds(LLAMA70, BATCH_OF_70B), WIDTHS)), "")


def differences(count: int) -> Iterator[float]:
    """Foretold over walked, less 1, in per cent, of plans drawn from those that nearly fit."""
    chance = np.random.default_rng(20)
    for _ in range(count):
        shape = ALL[chance.integers(len(ALL))]
        shape, batch = replace(shape, parameters=counted(shape)), int(chance.choice(BATCHES))
        plans = legal_plans(_bounds(shape, batch), WIDTHS)
        peak = peak_memory(plans, shape, batch)
        row = int(chance.choice(np.flatnonzero(peak.total < NEARLY_FITS)))
        yield 100.0 * (float(peak.tensors[row]) / _walked(plans.plan(row), shape, batch) - 1.0)


def _walked(plan: ExecutionPlan, shape: ModelShape, batch: int) -> float:
    parts = plan.data * plan.accumulation_steps * plan.micro_batches
    return Walk(plan, shape, batch // parts, MIXED).peak()


def _chosen() -> tuple[int, int]:
    """Best plans of every width of every model, and those of which the walk says they do not fit.

    The driver's share is added to the walk as well, the allocator's gaps are not.
    """
    fabric, count, over = Fabric(), 0, 0
    for shape in ALL:
        for batch in BATCHES:
            model = unmeasured(Work(shape=shape, batch=batch), fabric)
            for one in best_plans(model, _bounds(shape, batch), WIDTHS):
                count += 1
                needed = _walked(one.plan, shape, batch) + RESERVE_BYTES
                over += needed > fabric.gpu_memory_bytes
    return count, over


def _judging() -> float:
    def judged() -> None:
        space.forgotten()
        plans = legal_plans(_bounds(LLAMA70, BATCH_OF_70B), WIDTHS)
        peak_memory(plans, LLAMA70, BATCH_OF_70B).fits(Fabric())

    return max(_spent(judged) for _ in range(CALLS))


def _choosing() -> float:
    model = unmeasured(Work(shape=LLAMA70, batch=BATCH_OF_70B), Fabric())

    def chose() -> None:
        space.forgotten()
        layout.loads.cache_clear()
        best_plans(model, _bounds(LLAMA70, BATCH_OF_70B), WIDTHS)

    return max(_spent(chose) for _ in range(CALLS))


def _spent(what: Callable[[], None]) -> float:
    begin = process_time()
    what()
    return MS * (process_time() - begin)


def _bounds(shape: ModelShape, batch: int) -> Bounds:
    return Bounds(shape=shape, batch=batch)
