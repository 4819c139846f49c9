"""Waits: how long a wide gang waits among many small jobs, by recipe.

On 8 nodes of 8 GPUs eight hundred jobs of one to eight GPUs come and go, and twelve gangs of 32.
All have fixed widths, nobody knows a length, and together they ask for as much as the cluster has.
A gang starts only when half of the cluster is free at once, which never comes by chance.

A wait is all the time that a job has no seats. It is held against a bound that no recipe decides:
a day, or ten times as long as the job would take with its fair share, whichever is more. With its
fair share means: every job that is there gets the same number of GPUs, none more than it asks for,
as if GPUs could be divided and seats were anywhere.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from random import Random

import numpy as np

from benchmarks.elastic.columns import ELASTIC, FIXED, OWN_RECIPE
from benchmarks.elastic.fairness import max_min
from benchmarks.elastic.settings import SCORED, kept_back
from benchmarks.elastic.trials import MEASURED, WORKERS, TimedBrain
from benchmarks.elastic.workloads import NODE_GPUS, Given, nodes_of
from benchmarks.row import Row, aims_at, told
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.sim.record import JobRecord
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

GPUS = 64
SMALL_JOBS, GANGS, GANG_GPUS = 800, 12, 32
SMALL_GPUS = {1: 0.55, 2: 0.2, 4: 0.15, 8: 0.1}
LOAD = 1.0
TENANTS = 6
SEED = 100
SHORT_PART = 4

LEAST_BOUND_SECONDS = 86_400.0
FAIR_TIMES = 10.0
HOUR = 3600.0


def rows(traces: Path | None = None, *, short: bool = False) -> Iterator[Row]:
    """Per recipe: the largest wait over its bound, then waits by width."""
    make = partial(wide_gangs, part=SHORT_PART if short else 1)
    names = (*FIXED, *ELASTIC)
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("fork")) as pool:
        for name, waits in zip(names, pool.map(partial(waited, make), names), strict=True):
            yield from _told(name, waits)


def wide_gangs(seed: int, *, part: int = 1) -> Given:
    """Small jobs at moments without memory, a gang every so often; a `part` of each."""
    random = Random(f"wide gangs {seed}")
    widths = [GANG_GPUS] * (GANGS // part)
    widths += random.choices(list(SMALL_GPUS), list(SMALL_GPUS.values()), k=SMALL_JOBS // part)
    seconds = [_seconds(random, gpus) for gpus in widths]
    asked = sum(gpus * length for gpus, length in zip(widths, seconds, strict=True))
    span = asked / (LOAD * GPUS)
    jobs = [
        Job.told(
            id=JobId(f"{'gang' if gpus == GANG_GPUS else 'small'}-{number:03d}"),
            tenant=TenantId(f"tenant-{random.randrange(TENANTS)}"),
            width=Width.fixed(gpus),
            work=Work(length),
            submit_seconds=random.uniform(0.0, span),
        )
        for number, (gpus, length) in enumerate(zip(widths, seconds, strict=True))
    ]
    return Given(nodes_of(GPUS, NODE_GPUS), tuple(sorted(jobs, key=lambda job: job.submit_seconds)))


def _seconds(random: Random, gpus: int) -> float:
    """A small job lasts 10 minutes to 10 hours, by its logarithm; a gang half an hour to 3."""
    if gpus == GANG_GPUS:
        return HOUR * random.uniform(0.5, 3.0)
    return 600.0 * float(60.0 ** random.random())


@dataclass(frozen=True, slots=True)
class Wait:
    """Of one job."""

    gpus: int
    seconds: float
    bound_seconds: float


def waited(make: partial[Given], recipe: str) -> list[Wait]:
    """Every job's wait under one recipe."""
    given = make(SEED)
    jobs = kept_back(given.jobs, SCORED, seed=SEED)
    brain = TimedBrain(make_recipe(recipe))
    world = World(given.cluster, jobs, brain, costs=MEASURED, seed=SEED, checks=Checks.OFF)
    record = world.run()
    fair = fair_seconds(given.jobs, given.cluster.gpus)
    return [
        Wait(line.gpus, _without_seats(line), max(LEAST_BOUND_SECONDS, FAIR_TIMES * seconds))
        for line, seconds in zip((record.jobs[job.id] for job in given.jobs), fair, strict=True)
    ]


def fair_seconds(jobs: Sequence[Job], gpus: int) -> list[float]:
    """How long each job is there if at every moment all that are there have the same, as a fluid.

    Jobs have fixed widths and come in the order of their arrival; none uses more than its width.
    """
    asked = np.array([job.width.asked_gpus for job in jobs], float)
    left = np.array([job.truth.work.amount * job.width.asked_gpus for job in jobs])
    begins = [job.submit_seconds for job in jobs]
    ends = np.full(len(jobs), np.nan)
    now, come = 0.0, 0
    while np.isnan(ends).any():
        there = np.flatnonzero(np.isnan(ends[:come]))
        arrival = begins[come] if come < len(jobs) else np.inf
        if not len(there):
            now, come = arrival, come + 1
            continue
        rate = max_min(asked[there][None, :], gpus)[0]
        until = min(arrival, now + float((left[there] / rate).min()))
        left[there] -= rate * (until - now)
        now = until
        done = there[left[there] <= 1e-6 * asked[there]]
        ends[done] = now
        come += now == arrival
    return [float(seconds) for seconds in ends - np.array(begins)]


def _without_seats(line: JobRecord) -> float:
    return float(sum(line.waits_seconds))


def _told(recipe: str, waits: Sequence[Wait]) -> Iterator[Row]:
    most = max(waits, key=lambda wait: wait.seconds / wait.bound_seconds)
    share = most.seconds / most.bound_seconds
    longest = f"a job of {most.gpus} GPUs, h"
    name = f"{recipe}: largest wait over its bound"
    if recipe == OWN_RECIPE:
        yield aims_at(name, share, "×", 1.0, peer=longest, peer_value=most.seconds / HOUR)
    else:
        yield told(name, share, "×", peer=longest, peer_value=most.seconds / HOUR)
    for gpus in sorted({wait.gpus for wait in waits}):
        hours = [wait.seconds / HOUR for wait in waits if wait.gpus == gpus]
        yield told(
            f"{recipe}: wait of {gpus} GPUs, p99",
            float(np.quantile(hours, 0.99)),
            "h",
            peer="longest",
            peer_value=max(hours),
        )
