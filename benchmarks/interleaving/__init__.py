"""Interleaving: jobs that take turns on the same GPUs.

How long a choice of groups takes (decision) and how near its value comes to the best there is
(quality); Muri's own schedulers by its own rules (replay, slices), and the same traces as a
cluster has them, with company and without (ordinary, long), with Muri's stage times of eight
models; the same with stages told wrong (noise), and parties drawn by chance whose memory must fit
(colocation). And real processes that take turns on this machine (real).
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row

PARTS = {
    "decision": "benchmarks.interleaving.decision",
    "quality": "benchmarks.interleaving.quality",
    "replay": "benchmarks.interleaving.replay",
    "slices": "benchmarks.interleaving.slices",
    "ordinary": "benchmarks.interleaving.ordinary",
    "long": "benchmarks.interleaving.long",
    "noise": "benchmarks.interleaving.noise",
    "colocation": "benchmarks.interleaving.colocation",
    "real": "benchmarks.interleaving.real",
}


def rows(traces: Path, *, short: bool = False, only: tuple[str, ...] = ()) -> Iterator[Row]:
    """One part after the other."""
    for part in only or tuple(PARTS):
        yield from importlib.import_module(PARTS[part]).rows(traces, short=short)
