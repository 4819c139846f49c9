"""Reshuffle: everybody placed anew in every round, as some published simulators do.

Kept for conformance. All ranked jobs are put on a cluster on which nobody sits, in order, skipping
what does not fit; those who run elsewhere than before move.
"""

import numpy as np

from weft.brain.desk import Desk
from weft.brain.outcome import Granted, Outcome
from weft.brain.state import REASON_ROW
from weft.brain.victims import seated
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State


def reshuffle(desk: Desk, outcome: Outcome, running: Ints) -> None:
    """Fill in grants, moves, preemptions and reasons; who sits on a cordoned node stays."""
    staying = set()
    for slot in running.tolist():
        sits = seated(desk.state, slot)
        if sum(gpus for _, gpus, *_ in sits.seats) == sits.width:
            desk.give([sits])
        else:
            staying.add(slot)
    waiting, reasons, displaced = [], [], []
    widths = desk.recipe.size(desk.snapshot, outcome.ranked).tolist()
    for slot, width in zip(outcome.ranked.tolist(), widths, strict=True):
        if slot in staying:
            continue
        kind = desk.kind(slot)
        runs = desk.snapshot.jobs.state[slot] == State.RUNNING
        offer = desk.offer(slot, kind, width)
        if offer is not None:
            granted = Granted(slot, width, offer.shares)
            desk.take(granted, kind)
            _seat_anew(desk, outcome, granted, runs=bool(runs))
        elif runs:
            displaced.append(slot)
        else:
            waiting.append(slot)
            reasons.append(REASON_ROW[_why(desk, kind, width)])
    takers = outcome.grants or outcome.moves
    for slot in displaced if takers else ():
        outcome.preempted[slot] = (takers[0].slot, False)
    outcome.waiting = np.array(waiting, np.int64)
    outcome.reasons = np.array(reasons, np.int64)


def _seat_anew(desk: Desk, outcome: Outcome, granted: Granted, *, runs: bool) -> None:
    if not runs:
        outcome.grants.append(granted)
        return
    sits = seated(desk.state, granted.slot).seats
    if tuple((node, gpus) for node, gpus, *_ in sits) != granted.shares:
        outcome.moves.append(granted)


def _why(desk: Desk, kind: Kind, width: int) -> ReasonCode:
    if width > desk.fabric.site(kind).largest_ever_gpus:
        return ReasonCode.CONSTRAINT_NEVER
    return ReasonCode.CAPACITY_BUSY
