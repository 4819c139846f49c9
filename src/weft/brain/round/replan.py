"""Replanning: widths, plans and cores of all jobs chosen together, and then seated.

The choice counts GPUs and knows no nodes. So what was chosen is seated widest first; where nodes
are too broken up for it, a narrower option is taken, or the job waits. On the GPUs that it really
gets, the best plan there is taken.
"""

from dataclasses import replace
from functools import cached_property

import numpy as np

from weft.brain.round import gates
from weft.brain.round.bidding import Bidding
from weft.brain.round.outcome import Granted, Outcome
from weft.brain.round.session import Session
from weft.brain.round.switching import Switching
from weft.brain.round.victims import seated
from weft.brain.state.waits import REASON_ROW
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints
from weft.policy.place.room import Room
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.choice import choose
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning

NEARLY = 0.85
"""Seats on which a job would be slower than this part of what was chosen are not taken."""


def replan(session: Session, outcome: Outcome, planning: Planning) -> None:
    """Fill in grants, moves, preemptions and reasons."""
    Replan(session, planning).run(outcome)


class Replan:
    """One choice over all ranked jobs, and where it leads."""

    def __init__(self, session: Session, planning: Planning) -> None:
        self._session, self._planning, self._outcome = session, planning, Outcome()
        self._bidding = Bidding(session, planning)
        self._switching = Switching(session, self._bidding)
        self._restart = max(session.snapshot.restart_seconds, planning.least_restart_seconds)

    def run(self, outcome: Outcome) -> None:
        self._outcome = outcome
        bids, self._market = self.asked(self._outcome.ranked.tolist())
        chosen = choose(bids, self._market, self._planning)
        stopped = [bid.slot for bid in bids if bid.held and bid.slot not in chosen]
        self._session.give([seated(self._session.state, slot) for slot in stopped])
        narrowed = self._switching.narrowed(bids, chosen)
        self._session.give([one.given for one in narrowed])
        changed = [bid for bid in bids if chosen.get(bid.slot) not in (None, bid.held)]
        changed.sort(key=lambda bid: (-chosen[bid.slot].gpus, bid.seq))
        for bid in changed:
            if bid.held is None:
                self._seat(bid, chosen[bid.slot])
        self._stop(stopped)
        self._switching.narrow(narrowed, outcome)
        for bid in changed:
            if bid.held is not None:
                self._change(bid, bid.held, chosen[bid.slot])
        self._fill([bid for bid in bids if bid.held is None and bid.slot not in chosen])
        self._explain([bid for bid in bids if bid.held is None])
        if any(bid.held is not None and not bid.settled for bid in bids):
            self._outcome.wake_by(self._session.now + self._planning.again_seconds)

    def asked(self, slots: list[int]) -> tuple[list[Bid], Market]:
        """What these jobs bid, and what there is for them."""
        bids = [self._bidding.bid(slot) for slot in slots]
        return bids, self._priced(bids)

    def _priced(self, bids: list[Bid]) -> Market:
        session, book = self._session, self._session.state.plan_book
        active = np.flatnonzero(session.snapshot.jobs.active)
        served = book.served_gpu_seconds + float(session.snapshot.attained(active).sum())
        held = sum(bid.held.gpus for bid in bids if bid.held is not None)
        budget = self._planning.budget * served
        return Market(
            gpus=session.free + held,
            restart_seconds=self._restart,
            allowance=budget - book.paid_gpu_seconds,
            scarcity=min(book.paid_gpu_seconds / budget, 1.0) if budget > 0.0 else 0.0,
            room=self._room(bids),
        )

    def _room(self, bids: list[Bid]) -> tuple[int, ...]:
        """What each queue may hold, with what those who bid hold already."""
        session = self._session
        if not session.restricted:
            return ()
        room = [session.ledger.room(queue) for queue in range(len(session.state.quota.ids))]
        for bid in bids:
            if bid.held is not None:
                room[bid.queue] += bid.held.gpus
        return tuple(room)

    def _stop(self, slots: list[int]) -> None:
        """These go for those who got seats; where nobody did, they stay."""
        session, jobs = self._session, self._session.snapshot.jobs
        takers = [granted.slot for granted in self._outcome.grants]
        for slot in slots:
            if takers:
                first = max(takers, key=lambda taker: int(jobs.priority[taker]))
                self._outcome.preempted[slot] = (first, False)
            else:
                session.take_back(seated(session.state, slot), session.kind(slot))

    def _fill(self, bids: list[Bid]) -> None:
        """What is left where others could not be seated: nobody waits beside GPUs that suffice."""
        for bid in sorted(bids, key=lambda bid: bid.seq):
            offered = self._planning.offered(bid, self._market)
            worthiest = max(
                (one for one in offered if one.gpus <= self._session.free),
                key=lambda one: self._planning.worth(bid, one, self._restart),
                default=None,
            )
            if worthiest is not None:
                self._seat(bid, worthiest)

    def _seat(self, bid: Bid, option: Option) -> None:
        """What was chosen, or the next narrower that there are nodes for."""
        for way in self._ways(bid, option):
            granted = self._granted(bid, way)
            if granted is None:
                continue
            (self._outcome.moves if bid.held else self._outcome.grants).append(granted)
            return

    def _change(self, bid: Bid, held: Option, option: Option) -> None:
        """While it trains, on what it has and more; or by another start."""
        if not bid.live:
            self._seat(bid, option)
            return
        switched = None if option.gpus < held.gpus else self._switching.widened(bid, option)
        if switched is not None:
            self._outcome.stretched.append(switched)

    def _ways(self, bid: Bid, option: Option) -> list[Option]:
        """What was chosen first; of one that waits then narrower ones, the worthiest first."""
        if bid.held is not None:
            return [option]
        offered = self._planning.offered(bid, self._market)
        rest = [one for one in offered if one.gpus < option.gpus]
        rest.sort(key=lambda one: -self._planning.worth(bid, one, self._restart))
        return [option, *rest]

    def _granted(self, bid: Bid, option: Option) -> Granted | None:
        session, slot = self._session, bid.slot
        kind = with_cores(session.kind(slot), option.cores)
        queue, own = session.queue(slot), seated(session.state, slot) if bid.held else None
        if own is not None:
            session.give([own])
        offer = None
        if gates.quota(session, kind, queue, option.gpus) is None:
            offer = session.offer(slot, kind, option.gpus)
        best = None
        if offer is not None:
            best = self._bidding.option(slot, offer.shares, option.cores)
        if offer is None or best is None or not self._is_taken(bid, option, best):
            if own is not None:
                session.take_back(own, session.kind(slot))
            return None
        granted = Granted(slot, option.gpus, offer.shares, best.plan, option.cores)
        session.take(granted, kind)
        return granted

    def _is_taken(self, bid: Bid, option: Option, there: Option) -> bool:
        """Whether seats are as good as what was chosen, or as these nodes ever allow."""
        least = self._ever(bid.slot, option)
        promised = least if option.as_asked else bid.promised
        if bid.promised and there.speed < promised:
            return False
        return there.speed >= NEARLY * least

    def _ever(self, slot: int, option: Option) -> float:
        """Its speed if all nodes were free: they may be smaller than the forecast took them."""
        session = self._session
        kind = with_cores(session.kind(slot), option.cores)
        offer = session.recipe.place(self._empty, session.fabric, kind, option.gpus)
        best = None
        if offer is not None:
            best = self._bidding.option(slot, offer.shares, option.cores)
        return min(option.speed, best.speed) if best is not None else 0.0

    @cached_property
    def _empty(self) -> Room:
        """All nodes that take seats, with nobody on them."""
        nodes, usable = self._session.fabric.nodes, self._session.fabric.usable
        return Room(
            np.where(usable, nodes.gpus, 0),
            np.where(usable, nodes.cpus, 0.0),
            np.where(usable, nodes.memory_gib, 0.0),
        )

    def _explain(self, bids: list[Bid]) -> None:
        """Why those wait who were given nothing."""
        started = {granted.slot for granted in self._outcome.grants}
        waiting = [bid for bid in bids if bid.slot not in started]
        self._outcome.waiting = np.array([bid.slot for bid in waiting], np.int64)
        reasons: Ints = np.array([REASON_ROW[self._why(bid)] for bid in waiting], np.int64)
        self._outcome.reasons = reasons

    def _why(self, bid: Bid) -> ReasonCode:
        session, kind = self._session, self._session.kind(bid.slot)
        least = min((one.gpus for one in self._planning.keeping_promise(bid)), default=0)
        queue = session.queue(bid.slot)
        found = gates.never(session, kind, queue, least) or gates.quota(session, kind, queue, least)
        if found is not None:
            return found
        if session.offer(bid.slot, kind, least) is not None:
            return ReasonCode.LOCALITY_WAIT
        return gates.supply(session, kind, least)


def with_cores(kind: Kind, cores: float) -> Kind:
    return kind if cores == kind.cpus_per_gpu else replace(kind, cpus_per_gpu=cores)
