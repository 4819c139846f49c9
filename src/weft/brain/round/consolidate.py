"""Consolidation: a job that is spread over more nodes than it needs moves together where that pays.

Jobs that grow and shrink piece by piece end up wherever a GPU was free, and being spread slows them
down for as long as they run (Philly: 15 % for every doubling of the nodes). A move is a stop and a
start, and costs what these have been measured to cost and what the job has not saved; it is made
when it saves several times that.
"""

import numpy as np

from weft.brain.round.outcome import Outcome
from weft.brain.round.session import Session
from weft.brain.round.worth import Change, price_seconds, seconds_left
from weft.model.placement import Placement, Seat
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.recipe import Resizing

MOST_MOVES = 16
"""In one round: every move shakes the others' plans."""

SETTLED_SECONDS = 60.0
"""A job that has just started is left alone."""


def consolidate(session: Session, outcome: Outcome, resizing: Resizing) -> None:
    """Add moves of running jobs to the outcome."""
    spread = _spread(session)
    if not len(spread):
        return
    fewest = session.fabric.fewest_nodes
    busy = outcome.changing
    slots = _settled(session, outcome, spread)
    prices = price_seconds(session.snapshot, slots, Change.RESTART, resizing)
    costs = max(resizing.worth, 1.0) * prices
    for slot, cost in zip(slots.tolist(), costs.tolist(), strict=True):
        if len(outcome.moves) >= MOST_MOVES:
            return
        width, kind = int(session.snapshot.jobs.width[slot]), session.kind(slot)
        if slot not in busy and len(session.state.placement(slot).nodes) > fewest(kind, width):
            _move(session, outcome, slot, cost)


def _spread(session: Session) -> Ints:
    """Running jobs on several nodes that may be stopped; most GPUs first."""
    jobs, seats = session.snapshot.jobs, session.snapshot.seats
    several = np.bincount(seats.slot + 1, minlength=1) > 1
    several[0] = False
    held = np.flatnonzero(several[seats.slot + 1] & ~seats.pledged & ~seats.releasing)
    if not len(held):
        return held
    pairs = np.unique(seats.slot[held] * len(session.fabric.nodes.gpus) + seats.node[held])
    slots, nodes = np.unique(pairs // len(session.fabric.nodes.gpus), return_counts=True)
    slots = slots[nodes > 1]
    slots = slots[jobs.yields[slots] & (jobs.state[slots] == State.RUNNING)]
    found: Ints = slots[np.lexsort((jobs.seq[slots], -jobs.width[slots]))]
    return found


def _settled(session: Session, outcome: Outcome, slots: Ints) -> Ints:
    """Those who have been where they are for a while; for the others a round is asked for."""
    jobs = session.snapshot.jobs
    until = np.maximum(jobs.started[slots], jobs.resized[slots]) + SETTLED_SECONDS
    if (until > session.now).any():
        outcome.wake_by(float(until[until > session.now].min()))
    return slots[until <= session.now]


def _move(session: Session, outcome: Outcome, slot: int, cost: float) -> None:
    """If the same width would be faster on what is free and on what it has itself."""
    width = int(session.snapshot.jobs.width[slot])
    granted = session.moved(
        slot, width, lambda offer: 0 < _saved_seconds(session, slot, offer) >= cost
    )
    if granted is not None:
        outcome.moves.append(granted)


def _saved_seconds(session: Session, slot: int, offer: Offer) -> float:
    """How much sooner the job would end there; nothing, unless on fewer nodes."""
    state, present, one = session.state, session.state.placement(slot), np.array([slot])
    if len(offer.shares) >= len(present.nodes):
        return 0.0
    seats = tuple(Seat(state.node_ids[row], gpus) for row, gpus in offer.shares)
    now, then = state.speed_on(slot, present), state.speed_on(slot, Placement(seats))
    if not then > now > 0:
        return 0.0
    widths = session.snapshot.jobs.width[one]
    left = float(seconds_left(session.snapshot, one, widths)[0])
    return left * float(session.snapshot.speeds(one, widths)[0]) * (1.0 / now - 1.0 / then)
