"""Replay: Muri-S and Muri-L by the rules of Muri's simulator, in the same brain and world as all.

Everybody is grouped and placed anew at every event, groups are locked step for step with the
published overheads, and every running job loses the start overheads of its group at every event.
What Muri's authors recorded, also of schedulers without company, stands beside.
"""

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.interleaving.times import Times
from benchmarks.interleaving.workload import replayed
from benchmarks.row import Row, at_most
from weft.brain.brain import Brain
from weft.model.cluster import Cluster
from weft.perf.interleaving.group import LOCK_STEP, CycleModel
from weft.sim.costs import Costs
from weft.sim.telling import SILENT
from weft.sim.world import Checks, World
from weft.spec.recipe import make_recipe

COLUMNS = ("Muri-S", "Muri-L", "SRTF", "SRSF", "Tiresias")
RECORDED_SECONDS = {
    "trace1": (867_706, 1_072_010, 1_370_603, 980_141, 3_330_371),
    "trace2": (1_342_400, 2_544_642, 2_665_617, 2_213_950, 7_396_369),
    "trace3": (85_503, 88_687, 193_082, 185_022, 347_213),
    "trace4": (365_468, 429_175, 581_983, 487_167, 1_319_383),
    "trace1_pr": (1_467_192, 2_141_937, 2_303_000, 1_805_000, 6_918_000),
    "trace2_pr": (2_325_962, 4_152_486, 4_070_000, 3_396_000, 10_547_000),
    "trace3_pr": (537_777, 921_095, 844_000, 796_000, 2_211_000),
    "trace4_pr": (954_225, 1_488_034, 1_431_000, 1_221_000, 2_678_000),
    "job_type_1": (None, None, 192_544, None, None),
    "job_type_2": (135_700, None, None, None, None),
    "job_type_3": (90_900, None, None, None, None),
    "job_type_4": (85_500, None, None, None, None),
}
"""Average completion times that Muri's authors recorded. Without company, where all jobs come at
once, they told ratios: those figures are rounded to thousands."""


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
PROCESSOR_BARS_SECONDS = {("s", "trace3"): 20.0, ("s", "trace4"): 600.0}
WHOLE = (LIKE_PUBLISHED, *BARS_SECONDS)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Completion times, of so many jobs, and what it took to compute them."""

    times: Times
    jobs: int
    processor_seconds: float

    @property
    def all_end(self) -> bool:
        return len(self.times) == self.jobs


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    """In short the first jobs of one trace, which shows that the modes run to their end."""
    most = SHORT_JOBS if short else None
    tasks = [(traces, *task, most) for task in (SHORT if short else WHOLE)]
    with ProcessPoolExecutor(2) as pool:
        for (_, mode, trace, _), found in zip(tasks, pool.map(replay, tasks), strict=True):
            yield row_of(mode, trace, found, whole=not short)
            if mode == "capped" and trace in P99_BARS_SECONDS and not short:
                tail = round(found.times.p99_seconds)
                yield at_most(_name(mode, trace, "p99 JCT"), tail, "s", P99_BARS_SECONDS[trace])
            bar = PROCESSOR_BARS_SECONDS.get((mode, trace))
            if bar is not None and not short:
                took = round(found.processor_seconds, 1)
                yield at_most(_name(mode, trace, "processor time"), took, "s", bar)


def row_of(mode: str, trace: str, found: Replayed, *, whole: bool) -> Row:
    mean = found.times.mean_seconds
    known = dict(zip(COLUMNS, RECORDED_SECONDS[trace], strict=True))
    bar, holds = _bar(mode, trace, mean, known) if whole else ("all end", found.all_end)
    beside = ", ".join(f"{name} {seconds:,}" for name, seconds in known.items() if seconds)
    return Row(
        name=_name(mode, trace, "average JCT"),
        value=round(mean, 1),
        unit="s",
        bar=bar,
        holds=holds,
        peer="recorded by its authors",
        peer_value=beside if whole else None,
    )


def _bar(
    mode: str, trace: str, mean: float, known: dict[str, int | None]
) -> tuple[str | None, bool]:
    if (mode, trace) in BARS_SECONDS:
        bar = BARS_SECONDS[mode, trace]
        return f"<= {bar:,.0f}", mean <= bar
    recorded = known[MODES[mode].name] if (mode, trace) == LIKE_PUBLISHED else None
    if recorded is None:
        return None, True
    return f"within {TOLERANCE:.0%}", abs(mean / recorded - 1.0) <= TOLERANCE


def _name(mode: str, trace: str, what: str) -> str:
    return f"{MODES[mode].name} on {trace}, Muri's replay rules, {what}"


def replay(task: tuple[Path, str, str, int | None]) -> Replayed:
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
    began = time.process_time()
    lines = world.run().jobs.values()
    took = time.process_time() - began
    jcts = tuple(line.jct_seconds for line in lines if line.jct_seconds is not None)
    return Replayed(Times(jcts), len(jobs[:most]), took)
