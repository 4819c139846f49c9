"""Reshuffle: everybody placed anew in every round, as some published simulators do.

Kept for conformance. All ranked jobs are put on a cluster on which nobody sits, in order, skipping
what does not fit; those who run elsewhere than before move.
"""

import numpy as np

from weft.brain.round.outcome import Granted, Outcome
from weft.brain.round.session import Session
from weft.brain.round.victims import seated
from weft.brain.state.waits import REASON_ROW
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints
from weft.model.state import State


def reshuffle(session: Session, outcome: Outcome, running: Ints) -> None:
    """Fill in grants, moves, preemptions and reasons.

    Who does not yield stays, and who sits on a cordoned node.
    """
    staying = set()
    for slot in running.tolist():
        sits = seated(session.state, slot)
        whole = sum(gpus for _, gpus, *_ in sits.seats) == sits.width
        if whole and session.snapshot.jobs.yields[slot]:
            session.give([sits])
        else:
            staying.add(slot)
    waiting, reasons, displaced = [], [], []
    widths = session.sized(outcome.ranked).tolist()
    for slot, width in zip(outcome.ranked.tolist(), widths, strict=True):
        if slot in staying:
            continue
        kind = session.kind(slot)
        runs = session.snapshot.jobs.state[slot] == State.RUNNING
        offer = session.offer(slot, kind, width)
        if offer is not None:
            granted = Granted(slot, width, offer.shares)
            session.take(granted, kind)
            _seat_anew(session, outcome, granted, runs=bool(runs))
        elif runs:
            displaced.append(slot)
        else:
            waiting.append(slot)
            reasons.append(REASON_ROW[_why(session, kind, width)])
    takers = outcome.grants or outcome.moves
    for slot in displaced if takers else ():
        outcome.preempted[slot] = (takers[0].slot, False)
    outcome.waiting = np.array(waiting, np.int64)
    outcome.reasons = np.array(reasons, np.int64)


def _seat_anew(session: Session, outcome: Outcome, granted: Granted, *, runs: bool) -> None:
    if not runs:
        outcome.grants.append(granted)
        return
    sits = seated(session.state, granted.slot).seats
    if tuple((node, gpus) for node, gpus, *_ in sits) != granted.shares:
        outcome.moves.append(granted)


def _why(session: Session, kind: Kind, width: int) -> ReasonCode:
    if width > session.fabric.site(kind).largest_ever_gpus:
        return ReasonCode.CONSTRAINT_NEVER
    return ReasonCode.CAPACITY_BUSY
