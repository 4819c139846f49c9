"""Slices: weeks of other traces by the rules of Muri's simulator, told beside what was recorded.

Two more slices of Philly's months, and all four with jobs that come at once. The second slice has
5,755 jobs, of which hundreds are there at any time: it takes the longest by far, and comes last.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from benchmarks.interleaving.replay import replay, row_of
from benchmarks.row import Row, told

TASKS = tuple(
    (mode, trace)
    for trace in ("trace3_pr", "trace1", "trace1_pr", "trace4_pr", "trace2", "trace2_pr")
    for mode in ("s", "capped", "l")
)


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    if short:
        yield told("skipped: slices take minutes each", None, "")
        return
    tasks = [(traces, *task, None) for task in TASKS]
    with ProcessPoolExecutor(2) as pool:
        for (mode, trace), found in zip(TASKS, pool.map(replay, tasks), strict=True):
            row = row_of(mode, trace, found, whole=True)
            print(f"  {row.name}: {row.value} s", file=sys.stderr, flush=True)
            yield row
