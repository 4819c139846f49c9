"""Long: the longest of the traces as a cluster has it, with company and without."""

from collections.abc import Iterator
from pathlib import Path

from benchmarks.interleaving.ordinary import LONG, rows_of
from benchmarks.row import Row, told


def rows(traces: Path, *, short: bool = False) -> Iterator[Row]:
    if short:
        yield told("skipped: trace4 takes hours", None, "")
        return
    yield from rows_of([LONG], traces, short=False)
