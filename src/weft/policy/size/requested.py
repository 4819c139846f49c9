"""Widths as requested, and the network-packing widths of AFS.

AFS's rule: a share that divides a node's GPUs, or is a multiple of them, leaves at most one job
per machine that uses the network card. Jobs with a range may be rounded to such a width; a job
with one fixed width keeps it.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.model.snapshot import Ints, Snapshot


class Size(Protocol):
    """Chooses the width of each of the given jobs."""

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints: ...


def as_requested(snapshot: Snapshot, slots: Ints) -> Ints:
    return snapshot.jobs.asked_gpus[slots]


@dataclass(frozen=True, slots=True)
class NetworkPacked:
    """Rounds another size's widths to divisors or multiples of a node's GPUs."""

    inner: Size = as_requested

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints:
        node_gpus = int(snapshot.nodes.gpus.max(initial=1))
        jobs = snapshot.jobs
        widths = self.inner(snapshot, slots).tolist()
        low, high = jobs.min_gpus[slots].tolist(), jobs.max_gpus[slots].tolist()
        return np.array(
            [
                packed_width(width, node_gpus, low=least, high=most)
                for width, least, most in zip(widths, low, high, strict=True)
            ],
            np.int64,
        )


def packed_width(width: int, node_gpus: int, *, low: int, high: int) -> int:
    """The widest packed width up to `width`, else the next above it, else `width` itself."""
    down = next((w for w in range(width, max(low, 1) - 1, -1) if is_packed(w, node_gpus)), None)
    if down is not None:
        return down
    return next((w for w in range(width + 1, high + 1) if is_packed(w, node_gpus)), width)


def is_packed(width: int, node_gpus: int) -> bool:
    return node_gpus % width == 0 if width < node_gpus else width % node_gpus == 0
