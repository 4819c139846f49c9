"""Ordinary: the same traces as a cluster has them, with and without company.

Nobody tells how long a job takes, a start costs what it does at TACC and once, being spread slows
jobs down, and whoever takes turns loses by the overheads that Muri's authors measured, of which the
brain is not told. The bar is that company never does harm: not to the average, not to the tail, and
that restarts for its sake take little of the GPUs' time. Trace4, which takes hours, is a part of
its own (`long`).
"""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import numpy as np

from benchmarks.interleaving.workload import generated, ordinary
from benchmarks.row import Row, at_most
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.perf.interleaving.group import MURI_OVERHEAD, CycleModel
from weft.sim.costs import COSTS
from weft.sim.record import Record
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

TRUTH = CycleModel(overhead=MURI_OVERHEAD)
PAIRS = (("weave(interleave=false)", "weave"), ("las", "muri-l"), ("srsf", "muri-s"))
BESIDE = ("tiresias", "afs-p")
WORKLOADS: dict[str, Callable[[Path], list[Job]]] = {
    "trace3": lambda traces: ordinary(traces, "trace3"),
    "generated 60 %": lambda traces: generated(traces, 0.6),
    "generated 90 %": lambda traces: generated(traces, 0.9),
    "generated 90 %, elastic": lambda traces: generated(traces, 0.9, elastic=True),
    "trace4": lambda traces: ordinary(traces, "trace4"),
}
LONG = "trace4"
SHORT_JOBS = 150
MOST_RESTARTS_PERCENT = 3.0
TAIL = 1.05
"""The slowest hundredth may be so much later: another order of the same work moves it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one trace under one recipe."""

    mean_seconds: float
    p99_seconds: float
    makespan_seconds: float
    restart_percent: float
    """Of the time for which GPUs were held."""


MEASURES: tuple[tuple[str, Callable[[Ran], float], float], ...] = (
    ("average JCT", attrgetter("mean_seconds"), 1.0),
    ("p99 JCT", attrgetter("p99_seconds"), TAIL),
    ("makespan", attrgetter("makespan_seconds"), TAIL),
)


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    names = [name for name in WORKLOADS if name != LONG]
    yield from rows_of(names[:1] if short else names, traces, short=short)


def rows_of(names: list[str], traces: Path, *, short: bool) -> Iterator[Row]:
    pairs = PAIRS[:2] if short else PAIRS
    recipes = [recipe for pair in pairs for recipe in pair] + ([] if short else list(BESIDE))
    tasks = [(traces, name, recipe, short) for name in names for recipe in recipes]
    ran = dict[tuple[str, str], Ran]()
    with ProcessPoolExecutor(2) as pool:
        for (_, name, recipe, _), found in zip(tasks, pool.map(_run, tasks), strict=True):
            print(f"  {recipe} on {name}: {found.mean_seconds:,.0f} s", file=sys.stderr, flush=True)
            ran[name, recipe] = found
    for name in names:
        for apart, together in pairs:
            told = _compared(name, apart, together, ran[name, apart], ran[name, together])
            yield from list(told)[:2] if short else told
        for recipe in () if short else BESIDE:
            yield _told(name, recipe, ran[name, recipe])


def _compared(name: str, apart: str, together: str, one: Ran, other: Ran) -> Iterator[Row]:
    for what, seconds, times in MEASURES:
        mine, theirs = seconds(other), seconds(one)
        yield Row(
            name=f"{together} on {name}, {what}",
            value=round(mine),
            unit="s",
            bar=f"<= {times:g} x without company",
            holds=mine <= times * theirs,
            peer=apart,
            peer_value=round(theirs),
        )
    yield at_most(
        f"{together} on {name}, restarts, of GPU time",
        round(other.restart_percent, 3),
        "%",
        MOST_RESTARTS_PERCENT,
        peer=apart,
        peer_value=round(one.restart_percent, 3),
    )


def _told(name: str, recipe: str, ran: Ran) -> Row:
    return Row(
        name=f"{recipe} on {name}, average JCT",
        value=round(ran.mean_seconds),
        unit="s",
        bar="told beside",
        holds=True,
        peer="p99",
        peer_value=round(ran.p99_seconds),
    )


def _run(task: tuple[Path, str, str, bool]) -> Ran:
    traces, name, recipe, short = task
    jobs = WORKLOADS[name](traces)
    world = World(
        Cluster.uniform(8, 8),
        jobs[:SHORT_JOBS] if short else jobs,
        Brain(make_recipe(recipe)),
        costs=COSTS["tacc"],
        checks=Checks.TOUCHED,
        cycles=TRUTH,
    )
    record = world.run()
    lines = record.jobs.values()
    jcts = sorted(line.jct_seconds for line in lines if line.jct_seconds is not None)
    tail = jcts[int(0.99 * len(jcts))]
    last = max(line.ended or 0.0 for line in lines)
    return Ran(float(np.mean(jcts)), tail, last, 100.0 * _restarted(record))


def _restarted(record: Record) -> float:
    """The part of the GPUs' time for which somebody stopped or started who had run before."""
    each = COSTS["tacc"].start.mean_seconds + COSTS["tacc"].stop.mean_seconds
    spent = each * sum(
        (line.starts - 1) * line.gpus for line in record.jobs.values() if line.starts
    )
    return spent / float(np.dot(np.diff(record.times), record.used_gpus[:-1]))
