"""Conformance: published results, reproduced by the same brain and world as everything else.

Muri's simulator recorded average completion times of SRTF, SRSF and Tiresias on four Philly slices
(64 GPUs). Its replay rules are a named mode of our recipes (`muri-*`: everybody is placed anew at
every event) and of our costs (every running job loses its start overhead at every event), not
a second loop. The Gittins index is compared with its definition, evaluated by brute force.
"""

import csv
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.gittins_oracle import brute_force_index
from benchmarks.row import Row
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Width
from weft.model.truth import Work
from weft.policy.order.gittins_index import GittinsTable
from weft.policy.recipes import RECIPES
from weft.sim.costs import Costs
from weft.sim.world import Checks, World
from weft.trace.readers.muri import read_muri

ITERATION_FACTOR = 1.015
DEFAULT_OVERHEAD_SECONDS = 10.0
PUBLISHED_JCT_SECONDS = {
    "srtf": (1_370_603, 2_665_617, 193_082, 581_983),
    "srsf": (980_141, 2_213_950, 185_022, 487_167),
    "tiresias": (3_330_371, 7_396_369, 347_213, 1_319_383),
}
PUBLISHED_P99_SECONDS = {"srtf": 4_538_891, "srsf": 4_189_699, "tiresias": 4_983_397}
TOLERANCE = 0.01
TAIL_TRACE = 3
GITTINS_TOLERANCE = 1e-9


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """Twelve averages, three tails and three Gittins tables."""
    wanted = (TAIL_TRACE,) if short else (1, 2, 3, 4)
    tasks = [(traces, recipe, trace) for trace in wanted for recipe in PUBLISHED_JCT_SECONDS]
    with ProcessPoolExecutor(2) as pool:
        for (_, recipe, trace), jcts in zip(tasks, pool.map(_replay, tasks), strict=True):
            yield from _replay_rows(recipe, trace, jcts)
    yield from _gittins_rows(traces, short=short)


def _replay(task: tuple[Path, str, int]) -> list[float]:
    """Completion times of one trace under one recipe and Muri's rules."""
    traces, recipe, trace = task
    jobs, overheads = muri_jobs(traces / "muri", trace)
    world = World(
        Cluster.uniform(8, 8),
        jobs,
        Brain(RECIPES[f"muri-{recipe}"]()),
        costs=Costs("muri", overheads_seconds=overheads),
        checks=Checks.TOUCHED,
    )
    record = world.run()
    return sorted(job.jct_seconds for job in record.jobs.values() if job.jct_seconds is not None)


def muri_jobs(folder: Path, trace: int) -> tuple[list[Job], dict[JobId, float]]:
    """Jobs whose work is iterations × iteration time × 1.015, and each one's start overhead."""
    table = read_muri(
        folder / f"trace{trace}.csv",
        start_overheads=folder / "start_overheads.csv",
        on_fault="skip",
    )
    jobs: list[Job] = []
    overheads: dict[JobId, float] = {}
    for row in table.rows:
        seconds = row.iterations * row.iteration_seconds * ITERATION_FACTOR
        jobs.append(
            Job.told(
                id=row.job,
                width=Width.fixed(row.gpus),
                work=Work(seconds),
                submit_seconds=row.submit_seconds,
                locality=INDIFFERENT,
                saves_on_demand=True,
            )
        )
        known = row.start_seconds
        overheads[row.job] = DEFAULT_OVERHEAD_SECONDS if known is None else known
    return jobs, overheads


def _replay_rows(recipe: str, trace: int, jcts: list[float]) -> Iterator[Row]:
    published = PUBLISHED_JCT_SECONDS[recipe][trace - 1]
    yield _close(f"{recipe} trace{trace} average JCT", float(np.mean(jcts)), published)
    if trace == TAIL_TRACE:
        tail = jcts[int(0.99 * len(jcts))]
        yield _close(f"{recipe} trace3 p99 JCT", tail, PUBLISHED_P99_SECONDS[recipe])


def _close(name: str, value: float, published: float) -> Row:
    off = abs(value / published - 1.0)
    return Row(
        name=name,
        value=round(value, 1),
        unit="s",
        bar=f"within {TOLERANCE:.0%}",
        holds=off <= TOLERANCE,
        peer="Muri's simulator",
        peer_value=published,
    )


def _gittins_rows(traces: Path, *, short: bool) -> Iterator[Row]:
    for count in (1000,) if short else (1000, 5000, 10000):
        path = traces / "tiresias" / f"yarn-gput{count}.csv"
        with path.open() as lines:
            samples = np.array([float(row["duration"]) for row in csv.DictReader(lines)])
        attained = np.concatenate([[0.0], np.quantile(samples, np.linspace(0, 0.999, 200)) + 0.5])
        index = GittinsTable.from_samples(samples).index(attained)
        exact = brute_force_index(samples, attained)
        error = float(np.max(np.abs(index - exact) / np.maximum(exact, 1e-300)))
        yield Row(
            name=f"Gittins index on yarn-gput{count}",
            value=error,
            unit="largest relative error",
            bar=f"<= {GITTINS_TOLERANCE:g}",
            holds=error <= GITTINS_TOLERANCE,
            peer="brute force",
            peer_value=None,
        )
