"""Ordinary: the same traces as a cluster has them, with and without company.

Nobody tells how long a job takes, a start costs what it does at TACC and once, being spread slows
jobs down, and whoever takes turns loses by the overheads that Muri's authors measured, of which the
brain is not told. The bar is that company never does harm: not to the average, not to the tail.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.interleaving.workload import ordinary
from benchmarks.row import Row
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.perf.interleaving.group import MURI_OVERHEAD, CycleModel
from weft.sim.costs import COSTS
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

TRUTH = CycleModel(overhead=MURI_OVERHEAD)
PAIRS = (("weave(interleave=false)", "weave"), ("las", "muri-l"), ("srsf", "muri-s"))
BESIDE = ("tiresias", "afs-p")
TRACES = ("trace3", "trace4")
SHORT_JOBS = 150
TAIL = 1.05
"""The slowest hundredth may be so much later: another order of the same work moves it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What became of one trace under one recipe."""

    mean_seconds: float
    p99_seconds: float
    makespan_seconds: float


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    names = TRACES[:1] if short else TRACES
    pairs = PAIRS[:2] if short else PAIRS
    recipes = [recipe for pair in pairs for recipe in pair] + ([] if short else list(BESIDE))
    tasks = [(traces, name, recipe, short) for name in names for recipe in recipes]
    with ProcessPoolExecutor(2) as pool:
        ran = dict(zip(((t[1], t[2]) for t in tasks), pool.map(_run, tasks), strict=True))
    for name in names:
        for apart, together in pairs:
            found = _compared(name, apart, together, ran[name, apart], ran[name, together])
            yield from list(found)[:2] if short else found
        for recipe in () if short else BESIDE:
            yield _told(name, recipe, ran[name, recipe])


def _compared(name: str, apart: str, together: str, one: Ran, other: Ran) -> Iterator[Row]:
    yield Row(
        name=f"{together} on {name}, average JCT",
        value=round(other.mean_seconds),
        unit="s",
        bar="<= without company",
        holds=other.mean_seconds <= one.mean_seconds,
        peer=apart,
        peer_value=round(one.mean_seconds),
    )
    yield Row(
        name=f"{together} on {name}, p99 JCT",
        value=round(other.p99_seconds),
        unit="s",
        bar=f"<= {TAIL:g} x without company",
        holds=other.p99_seconds <= TAIL * one.p99_seconds,
        peer=apart,
        peer_value=round(one.p99_seconds),
    )
    yield Row(
        name=f"{together} on {name}, makespan",
        value=round(other.makespan_seconds),
        unit="s",
        bar=f"<= {TAIL:g} x without company",
        holds=other.makespan_seconds <= TAIL * one.makespan_seconds,
        peer=apart,
        peer_value=round(one.makespan_seconds),
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
    jobs = ordinary(traces, name)
    world = World(
        Cluster.uniform(8, 8),
        jobs[:SHORT_JOBS] if short else jobs,
        Brain(make_recipe(recipe)),
        costs=COSTS["tacc"],
        checks=Checks.TOUCHED,
        cycles=TRUTH,
    )
    lines = world.run().jobs.values()
    jcts = sorted(line.jct_seconds for line in lines if line.jct_seconds is not None)
    return Ran(float(np.mean(jcts)), jcts[int(0.99 * len(jcts))], world.now)
