"""Elastic: widths that follow the work, measured part by part.

The reference table (`conformance`), what a decision costs (`decision`), lengths that nobody told
(`lengths`), how often widths change (`churn`), where the seats lie (`packing`), jobs that can be
predicted beside jobs that cannot (`mixes`), curves from few measurements (`curves`), CPU cores
(`synergy`), how long wide gangs wait (`waits`), Weft's own recipe against all others (`contest`),
the whole Philly list (`replay`) and real training processes (`real`). Every comparison is made
inside one run, on the same jobs.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, broken, told
from weft.model.errors import WeftError

PARTS = {
    "conformance": "benchmarks.elastic.conformance",
    "decision": "benchmarks.elastic.decision",
    "lengths": "benchmarks.elastic.lengths",
    "churn": "benchmarks.elastic.churn",
    "packing": "benchmarks.elastic.packing",
    "mixes": "benchmarks.elastic.mixes",
    "curves": "benchmarks.elastic.curves",
    "synergy": "benchmarks.elastic.synergy",
    "waits": "benchmarks.elastic.waits",
    "contest": "benchmarks.elastic.contest",
    "replay": "benchmarks.elastic.philly",
    "real": "benchmarks.elastic.real",
}
NEED_TRACES = ("conformance", "lengths", "churn", "curves", "synergy", "replay")


def rows(
    traces: Path | None = None, *, short: bool = False, only: tuple[str, ...] = ()
) -> Iterator[Row]:
    """One part after the other; one that breaks says so in a row that fails its bar."""
    for part in only or tuple(PARTS):
        if part in NEED_TRACES and traces is None:
            why = f"part {part} needs WEFT_TRACES"
            yield told(f"skipped: {why}", None, "") if short else broken(f"part {part}", why)
            continue
        try:
            yield from importlib.import_module(PARTS[part]).rows(traces, short=short)
        except (WeftError, OSError, ImportError) as error:
            yield broken(f"part {part}", f"{type(error).__name__}: {error}")
