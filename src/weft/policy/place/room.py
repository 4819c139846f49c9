"""Room: what is free on each node while a round hands it out.

A round takes one copy of the free columns, shrinks it with every seat it gives and widens it
with every seat it takes back; nothing outside the round sees it.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from weft.model.kind import Kind
from weft.model.placement import Seat
from weft.model.snapshot import Floats, Ints
from weft.policy.place.fabric import Tier, gpus_offered

ROUNDING = 1e-6
"""Cores and memory that differ by no more than this are the same."""

Share = tuple[int, int]
"""(node row, GPUs) of a placement in the making."""


class Room:
    """Free GPUs, CPUs and memory by node."""

    __slots__ = ("cpus", "gpus", "memory_gib")

    def __init__(self, gpus: Ints, cpus: Floats, memory_gib: Floats) -> None:
        self.gpus = gpus
        self.cpus = cpus
        self.memory_gib = memory_gib

    def copy(self) -> "Room":
        return Room(self.gpus.copy(), self.cpus.copy(), self.memory_gib.copy())

    def common(self, other: "Room") -> "Room":
        """What both have."""
        return Room(
            np.minimum(self.gpus, other.gpus),
            np.minimum(self.cpus, other.cpus),
            np.minimum(self.memory_gib, other.memory_gib),
        )

    def offered(self, kind: Kind, tier: Tier) -> Ints:
        """GPUs each node of the tier can give to this kind now."""
        offered = gpus_offered(kind, self.gpus, self.cpus, self.memory_gib)
        return offered if tier.mask is None else offered * tier.mask

    def holds(self, node: int, seat: Seat) -> bool:
        """Whether there is room for that seat, as it is."""
        return bool(
            self.gpus[node] >= seat.gpus
            and self.cpus[node] >= seat.cpus - ROUNDING
            and self.memory_gib[node] >= seat.memory_gib - ROUNDING
        )

    def take(self, kind: Kind, shares: Sequence[Share]) -> None:
        for node, gpus in shares:
            self.gpus[node] -= gpus
            self.cpus[node] -= host_cpus(kind, gpus)
            self.memory_gib[node] -= host_memory_gib(kind, gpus)

    def give(self, seats: Iterable[tuple[int, int, float, float]]) -> None:
        """Add seats (node, GPUs, CPUs, memory) that are going to be free."""
        for node, gpus, cpus, memory_gib in seats:
            self.gpus[node] += gpus
            self.cpus[node] += cpus
            self.memory_gib[node] += memory_gib

    def stands(self, shares: Iterable[Share], rounding: float = ROUNDING) -> bool:
        """Whether no more than there is was taken on the nodes of these shares."""
        nodes = [node for node, _ in shares]
        return bool(
            (self.gpus[nodes] >= 0).all()
            and (self.cpus[nodes] >= -rounding).all()
            and (self.memory_gib[nodes] >= -rounding).all()
        )


def in_pieces(shares: Sequence[Share], most_gpus: int) -> tuple[Share, ...]:
    """The same shares, none larger than that."""
    return tuple(
        (node, min(most_gpus, gpus - begin))
        for node, gpus in shares
        for begin in range(0, max(gpus, 1), most_gpus)
    )


def host_cpus(kind: Kind, gpus: int) -> float:
    return kind.cpus_per_gpu * gpus if gpus else kind.cpus


def host_memory_gib(kind: Kind, gpus: int) -> float:
    return kind.memory_gib_per_gpu * gpus if gpus else kind.memory_gib
