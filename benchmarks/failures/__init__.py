"""Failures: whose fault, and what next.

Lines and the rules that name them (classifier), retries of trials drawn from Philly's table
(retry), a service that many jobs need and that dies (breaker), nodes that are at fault or only look
so (nodes), what all of it is worth under a scheduler (value), gangs that are tried on one GPU while
they wait (trials), who makes way and what that costs (preemption), gangs that fit but for where
small jobs sit (defragmentation), a large job that fails again and again (storm), neighbours that
slow each other (isolation), what checks of nodes cost (checks), how long the widest gangs wait
(starvation). Everything but the checks is drawn from seeds.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row

PARTS = {
    "classifier": "benchmarks.failures.classifier",
    "retry": "benchmarks.failures.retries",
    "breaker": "benchmarks.failures.outage",
    "nodes": "benchmarks.failures.bad_nodes",
    "value": "benchmarks.failures.value",
    "trials": "benchmarks.failures.trials",
    "preemption": "benchmarks.failures.preemption",
    "defragmentation": "benchmarks.failures.defragmentation",
    "storm": "benchmarks.failures.storm",
    "isolation": "benchmarks.failures.isolation",
    "checks": "benchmarks.failures.checks",
    "starvation": "benchmarks.failures.starvation",
}


def rows(traces: Path, *, short: bool = False, only: tuple[str, ...] = ()) -> Iterator[Row]:
    """One part after the other."""
    for part in only or tuple(PARTS):
        yield from importlib.import_module(PARTS[part]).rows(traces, short=short)
