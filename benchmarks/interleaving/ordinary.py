"""Ordinary: the same traces as a cluster has them, with and without company.

Nobody tells how long a job takes, a start costs what it does at TACC and once, being spread slows
jobs down, and whoever takes turns loses by the overheads that Muri's authors measured, of which the
brain is not told. The bar is that company never does harm: not to the average, not to the tail, and
that restarts for its sake take little of the GPUs' time. What members pay is told beside: how many
times longer than alone jobs ran. One generated list is chaotic: a job that starts a minute later
moves the mean by some parts in a thousand, so several are judged as one. Trace4, which takes hours,
is a part of its own (`long`).
"""

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from pathlib import Path

import numpy as np

from benchmarks.interleaving.times import Times
from benchmarks.interleaving.workload import GENERATED_SEED, generated, ordinary
from benchmarks.row import Row, at_most, told
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.job import Job
from weft.perf.interleaving.group import MURI_OVERHEAD, CycleModel
from weft.sim.costs import COSTS
from weft.sim.record import JobRecord, Record
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

TRUTH = CycleModel(overhead=MURI_OVERHEAD)
PAIRS = (("weave(interleave=false)", "weave"), ("las", "muri-l"), ("srsf", "muri-s"))
BESIDE = ("tiresias", "afs-p")
LISTS = 3
"""So many generated ones are judged as one; of elastic jobs, which take longest, a single one."""


def _trace(name: str, traces: Path) -> list[Job]:
    return ordinary(traces, name)


def _at(load: float, number: int, traces: Path) -> list[Job]:
    return generated(traces, load, seed=GENERATED_SEED + number)


WORKLOADS: dict[str, tuple[Callable[[Path], list[Job]], ...]] = {
    "trace3": (partial(_trace, "trace3"),),
    "generated 60 %": tuple(partial(_at, 0.6, number) for number in range(LISTS)),
    "generated 90 %": tuple(partial(_at, 0.9, number) for number in range(LISTS)),
    "generated 90 %, elastic": (partial(generated, load=0.9, elastic=True),),
    "trace4": (partial(_trace, "trace4"),),
}
LONG = "trace4"
SHORT_JOBS = 150
MOST_RESTARTS_PERCENT = 3.0
TAIL = 1.05
"""The slowest hundredth may be so much later: another order of the same work moves it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one workload under one recipe; of several lists all jobs together."""

    times: Times
    makespans: tuple[float, ...]
    slowdowns: tuple[float, ...]
    """Of each job: for how long it had its GPUs, by how long it takes with as many as it asked
    for, alone."""

    restarting: float
    """GPU-seconds in which somebody stopped or started who had run before."""

    held: float
    """GPU-seconds for which GPUs were held."""

    @property
    def makespan_seconds(self) -> float:
        return float(np.mean(self.makespans))

    @property
    def restart_percent(self) -> float:
        return 100.0 * self.restarting / self.held

    def slowdown(self, part: float) -> float:
        return float(np.quantile(self.slowdowns, part))

    @classmethod
    def of(cls, each: Sequence["Ran"]) -> "Ran":
        return cls(
            sum((one.times for one in each), Times(())),
            tuple(end for one in each for end in one.makespans),
            tuple(slow for one in each for slow in one.slowdowns),
            sum(one.restarting for one in each),
            sum(one.held for one in each),
        )


MEASURES: tuple[tuple[str, Callable[[Ran], float], float], ...] = (
    ("average JCT", attrgetter("times.mean_seconds"), 1.0),
    ("p99 JCT", attrgetter("times.p99_seconds"), TAIL),
    ("makespan", attrgetter("makespan_seconds"), TAIL),
)
SLOWDOWNS = (("median", 0.5), ("99 of 100 jobs below", 0.99))


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    names = [name for name in WORKLOADS if name != LONG]
    yield from rows_of(names[:1] if short else names, traces, short=short)


def rows_of(names: list[str], traces: Path, *, short: bool) -> Iterator[Row]:
    pairs = PAIRS[:2] if short else PAIRS
    recipes = [recipe for pair in pairs for recipe in pair] + ([] if short else list(BESIDE))
    ran = _all_runs(traces, names, recipes, short=short)
    for name in names:
        for apart, together in pairs:
            shown = _compared(name, apart, together, ran[name, apart], ran[name, together])
            yield from list(shown)[:2] if short else shown
        for recipe in () if short else BESIDE:
            yield _told(name, recipe, ran[name, recipe])


def _all_runs(
    traces: Path, names: list[str], recipes: list[str], *, short: bool
) -> dict[tuple[str, str], Ran]:
    tasks = [
        (traces, name, number, recipe, short)
        for name in names
        for recipe in recipes
        for number in range(len(WORKLOADS[name]))
    ]
    parts = defaultdict[tuple[str, str], list[Ran]](list)
    with ProcessPoolExecutor(2) as pool:
        for task, found in zip(tasks, pool.map(_run, tasks), strict=True):
            _, name, number, recipe, _ = task
            said = f"  {recipe} on {name} ({number + 1}): {found.times.mean_seconds:,.0f} s"
            print(said, file=sys.stderr, flush=True)
            parts[name, recipe].append(found)
    return {key: Ran.of(each) for key, each in parts.items()}


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
    for what, part in SLOWDOWNS:
        yield told(
            f"{together} on {name}, longer than alone while it ran, {what}",
            round(other.slowdown(part), 2),
            "×",
            peer=apart,
            peer_value=round(one.slowdown(part), 2),
        )


def _told(name: str, recipe: str, ran: Ran) -> Row:
    return told(
        f"{recipe} on {name}, average JCT",
        round(ran.times.mean_seconds),
        "s",
        peer="p99",
        peer_value=round(ran.times.p99_seconds),
    )


def _run(task: tuple[Path, str, int, str, bool]) -> Ran:
    traces, name, number, recipe, short = task
    jobs = WORKLOADS[name][number](traces)
    world = World(
        Cluster.uniform(8, 8),
        jobs[:SHORT_JOBS] if short else jobs,
        Brain(make_recipe(recipe)),
        costs=COSTS["tacc"],
        checks=Checks.TOUCHED,
        cycles=TRUTH,
    )
    record = world.run()
    lines = list(record.jobs.values())
    return Ran(
        times=Times(tuple(line.jct_seconds for line in lines if line.jct_seconds is not None)),
        makespans=(max(line.ended or 0.0 for line in lines),),
        slowdowns=tuple(_slowdown(line) for line in lines if line.jct_seconds is not None),
        restarting=_restarting(record),
        held=float(np.dot(np.diff(record.times), record.used_gpus[:-1])),
    )


def _slowdown(line: JobRecord) -> float:
    assert line.jct_seconds is not None
    return (line.jct_seconds - sum(line.waits_seconds)) / line.service_seconds


def _restarting(record: Record) -> float:
    each = COSTS["tacc"].start.mean_seconds + COSTS["tacc"].stop.mean_seconds
    return each * sum((line.starts - 1) * line.gpus for line in record.jobs.values() if line.starts)
