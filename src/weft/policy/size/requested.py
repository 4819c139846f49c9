"""Widths as requested, and the network-packing widths of AFS.

AFS's rule: a share that divides a node's GPUs, or is a multiple of them, leaves at most one job
per machine that uses the network card. Jobs with a range may be rounded to such a width; a job
with one fixed width keeps it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.model.snapshot import Ints, Snapshot
from weft.policy.packing import Packing
from weft.policy.supply import Supply


class Size(Protocol):
    """Chooses the width of each of the given jobs, under a supply."""

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints: ...


def as_requested(snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
    return snapshot.jobs.asked_gpus[slots]


@dataclass(frozen=True, slots=True)
class NetworkPacked:
    """Rounds another size's widths to divisors or multiples of a node's GPUs."""

    inner: Size = as_requested

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        node_gpus = int(snapshot.nodes.gpus.max(initial=1))
        jobs = snapshot.jobs
        widths = self.inner(snapshot, slots, supply).tolist()
        low, high = jobs.min_gpus[slots].tolist(), jobs.max_gpus[slots].tolist()
        return np.array(
            [
                packed_width(width, node_gpus, low=least, high=most)
                for width, least, most in zip(widths, low, high, strict=True)
            ],
            np.int64,
        )


def packed_width(width: int, node_gpus: int, *, low: int, high: int) -> int:
    """The widest packed width up to `width`, else the next above it, else `width` itself.

    Nothing stays nothing: a job that was given no GPU is not to be lifted to its first one.
    """
    if width == 0:
        return 0
    down = next(
        (w for w in range(width, max(low, 1) - 1, -1) if Packing.NETWORK.allows(w, node_gpus)), None
    )
    if down is not None:
        return down
    return next(
        (w for w in range(width + 1, high + 1) if Packing.NETWORK.allows(w, node_gpus)), width
    )
