"""Whether an assignment fits once everybody who is leaving has left.

Seats may be promised ahead of time, but only where nothing else than a departure stands between a
job and them: on nodes that are there and take seats, with the GPUs, the cores and the memory that
nobody else is promised, and within the quota.
"""

from weft.brain.state.brain_state import BrainState
from weft.model.decision import Assignment
from weft.model.placement import Placement
from weft.policy.place.room import ROUNDING


def fits_later(state: BrainState, slot: int, assignment: Assignment) -> bool:
    """Of a job that holds no seats now, beside all who stay or are promised seats."""
    return state.quota_fits(slot, assignment.width, state.use(held_only=False)) and all(
        _node_fits_later(state, state.node_row[node], assignment.placement)
        for node in assignment.placement.nodes
    )


def is_open(state: BrainState, node: int) -> bool:
    """Whether the node is there and takes seats."""
    return bool(state.nodes.present[node]) and not state.nodes.cordoned[node]


def _node_fits_later(state: BrainState, node: int, placement: Placement) -> bool:
    if not is_open(state, node):
        return False
    seats, nodes, count = state.seats, state.nodes, state.seat_count
    stays = (seats.node[:count] == node) & ~seats.releasing[:count] & (seats.slot[:count] >= 0)
    mine = [seat for seat in placement.seats if state.node_row[seat.node] == node]
    gpus = int(seats.gpus[:count][stays].sum()) + sum(seat.gpus for seat in mine)
    if gpus > int(nodes.gpus[node]):
        return False
    if not state.counts_host:
        return True
    cpus = float(seats.cpus[:count][stays].sum()) + sum(seat.cpus for seat in mine)
    memory_gib = float(seats.memory_gib[:count][stays].sum())
    memory_gib += sum(seat.memory_gib for seat in mine)
    cpus_fit = cpus <= float(nodes.cpus[node]) + ROUNDING
    return cpus_fit and memory_gib <= float(nodes.memory_gib[node]) + ROUNDING
