"""Whether what was promised can be had now: GPUs, cores and memory beside all that is held."""

from collections.abc import Sequence

from weft.brain.state.brain_state import BrainState
from weft.model.kind import Kind
from weft.policy.place.room import ROUNDING, Share, host_cpus, host_memory_gib


def nodes_are_free(state: BrainState, slot: int) -> bool:
    """Whether a pledged job's nodes could hold it now beside all that is held.

    Who is to take turns comes once the lead is there.
    """
    lead = state.seating.company.lead(slot)
    if lead != slot and not state.state_of(lead).holds_seats:
        return False
    by_node: dict[int, list[int]] = {}
    for row in state.seating.seat_rows[slot]:
        by_node.setdefault(int(state.seats.node[row]), []).append(row)
    for node, rows in by_node.items():
        if not state.nodes.present[node] or state.nodes.cordoned[node]:
            return False
        held = sum(state.seating.held_on[node].values())
        if held + int(state.seats.gpus[rows].sum()) > int(state.nodes.gpus[node]):
            return False
        if state.counts_host and not host_rows_fit(state, node, rows):
            return False
    return True


def host_fits(state: BrainState, kind: Kind, shares: Sequence[Share]) -> bool:
    """Whether the nodes have the cores and the memory now, beside all that is held and fed."""
    return all(
        _host_has(state, node, host_cpus(kind, gpus), host_memory_gib(kind, gpus))
        for node, gpus in shares
    )


def host_rows_fit(state: BrainState, node: int, rows: list[int]) -> bool:
    seats = state.seats
    return _host_has(
        state, node, float(seats.cpus[rows].sum()), float(seats.memory_gib[rows].sum())
    )


def _host_has(state: BrainState, node: int, cpus: float, memory_gib: float) -> bool:
    """Whether so much more fits on the node beside what is held there and what is fed."""
    others, seats = list(state.seating.held_on[node]), state.seats
    cpus += float((seats.cpus[others] + seats.fed_cpus[others]).sum())
    memory_gib += float((seats.memory_gib[others] + seats.fed_gib[others]).sum())
    cpus_fit = cpus <= float(state.nodes.cpus[node]) + ROUNDING
    return cpus_fit and memory_gib <= float(state.nodes.memory_gib[node]) + ROUNDING
