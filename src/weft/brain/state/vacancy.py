"""Vacancy: what can be given away on each node.

Summed from the seats, like every use, but only of the nodes where something has changed since it
was last asked for: most rounds find a handful of them.
"""

import numpy as np

from weft.brain.state.node_table import NodeTable
from weft.brain.state.seating import Seating
from weft.model.snapshot import Bools, Floats, Ints
from weft.policy.place.fabric import Fabric
from weft.policy.place.room import Room

GPUS, CPUS, MEMORY = range(3)


class Vacancy:
    """Free GPUs, cores and memory by node; a round is given a copy."""

    def __init__(self, seating: Seating, nodes: NodeTable) -> None:
        self._seating = seating
        self._nodes = nodes
        self._fabric: Fabric | None = None
        self._hosts = False
        self._free = Room(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))

    def room(self, *, counts_host: bool, owed: Floats | None = None) -> Room:
        """What is left beside all that is held, and pledged or `owed` beyond what is being left."""
        if owed is not None:
            return free_room(self._seating, self._nodes.fabric, counts_host=counts_host, owed=owed)
        return self._present(counts_host=counts_host).copy()

    def free_gpus(self, nodes: list[int]) -> Ints:
        """Of these nodes."""
        found: Ints = self._present(counts_host=self._hosts).gpus[nodes]
        return found

    def _present(self, *, counts_host: bool) -> Room:
        fabric, stale = self._nodes.fabric, self._seating.stale
        if fabric is not self._fabric or counts_host != self._hosts:
            self._fabric, self._hosts = fabric, counts_host
            self._free = free_room(self._seating, fabric, counts_host=counts_host)
            stale.clear()
        elif stale:
            self._freshen(fabric, stale)
            stale.clear()
        return self._free

    def _freshen(self, fabric: Fabric, stale: set[int]) -> None:
        """In the order of rows: a sum of fractions depends on it."""
        free, nodes, seats = self._free, fabric.nodes, self._seating.seats
        for node in stale:
            if not fabric.usable[node]:
                continue
            rows = self._seating.rows_on(node)
            given = _given(rows, seats.gpus, seats.releasing, seats.pledged)
            free.gpus[node] = max(int(nodes.gpus[node]) - int(given), 0)
            if self._hosts:
                given = _given(rows, seats.cpus, seats.releasing, seats.pledged)
                free.cpus[node] = nodes.cpus[node] - given
                given = _given(rows, seats.memory_gib, seats.releasing, seats.pledged)
                free.memory_gib[node] = nodes.memory_gib[node] - given


def free_room(
    seating: Seating, fabric: Fabric, *, counts_host: bool, owed: Floats | None = None
) -> Room:
    """The same, of all nodes anew."""
    usable, nodes, seats, count = fabric.usable, fabric.nodes, seating.seats, seating.seat_count
    gpus = nodes.gpus - _committed(seating, fabric, seats.gpus[:count], owed, GPUS).astype(np.int64)
    gpus = np.where(usable, gpus, 0).clip(min=0)
    if not counts_host:
        plenty: Floats = np.where(usable, np.inf, 0.0)
        return Room(gpus, plenty, plenty)
    cpus = nodes.cpus - _committed(seating, fabric, seats.cpus[:count], owed, CPUS)
    memory = nodes.memory_gib - _committed(seating, fabric, seats.memory_gib[:count], owed, MEMORY)
    return Room(gpus, np.where(usable, cpus, 0.0), np.where(usable, memory, 0.0))


def _given(rows: list[int], amounts: Ints | Floats, releasing: Bools, pledged: Bools) -> float:
    """What is held, or pledged beyond what is being released."""
    firm = leaving = coming = 0.0
    for row in rows:
        leaves, comes, amount = releasing[row], pledged[row], float(amounts[row])
        if leaves:
            leaving += amount
        if comes:
            coming += amount
        if not (leaves or comes):
            firm += amount
    return firm + max(leaving, coming)


def _committed(
    seating: Seating, fabric: Fabric, amounts: Ints | Floats, owed: Floats | None, resource: int
) -> Floats | Ints:
    """By node: what is held, or pledged or owed beyond what is being released."""
    seats, count = seating.seats, seating.seat_count
    where = seats.node[:count]
    releasing, pledged = seats.releasing[:count], seats.pledged[:count]
    if owed is None and not (releasing.any() or pledged.any()):
        return np.bincount(where, amounts, minlength=fabric.count)
    firm = np.bincount(where, amounts * ~(releasing | pledged), minlength=fabric.count)
    leaving = np.bincount(where, amounts * releasing, minlength=fabric.count)
    coming = np.bincount(where, amounts * pledged, minlength=fabric.count)
    if owed is not None:
        coming = coming + owed[resource]
    return firm + np.maximum(leaving, coming)
