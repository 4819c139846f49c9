"""A reservation: nodes kept for a gang that others keep overtaking.

The nodes chosen are those that are expected to be whole soonest, from what running jobs have left;
a job may still pass if it stays off these nodes or is gone before the gang could start.
"""

from dataclasses import dataclass

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.model.kind import Kind
from weft.model.snapshot import Bools, Floats

UNKNOWN_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Reservation:
    """`nodes` are kept for the job in `slot`, expected to be free at `at`."""

    slot: int
    nodes: Bools
    at: float


def reserve(state: BrainState, now: float, slot: int, kind: Kind, width: int) -> Reservation | None:
    """Keep the fewest nodes that free up first, inside one pool."""
    fabric = state.fabric
    free_at = _whole_at(state, now)
    best: Reservation | None = None
    for tier in fabric.site(kind).tiers:
        for pool in np.unique(fabric.nodes.pool):
            inside = np.flatnonzero((fabric.nodes.pool == pool) & (tier.capacity > 0))
            order = inside[np.lexsort((inside, -tier.capacity[inside], free_at[inside]))]
            if width <= int(tier.capacity.max(initial=0)):
                order = order[tier.capacity[order] >= width]
            reached = np.cumsum(tier.capacity[order])
            needed = int(np.searchsorted(reached, width)) + 1
            if needed > len(order):
                continue
            nodes = np.zeros(fabric.count, bool)
            nodes[order[:needed]] = True
            at = float(free_at[order[:needed]].max())
            if best is None or at < best.at:
                best = Reservation(slot, nodes, at)
    return best


def _whole_at(state: BrainState, now: float) -> Floats:
    """When each node is expected to be whole again."""
    fabric, count = state.fabric, state.seat_count
    free_at = np.full(fabric.count, now)
    rows = np.flatnonzero(state.seats.slot[:count] >= 0)
    slots = state.seats.slot[rows]
    jobs = state.jobs
    speed = np.where(jobs.speed[slots] > 0, jobs.speed[slots], jobs.pace[slots])
    left = state.snapshot(now).remaining_work(slots) / np.maximum(speed, 1e-12)
    left = np.where(np.isnan(left), UNKNOWN_SECONDS, left)
    np.maximum.at(free_at, state.seats.node[rows], now + left)
    return free_at
