"""Defragmentation: small jobs move together so that a gang that waits for whole nodes finds them.

A gang may wait though as many GPUs are free as it needs, because they are on too many nodes. Jobs
that lose little by it then move to what is free elsewhere. What the gang would wait for otherwise
nobody knows; it is taken to be as long as it has waited already, so that a move is made when
waiting has cost as much as moving would.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.brain.round import gates
from weft.brain.round.outcome import Granted, Outcome
from weft.brain.round.session import Session
from weft.brain.round.victims import Victim, seated
from weft.brain.round.worth import restart_seconds
from weft.brain.state.waits import REASON_ROW
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Bools, Floats, Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.place.room import Room
from weft.policy.recipe import Defragmenting

SCATTERED = (REASON_ROW[ReasonCode.FRAGMENTED], REASON_ROW[ReasonCode.LOCALITY_WAIT])


Priced = tuple[float, Victim]
"""Who may move, after the GPU seconds that it costs."""


@dataclass(frozen=True, slots=True)
class _Option:
    """A node that could give so many GPUs, if these left."""

    node: int
    gpus: int
    gpu_seconds: float
    leaving: tuple[Victim, ...]


@dataclass(frozen=True, slots=True)
class Clearing:
    """Where the gang would sit, who would leave for it and where to, and what that costs."""

    gang: Granted
    leaving: tuple[Victim, ...]
    moves: tuple[Granted, ...]
    gpu_seconds: float


def defragment(session: Session, outcome: Outcome, rules: Defragmenting) -> None:
    """Add gangs that are given seats to the outcome, and who moves for them."""
    scattered = np.isin(outcome.reasons, SCATTERED)
    if scattered.any():
        _Defragmentation(session, outcome, rules).settle(outcome.waiting[scattered])


class _Defragmentation:
    def __init__(self, session: Session, outcome: Outcome, rules: Defragmenting) -> None:
        self._session, self._outcome, self._rules = session, outcome, rules
        self._movable = self._by_node()

    def settle(self, gangs: Ints) -> None:
        """The first few in rank are helped, each if that pays."""
        asked = self._session.snapshot.jobs.asked_gpus
        served = []
        for slot in gangs[: self._rules.most_asked].tolist():
            width = int(asked[slot])
            clearing = self._clearing(slot, width) if self._lawful(slot, width) else None
            if clearing is not None and self._pays(slot, clearing):
                self._clear(clearing)
                served.append(slot)
        self._forget_waits(served)

    def _lawful(self, slot: int, width: int) -> bool:
        kind, queue = self._session.kind(slot), self._session.queue(slot)
        return gates.quota(self._session, kind, queue, width) is None

    def _pays(self, slot: int, clearing: Clearing) -> bool:
        """Whether the gang has waited for as much as the moves cost; if not, when it will have."""
        since = float(self._session.snapshot.jobs.queued_since[slot])
        due = since + self._rules.worth * clearing.gpu_seconds / clearing.gang.width
        if due > self._session.now:
            self._outcome.wake_by(due)
        return due <= self._session.now

    # --- where to make room -------------------------------------------------------------------

    def _clearing(self, slot: int, width: int) -> Clearing | None:
        """The cheapest nodes to clear, if those who leave them find room on the others."""
        kind = self._session.kind(slot)
        choices = [self._chosen(kind, width, pool) for pool in self._pools()]
        complete = [one for one in choices if sum(option.gpus for option in one) == width]
        if not complete:
            return None
        chosen = min(complete, key=_price)
        leaving = tuple(victim for option in chosen for victim in option.leaving)
        gang = Granted(slot, width, tuple((one.node, one.gpus) for one in chosen))
        moves = self._elsewhere(gang, kind, leaving) if leaving else None
        return None if moves is None else Clearing(gang, leaving, moves, _price(chosen))

    def _pools(self) -> list[int]:
        """A gang never spans two of them."""
        found: list[int] = np.unique(self._session.fabric.nodes.pool).tolist()
        return found

    def _chosen(self, kind: Kind, width: int, pool: int) -> list[_Option]:
        """The cheapest nodes of one pool; too few where there are not enough."""
        capacity = np.where(self._session.fabric.nodes.pool == pool, self._capacity(kind), 0)
        chosen: list[_Option] = []
        for gpus, count in _parts(kind, width, int(capacity.max(initial=0))):
            used = {option.node for option in chosen}
            options = [one for one in self._options(capacity, gpus) if one.node not in used]
            chosen += sorted(options, key=lambda one: (one.gpu_seconds, one.node))[:count]
        return chosen

    def _capacity(self, kind: Kind) -> Ints:
        """GPUs by node of the type that suits the kind best; 0 where nothing may start."""
        tiers = self._session.fabric.site(kind).tiers
        capacity = tiers[0].capacity if tiers else np.zeros(self._session.fabric.count, np.int64)
        found: Ints = np.where(self._session.fabric.usable, capacity, 0)
        return found

    def _options(self, capacity: Ints, gpus: int) -> Iterator[_Option]:
        """Nodes that could give so many, who would leave each, and at which price."""
        for node in np.flatnonzero(capacity >= gpus).tolist():
            missing = gpus - int(self._session.room.gpus[node])
            leaving = _leaving(self._movable.get(node, []), missing)
            if leaving is not None:
                price = sum(cost for cost, _ in leaving)
                yield _Option(node, gpus, price, tuple(victim for _, victim in leaving))

    def _by_node(self) -> dict[int, list[Priced]]:
        """By node, who may be asked to go."""
        session = self._session
        slots = self._may_move()
        prices: Floats = restart_seconds(session.snapshot, slots)
        found: dict[int, list[Priced]] = {}
        for slot, price in zip(slots.tolist(), prices.tolist(), strict=True):
            victim = seated(session.state, slot)
            nodes = {node for node, *_ in victim.seats}
            if len(nodes) == 1:
                found.setdefault(nodes.pop(), []).append((price * victim.width, victim))
        return found

    def _may_move(self) -> Ints:
        """Running jobs that yield, save, have sat there for long, and share with nobody."""
        session, jobs = self._session, self._session.snapshot.jobs
        may: Bools = jobs.active & (jobs.state == State.RUNNING) & jobs.yields & (jobs.width > 0)
        may &= np.isfinite(jobs.saves_every_seconds)
        slots = np.flatnonzero(may)
        ripe = np.maximum(jobs.started[slots], jobs.resized[slots]) + self._rules.stay_seconds
        if (ripe > session.now).any():
            self._outcome.wake_by(float(ripe[ripe > session.now].min()))
        slots = slots[ripe <= session.now]
        busy = self._busy()
        free = [slot not in busy for slot in slots.tolist()]
        found: Ints = slots[np.array(free, bool)]
        return found

    def _busy(self) -> set[int]:
        """Those for whom something is to change anyway, and those who share."""
        seating = self._session.state.seating
        sharing = (
            slot for lead in seating.company.leads() for slot in seating.company.members(lead)
        )
        return {*self._outcome.changing, *seating.feeding, *sharing}

    # --- and where to go ----------------------------------------------------------------------

    def _elsewhere(
        self, gang: Granted, kind: Kind, leaving: tuple[Victim, ...]
    ) -> tuple[Granted, ...] | None:
        """Seats off the gang's nodes for each who leaves, no worse than those it has."""
        session = self._session
        trial = session.room.copy()
        for victim in leaving:
            trial.give(victim.seats)
        trial.take(kind, gang.shares)
        if not trial.stands(gang.shares):
            return None
        avoid = np.zeros(len(trial.gpus), bool) if session.reserved is None else session.reserved
        avoid = avoid.copy()
        avoid[[node for node, _ in gang.shares]] = True
        moves = []
        for victim in sorted(leaving, key=lambda one: (-one.width, one.slot)):
            offer = self._offer(trial, victim, avoid)
            if offer is None:
                return None
            trial.take(session.kind(victim.slot), offer.shares)
            moves.append(Granted(victim.slot, victim.width, offer.shares))
        return tuple(moves)

    def _offer(self, trial: Room, victim: Victim, avoid: Bools) -> Offer | None:
        session, kind = self._session, self._session.kind(victim.slot)
        offer = session.recipe.place(trial, session.fabric, kind, victim.width, avoid=avoid)
        return offer if offer is not None and len(offer.shares) == 1 else None

    # --- what follows -------------------------------------------------------------------------

    def _clear(self, clearing: Clearing) -> None:
        session, outcome = self._session, self._outcome
        session.give(clearing.leaving)
        session.take(clearing.gang, session.kind(clearing.gang.slot))
        for moved in clearing.moves:
            session.take(moved, session.kind(moved.slot))
        outcome.grants.append(clearing.gang)
        outcome.moves.extend(clearing.moves)
        gone = {moved.slot for moved in clearing.moves}
        for node, there in self._movable.items():
            self._movable[node] = [one for one in there if one[1].slot not in gone]

    def _forget_waits(self, served: list[int]) -> None:
        outcome = self._outcome
        outcome.wait_no_more(served)
        if outcome.reservation is not None and outcome.reservation.slot in served:
            outcome.reservation = None


def _price(options: list[_Option]) -> float:
    return sum(option.gpu_seconds for option in options)


def _parts(kind: Kind, width: int, most: int) -> list[tuple[int, int]]:
    """What the gang needs of a node, and of how many; nothing where that is not allowed."""
    if not most:
        return []
    whole, rest = divmod(width, most)
    if kind.max_nodes is not None and whole + (rest > 0) > kind.max_nodes:
        return []
    return [(gpus, count) for gpus, count in ((most, whole), (rest, 1)) if gpus and count]


def _leaving(movable: list[Priced], missing: int) -> list[Priced] | None:
    """The cheapest of these who leave as many GPUs as are missing; None if they do not."""
    chosen: list[Priced] = []
    for one in sorted(movable, key=lambda one: (one[0] / one[1].width, one[1].slot)):
        if missing <= 0:
            break
        chosen.append(one)
        missing -= one[1].width
    if missing > 0:
        return None
    for one in sorted(chosen, key=lambda one: -one[0]):
        if missing + one[1].width <= 0:
            chosen.remove(one)
            missing += one[1].width
    return chosen
