"""Replay: Muri-S and Muri-L by the rules of Muri's simulator, in the same brain and world as all.

Everybody is grouped and placed anew at every event, groups are locked step for step with the
published overheads, and every running job loses the start overheads of its group at every event.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from benchmarks.interleaving.workload import replayed
from benchmarks.row import Row
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.perf.interleaving.group import LOCK_STEP
from weft.policy.recipes import RECIPES
from weft.sim.costs import Costs
from weft.sim.world import Checks, World

RECORDED_SECONDS = {
    "s": {"trace1": 867_706, "trace2": 1_467_192, "trace3": 85_503, "trace4": 365_468},
    "l": {"trace1": 1_072_010, "trace2": 2_141_937, "trace3": 88_687, "trace4": 429_175},
}
"""Average completion times that Muri's authors recorded."""

BARS_SECONDS = {("s", "trace3"): 83_000.0, ("s", "trace4"): 345_000.0}
TOLERANCE = 0.02
SHORT_JOBS = 120


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """In short the first jobs of one trace, which shows that the mode runs to its end."""
    tasks = [(traces, mode, "trace3", SHORT_JOBS if short else None) for mode in ("l", "s")]
    if not short:
        tasks.append((traces, "s", "trace4", None))
    with ProcessPoolExecutor(2) as pool:
        for (_, mode, trace, most), jcts in zip(tasks, pool.map(_replay, tasks), strict=True):
            yield _row(mode, trace, jcts, whole=most is None)


def _row(mode: str, trace: str, jcts: list[float], *, whole: bool) -> Row:
    mean, recorded = float(np.mean(jcts)), RECORDED_SECONDS[mode][trace]
    bar = BARS_SECONDS.get((mode, trace))
    if not whole:
        text, holds = "all end", len(jcts) == SHORT_JOBS
    elif bar is None:
        text, holds = f"within {TOLERANCE:.0%}", abs(mean / recorded - 1.0) <= TOLERANCE
    else:
        text, holds = f"<= {bar:,.0f}", mean <= bar
    return Row(
        name=f"Muri-{mode.upper()} on {trace}, its replay rules, average JCT",
        value=round(mean, 1),
        unit="s",
        bar=text,
        holds=holds,
        peer="recorded by its authors",
        peer_value=recorded if whole else None,
    )


def _replay(task: tuple[Path, str, str, int | None]) -> list[float]:
    traces, mode, trace, most = task
    jobs, overheads = replayed(traces, trace)
    world = World(
        Cluster.uniform(8, 8),
        jobs[:most],
        Brain(RECIPES[f"muri-replay-{mode}"]()),
        costs=Costs("muri", overheads_seconds=overheads),
        checks=Checks.TOUCHED,
        cycles=LOCK_STEP,
    )
    lines = world.run().jobs.values()
    return [line.jct_seconds for line in lines if line.jct_seconds is not None]
