"""Regrouping: who takes turns with whom is chosen anew in every round, as Muri's simulator does.

Kept for conformance, with `reshuffle`. The jobs that rank highest are candidates, four deep on
every GPU; a choice groups them, and groups are put on a cluster on which nobody sits, the widest
first. Who is to be elsewhere, or in other company, stops; it starts again in a round of the same
instant.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.brain.round.outcome import Granted, Joined, Outcome
from weft.brain.round.session import Session
from weft.brain.round.victims import seated
from weft.brain.state.waits import REASON_ROW
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints
from weft.model.stages import BUSY
from weft.model.state import State
from weft.perf.interleaving.group import foretold
from weft.policy.place.room import Share
from weft.policy.share.candidates import Candidates
from weft.policy.share.grouping import Group
from weft.policy.share.sharing import Regrouping

ALONE = foretold([BUSY])
BUSY_ROW = REASON_ROW[ReasonCode.CAPACITY_BUSY]


@dataclass(frozen=True, slots=True)
class _Placed:
    """A group on its GPUs; the member that stands first holds them."""

    members: tuple[int, ...]
    shares: tuple[Share, ...]
    group: Group


def regroup(session: Session, outcome: Outcome, running: Ints, regrouping: Regrouping) -> None:
    """Fill in grants, joins, moves, preemptions and reasons."""
    company = session.state.seating.company
    for slot in running.tolist():
        if not company.is_companion(slot):
            session.give([seated(session.state, slot)])
    ranked = outcome.ranked.tolist()
    placed = _placed(session, ranked, regrouping)
    for one in placed:
        _settle(session, outcome, one)
    inside = {slot for one in placed for slot in one.members}
    for slot in ranked:
        if slot not in inside and session.snapshot.jobs.state[slot] == State.RUNNING:
            outcome.preempted[slot] = (slot, False)
    started = {*(g.slot for g in outcome.grants), *(j.slot for j in outcome.joins)}
    waits = session.snapshot.jobs.state[outcome.ranked] == State.QUEUED
    waiting = [slot for slot in outcome.ranked[waits].tolist() if slot not in started]
    outcome.waiting = np.array(waiting, np.int64)
    outcome.reasons = np.full(len(waiting), BUSY_ROW)


# --- whose company --------------------------------------------------------------------------------


def _placed(session: Session, ranked: Sequence[int], regrouping: Regrouping) -> list[_Placed]:
    chosen = _candidates(session, ranked, regrouping.depth)
    jobs, left, found = session.snapshot.jobs, session.free, []
    rank = {slot: place for place, slot in enumerate(ranked)}
    taken = []
    for group in sorted(_groups(session, chosen, regrouping), key=lambda one: one.lead):
        members = tuple(chosen[row] for row in group.members)
        gpus = int(jobs.asked_gpus[members[0]])
        if gpus <= left:
            left -= gpus
            taken.append((members, gpus, group))
    for members, gpus, group in sorted(taken, key=lambda one: (-one[1], rank[one[0][0]])):
        kind = session.kind(members[0])
        offer = session.offer(members[0], kind, gpus)
        if offer is not None:
            session.take(Granted(members[0], gpus, offer.shares), kind)
            found.append(_Placed(members, offer.shares, group))
    return found


def _candidates(session: Session, ranked: Sequence[int], depth: int) -> list[int]:
    """First to last, so many deep on what each width could be given alone."""
    room, jobs = session.room.copy(), session.snapshot.jobs
    beside: dict[int, int] = {}
    found = []
    for slot in ranked:
        gpus, kind = int(jobs.asked_gpus[slot]), session.kind(slot)
        if beside.get(gpus, 0):
            beside[gpus] -= 1
            found.append(slot)
            continue
        offer = session.recipe.place(room, session.fabric, kind, gpus, avoid=None)
        if offer is not None:
            room.take(kind, offer.shares)
            beside[gpus] = depth - 1
            found.append(slot)
    return found


def _groups(session: Session, slots: Sequence[int], regrouping: Regrouping) -> list[Group]:
    """By the choice; where a group would do less than its members in turn, each alone.

    So is who would not share, or of whose stages nothing is known.
    """
    state = session.state
    claims = [state.spec(slot).stages if state.spec(slot).shareable else None for slot in slots]
    known = [(row, claim.profile) for row, claim in enumerate(claims) if claim is not None]
    found = [Group((row,), ALONE) for row, claim in enumerate(claims) if claim is None]
    profiles = list(dict.fromkeys(profile for _, profile in known))
    numbers = {profile: number for number, profile in enumerate(profiles)}
    gpus = [int(session.snapshot.jobs.asked_gpus[slots[row]]) for row, _ in known]
    jobs = Candidates.of(gpus, [numbers[own] for _, own in known], profiles, cap=regrouping.cap)
    for group in regrouping.choice(jobs, session.free, regrouping.limits).groups if known else ():
        rows = tuple(known[row][0] for row in group.members)
        if len(rows) == 1 or group.forecast.aggregate >= 1.0:
            found.append(Group(rows, group.forecast))
        else:
            found += [Group((row,), ALONE) for row in rows]
    return found


# --- what has to change for it ------------------------------------------------------------------


def _settle(session: Session, outcome: Outcome, placed: _Placed) -> None:
    """Somebody who sits there already leads, if there is one; the others join or come over."""
    lead = next((slot for slot in placed.members if _leads(session, slot, placed)), None)
    if lead is None:
        _seat_anew(session, outcome, placed)
        return
    jobs, company = session.snapshot.jobs, session.state.seating.company
    for slot in placed.members:
        if slot == lead or company.lead(slot) == lead:
            continue
        if jobs.state[slot] == State.RUNNING:
            outcome.preempted[slot] = (slot, False)
        else:
            outcome.joins.append(Joined(slot, lead, placed.group.forecast, np.inf))
    for slot in company.companions(lead):
        if slot not in placed.members and jobs.state[slot] == State.RUNNING:
            outcome.preempted[slot] = (slot, False)


def _leads(session: Session, slot: int, placed: _Placed) -> bool:
    """Whether it holds just these GPUs now."""
    if session.snapshot.jobs.state[slot] != State.RUNNING:
        return False
    if session.state.seating.company.is_companion(slot):
        return False
    sits = session.state.placement(slot).gpus_by_node
    rows = session.state.node_row
    return tuple((rows[node], gpus) for node, gpus in sits.items()) == placed.shares


def _seat_anew(session: Session, outcome: Outcome, placed: _Placed) -> None:
    """One that waits gets the seats; if all run, they stop, and come in the next round."""
    jobs = session.snapshot.jobs
    waiting = [slot for slot in placed.members if jobs.state[slot] == State.QUEUED]
    if waiting:
        width = int(jobs.asked_gpus[waiting[0]])
        outcome.grants.append(Granted(waiting[0], width, placed.shares))
    for slot in placed.members:
        if jobs.state[slot] == State.RUNNING:
            outcome.preempted[slot] = (slot, False)
