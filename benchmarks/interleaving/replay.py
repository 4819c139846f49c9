"""Replay: Muri-S and Muri-L by the rules of Muri's simulator, in the same brain and world as all.

Everybody is grouped and placed anew at every event, groups are locked step for step with the
published overheads, and every running job loses the start overheads of its group at every event.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.interleaving.workload import replayed
from benchmarks.row import Row, at_most
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.perf.interleaving.group import LOCK_STEP, CycleModel
from weft.sim.costs import Costs
from weft.sim.telling import SILENT
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

RECORDED_SECONDS = {
    "trace1": {"s": 867_706, "l": 1_072_010},
    "trace2": {"s": 1_467_192, "l": 2_141_937},
    "trace3": {"s": 85_503, "l": 88_687},
    "trace4": {"s": 365_468, "l": 429_175},
    "job_type_1": {"s": 192_544},
    "job_type_2": {"s": 135_700},
    "job_type_3": {"s": 90_900},
    "job_type_4": {"s": 85_500},
}
"""Average completion times that Muri's authors recorded; where all jobs have one bottleneck, those
of SRTF, for Muri lost against it there."""


@dataclass(frozen=True, slots=True)
class Mode:
    """A recipe, and how the parties that it forms really run."""

    name: str
    recipe: str
    cycles: CycleModel = LOCK_STEP


MODES = {
    "s": Mode("Muri-S", "muri-replay-s"),
    "l": Mode("Muri-L", "muri-replay-l"),
    "capped": Mode(
        "ours (A, cap 6, several short iterations in a cycle)",
        "muri-replay-capped(ratios=true)",
        replace(LOCK_STEP, ratios=True),
    ),
}
BARS_SECONDS = {
    ("s", "trace3"): 83_000.0,
    ("s", "trace4"): 345_000.0,
    ("capped", "trace3"): 80_500.0,
    ("capped", "trace4"): 330_000.0,
    ("capped", "job_type_1"): 192_544.0,
    ("capped", "job_type_2"): 135_700.0,
    ("capped", "job_type_3"): 90_900.0,
    ("capped", "job_type_4"): 85_500.0,
}
P99_BARS_SECONDS = {"trace3": 900_000.0, "trace4": 3_900_000.0}
TOLERANCE = 0.02
SHORT_JOBS = 120
SHORT = (("l", "trace3"), ("s", "trace3"), ("capped", "trace3"))
LIKE_PUBLISHED = ("l", "trace3")
WHOLE = (LIKE_PUBLISHED, *BARS_SECONDS)


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """In short the first jobs of one trace, which shows that the modes run to their end."""
    most = SHORT_JOBS if short else None
    tasks = [(traces, *task, most) for task in (SHORT if short else WHOLE)]
    with ProcessPoolExecutor(2) as pool:
        for (_, mode, trace, _), jcts in zip(tasks, pool.map(jcts_of, tasks), strict=True):
            yield row_of(mode, trace, jcts, whole=not short)
            if mode == "capped" and trace in P99_BARS_SECONDS and not short:
                p99 = sorted(jcts)[int(0.99 * len(jcts))]
                yield at_most(_name(mode, trace, "p99"), round(p99), "s", P99_BARS_SECONDS[trace])


def row_of(mode: str, trace: str, jcts: list[float], *, whole: bool) -> Row:
    mean = float(np.mean(jcts))
    known = RECORDED_SECONDS.get(trace, {})
    recorded = known.get(mode, known.get("s"))
    bar, holds = (
        _bar(mode, trace, mean, recorded) if whole else ("all end", len(jcts) == SHORT_JOBS)
    )
    return Row(
        name=_name(mode, trace, "average"),
        value=round(mean, 1),
        unit="s",
        bar=bar,
        holds=holds,
        peer="recorded by its authors" if recorded else None,
        peer_value=recorded if whole else None,
    )


def _bar(mode: str, trace: str, mean: float, recorded: float | None) -> tuple[str | None, bool]:
    if (mode, trace) in BARS_SECONDS:
        bar = BARS_SECONDS[mode, trace]
        return f"<= {bar:,.0f}", mean <= bar
    if (mode, trace) != LIKE_PUBLISHED:
        return None, True
    assert recorded is not None
    return f"within {TOLERANCE:.0%}", abs(mean / recorded - 1.0) <= TOLERANCE


def _name(mode: str, trace: str, what: str) -> str:
    return f"{MODES[mode].name} on {trace}, Muri's replay rules, {what} JCT"


def jcts_of(task: tuple[Path, str, str, int | None]) -> list[float]:
    traces, mode, trace, most = task
    jobs, overheads = replayed(traces, trace)
    world = World(
        Cluster.uniform(8, 8),
        jobs[:most],
        Brain(make_recipe(MODES[mode].recipe)),
        costs=Costs("muri", overheads_seconds=overheads),
        telling=SILENT,
        checks=Checks.TOUCHED,
        cycles=MODES[mode].cycles,
    )
    lines = world.run().jobs.values()
    return [line.jct_seconds for line in lines if line.jct_seconds is not None]
