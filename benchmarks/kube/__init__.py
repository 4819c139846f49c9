"""Kube: the operator on a real API server, beside the bare engine and beside Kueue itself.

Part a is the peer's own baseline (`admission`), part b the fill, gang, verdict and reclaim of
another peer's scale suite (`filling`), part c what the operator costs its cluster (`upkeep`),
part d what the end of a leader costs (`failover`), and part e how far the simulator's completion
times are from those on a cluster (`agreement`).
Everything is measured in one run on this machine. The short form takes a share of each and leaves
the peer out: its figures are told, and only what must hold at any size is held to a bar.
"""

import importlib
from collections.abc import Iterator
from pathlib import Path

from benchmarks.row import Row, broken
from weft.model.errors import WeftError

PARTS = {
    "a": "benchmarks.kube.admission",
    "b": "benchmarks.kube.filling",
    "c": "benchmarks.kube.upkeep",
    "d": "benchmarks.kube.failover",
    "e": "benchmarks.kube.agreement",
}


def rows(
    traces: Path | None = None, *, short: bool = False, only: tuple[str, ...] = ()
) -> Iterator[Row]:
    """One part after the other; one that breaks does not keep the others from being measured."""
    for part in only or tuple(PARTS):
        try:
            yield from importlib.import_module(PARTS[part]).rows(short=short)
        except (WeftError, OSError) as error:
            yield broken(f"part {part}", str(error))
