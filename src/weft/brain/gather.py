"""Gathering: a job that is spread over more nodes than it needs moves together where that pays.

Jobs that grow and shrink piece by piece end up wherever a GPU was free, and being spread slows them
down for as long as they run (Philly: 15 % for every doubling of the nodes). A move is a stop and a
start, and costs what these have been measured to cost; it is made when it saves several times that.
"""

import numpy as np

from weft.brain.desk import Desk
from weft.brain.outcome import Outcome
from weft.brain.worth import restart_cost_seconds, seconds_left
from weft.model.placement import Placement, Seat
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.recipe import Resizing

MOST_MOVES = 16
"""In one round: every move shakes the others' plans."""

SETTLED_SECONDS = 60.0
"""A job that has just started is left alone."""


def gather(desk: Desk, outcome: Outcome, resizing: Resizing) -> None:
    """Add moves of running jobs to the outcome."""
    cost = max(resizing.worth, 1.0) * restart_cost_seconds(desk.snapshot, resizing)
    busy = {changed.slot for changed in outcome.stretched} | set(outcome.preempted)
    busy |= {moved.slot for moved in outcome.moves}
    for slot in _settled(desk, outcome, _spread(desk)).tolist():
        if len(outcome.moves) >= MOST_MOVES:
            return
        if slot not in busy:
            _move(desk, outcome, slot, cost)


def _spread(desk: Desk) -> Ints:
    """Running jobs on several nodes that may be stopped; most GPUs first."""
    jobs, seats = desk.snapshot.jobs, desk.snapshot.seats
    held = np.flatnonzero((seats.slot >= 0) & ~seats.pledged & ~seats.releasing)
    pairs = np.unique(seats.slot[held] * len(desk.fabric.nodes.gpus) + seats.node[held])
    slots, nodes = np.unique(pairs // len(desk.fabric.nodes.gpus), return_counts=True)
    slots = slots[nodes > 1]
    slots = slots[jobs.preemptible[slots] & (jobs.state[slots] == State.RUNNING)]
    found: Ints = slots[np.lexsort((jobs.seq[slots], -jobs.width[slots]))]
    return found


def _settled(desk: Desk, outcome: Outcome, slots: Ints) -> Ints:
    """Those who have been where they are for a while; for the others a round is asked for."""
    jobs = desk.snapshot.jobs
    until = np.maximum(jobs.started[slots], jobs.resized[slots]) + SETTLED_SECONDS
    if (until > desk.now).any():
        outcome.wake_by(float(until[until > desk.now].min()))
    return slots[until <= desk.now]


def _move(desk: Desk, outcome: Outcome, slot: int, cost: float) -> None:
    """If the same width would be faster on what is free and on what it has itself."""
    width, nodes = int(desk.snapshot.jobs.width[slot]), len(desk.state.placement(slot).nodes)
    if nodes <= desk.fabric.fewest_nodes(desk.kind(slot), width):
        return
    granted = desk.moved(slot, width, lambda offer: 0 < _saved_seconds(desk, slot, offer) >= cost)
    if granted is not None:
        outcome.moves.append(granted)


def _saved_seconds(desk: Desk, slot: int, offer: Offer) -> float:
    """How much sooner the job would end there; nothing, unless on fewer nodes."""
    state, present, one = desk.state, desk.state.placement(slot), np.array([slot])
    if len(offer.shares) >= len(present.nodes):
        return 0.0
    seats = tuple(Seat(state.node_ids[row], gpus) for row, gpus in offer.shares)
    now, then = state.speed_on(slot, present), state.speed_on(slot, Placement(seats))
    if not then > now > 0:
        return 0.0
    widths = desk.snapshot.jobs.width[one]
    left = float(seconds_left(desk.snapshot, one, widths)[0])
    return left * float(desk.snapshot.speeds(one, widths)[0]) * (1.0 / now - 1.0 / then)
