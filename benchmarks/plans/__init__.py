"""Plans: how a model is split over its GPUs, foretold and chosen.

Without a scheduler: how long steps take (time), what memory plans need (memory), and what curves
over plans show a choice (cliffs). With one: Rubick's workloads (base), and what a round costs
(decision). How long a real job stands still for another plan (switch). Measured steps are Rubick's,
of seven models.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row

PARTS = {
    "time": "benchmarks.plans.time",
    "memory": "benchmarks.plans.memory",
    "cliffs": "benchmarks.plans.cliffs",
    "base": "benchmarks.plans.base",
    "decision": "benchmarks.plans.decision",
    "switch": "benchmarks.plans.switch",
}


def rows(traces: Path, *, short: bool = False, only: tuple[str, ...] = ()) -> Iterator[Row]:
    """One part after the other."""
    for part in only or tuple(PARTS):
        yield from importlib.import_module(PARTS[part]).rows(traces, short=short)
