"""Switching: running jobs that go to another plan, and another width, while they train.

Such a job keeps the seats that it has. It is given more beside them, or leaves some, the nodes on
which it has fewest first; and on what it has then, the best plan is taken. So nothing is stopped,
and the way back is the job's own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.brain.round import gates
from weft.brain.round.bidding import Bidding
from weft.brain.round.outcome import Granted, Outcome, Stretched
from weft.brain.round.session import Session
from weft.brain.round.shrink_step import shrink_steps
from weft.brain.round.victims import Victim
from weft.model.placement import Seat
from weft.model.plan import ExecutionPlan
from weft.model.snapshot import Bools
from weft.policy.place.room import Share
from weft.policy.plans.bids import Bid, Option


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A job that is to go to fewer GPUs: what it leaves, and what it computes by then."""

    slot: int
    gone: tuple[Seat, ...]
    given: Victim
    plan: ExecutionPlan


class Switching:
    """Of one round."""

    def __init__(self, session: Session, bidding: Bidding) -> None:
        self._session, self._bidding = session, bidding
        self._free_now = session.room.copy()

    def narrowed(self, bids: Sequence[Bid], chosen: Mapping[int, Option]) -> list[Narrowed]:
        """Those who were chosen to go to fewer GPUs, where their seats allow just that."""
        found = []
        for bid in bids:
            option, held = chosen.get(bid.slot), bid.held
            if bid.live and held is not None and option is not None and option.gpus < held.gpus:
                found.append(self._leaving(bid.slot, held.gpus - option.gpus, option))
        return [one for one in found if one is not None]

    def narrow(self, narrowed: Sequence[Narrowed], outcome: Outcome) -> None:
        """They leave seats for those who got some; where nobody did, they stay."""
        session, rows = self._session, self._session.state.node_row
        for one in narrowed:
            if not outcome.grants:
                session.take_back(one.given, session.kind(one.slot))
                continue
            nodes = tuple(rows[seat.node] for seat in one.gone)
            numbers = frozenset(seat.number for seat in one.gone)
            outcome.stretched.append(Stretched(one.slot, numbers, nodes, plan=one.plan))

    def widened(self, bid: Bid, option: Option) -> Stretched | None:
        """What was chosen on the seats that it has, with more beside them where it wants more."""
        session, slot = self._session, bid.slot
        assert bid.held is not None
        more = option.gpus - bid.held.gpus
        added = self._more(slot, more) if more else ()
        if added is None:
            return None
        best = self._bidding.option(slot, (*self._shares(slot), *added), option.cores)
        if best is None or best.speed <= bid.held.speed:
            return None
        if added:
            session.take(Granted(slot, more, added), session.kind(slot))
            self._free_now.take(session.kind(slot), added)
        return Stretched(slot, added=added, plan=best.plan)

    def _more(self, slot: int, gpus: int) -> tuple[Share, ...] | None:
        """Seats that are free at this moment: what others are about to leave is not.

        On the nodes that it is on, where these suffice: no plan is better for a network between.
        """
        session, kind = self._session, self._session.kind(slot)
        if gates.quota(session, kind, session.queue(slot), gpus) is not None:
            return None
        room = self._free_now.common(session.room)
        for avoid in (self._elsewhere(slot), session.reserved):
            offer = session.recipe.place(room, session.fabric, kind, gpus, avoid=avoid)
            if offer is not None:
                return offer.shares
        return None

    def _elsewhere(self, slot: int) -> Bools:
        """Nodes that it is not on, and those that are kept for others."""
        found: Bools = np.ones(self._session.fabric.count, np.bool_)
        found[[node for node, _ in self._shares(slot)]] = False
        return found if self._session.reserved is None else found | self._session.reserved

    def _shares(self, slot: int) -> tuple[Share, ...]:
        """GPUs that it has, by the row of their node."""
        state = self._session.state
        by_node = state.placement(slot).gpus_by_node
        return tuple((state.node_row[node], gpus) for node, gpus in by_node.items())

    def _leaving(self, slot: int, gpus: int, option: Option) -> Narrowed | None:
        """Seats with just so many GPUs together; None if its seats do not come to that."""
        state, gone = self._session.state, list[Seat]()
        placement = state.placement(slot)
        usable = frozenset(
            node for node in placement.nodes if state.fabric.usable[state.node_row[node]]
        )
        for step in shrink_steps(placement, usable, packed=False):
            if sum(seat.gpus for seat in gone) + step.gpus <= gpus:
                gone += step.seats
        if sum(seat.gpus for seat in gone) != gpus:
            return None
        left = placement.only(placement.numbers - {seat.number for seat in gone})
        shares = tuple((state.node_row[node], n) for node, n in left.gpus_by_node.items())
        best = self._bidding.option(slot, shares, option.cores)
        if best is None:
            return None
        rows = state.node_row
        seats = tuple((rows[s.node], s.gpus, s.cpus, s.memory_gib) for s in gone)
        given = Victim(slot, 0, gpus, int(state.jobs.queue[slot]), seats)
        return Narrowed(slot, tuple(gone), given, best.plan)
