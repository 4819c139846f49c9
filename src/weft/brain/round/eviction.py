"""Eviction: seats for a job from running jobs that must yield to it.

The worst-ranked of those who may go, go first, as few as make room for the tightest placement, and
nobody is stopped unless the job that needs the seats is granted them.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, compress, islice

import numpy as np

from weft.brain.round import gates
from weft.brain.round.outcome import Outcome
from weft.brain.round.rights import Rights
from weft.brain.round.session import Session
from weft.brain.round.victims import NEVER, Victim, Victims, least_lost_first
from weft.model.kind import Kind
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.place.room import Room

ROUNDING = 1e-9

Found = tuple[Offer, list[Victim]]


class Eviction:
    """The search for victims in one round."""

    def __init__(
        self, session: Session, outcome: Outcome, running: Ints, positions: Ints, late: Bools | None
    ) -> None:
        """`late` says of each position in the ranking whether its job has waited too long."""
        self._session = session
        self._outcome = outcome
        self._hopeless: set[int] = set()
        yielding = session.recipe.yielding
        may = session.preemptible(running)
        if yielding is not None and not session.divided and late is None:
            may = may & session.may_go(running, yielding)
        order = None
        if yielding is not None and yielding.by_loss:
            order = least_lost_first(session.snapshot, running[may])
        self._victims = Victims(
            session.state, running[may], positions[may], session.on_offer, order
        )
        self._rights = Rights(session, self._victims, late)

    def room_in_quota(
        self, position: int, queue: int, kind: Kind, width: int
    ) -> list[Victim] | None:
        """Worse-ranked jobs whose end makes room under the limits; None if that is not enough."""
        session = self._session
        if gates.quota(session, kind, queue, width) is None:
            return []
        firm, ledger, chosen = not kind.preemptible, session.ledger, []
        for step in session.state.quota.paths[queue]:
            if ledger.refusing(queue, width, firm=firm) != step:
                continue
            below = self._rights.under(step, queue, width, position)
            for victim in map(self._victims.__getitem__, list(self._lawful(queue, below))):
                if ledger.refusing(queue, width, firm=firm) != step:
                    break
                if victim not in chosen:
                    chosen.append(victim)
                    ledger.give(victim.queue, victim.width)
        enough = ledger.refusing(queue, width, firm=firm) is None
        for victim in chosen:
            ledger.take(victim.queue, victim.width)
        return chosen if enough else None

    def find(
        self,
        slot: int,
        key: int,
        position: int,
        *,
        kind: Kind,
        width: int,
        forced: list[Victim],
    ) -> Found | None:
        """An offer that is good enough, and those who must go for it (the `forced` anyway).

        What fails for a key fails for all who come after it: they have fewer victims. Only whoever
        has waited too long may take what the others would not.
        """
        if key in self._hopeless and slot not in self._session.overdue:
            return None
        found = self._find(slot, position, kind=kind, width=width, forced=forced)
        if found is None:
            self._hopeless.add(key)
        return found

    def evict(self, victims: list[Victim], beneficiary: int, width: int) -> bool:
        """Give their seats to the session; whether more is free afterwards than is asked for."""
        session = self._session
        queue = session.queue(beneficiary)
        for victim in victims:
            reclaim = session.divided and victim.queue != queue
            for member in reversed(session.state.seating.company.members(victim.slot)):
                if session.snapshot.jobs.state[member] == State.RUNNING:
                    self._outcome.preempted[member] = (beneficiary, reclaim)
        session.give(victims)
        self._victims.remove(victims)
        spare = sum(victim.width for victim in victims) > width
        if spare:
            self._hopeless.clear()
        return spare

    def granted(self) -> None:
        """Seats were handed out, by eviction or not: rights may have changed."""
        self._rights.changed()

    def _find(
        self, slot: int, position: int, *, kind: Kind, width: int, forced: list[Victim]
    ) -> Found | None:
        session, victims = self._session, self._victims
        if not session.divided and session.free + victims.gpus_behind(position) < width:
            return None
        queue = session.queue(slot)
        mask = self._lesser(self._rights.against(queue, width, position), slot)
        most = session.free + int(victims.widths[mask].sum()) + sum(v.width for v in forced)
        if most < width or not (forced or mask.any()):
            return None
        if not forced and self._sits_on_one_node(kind, width):
            found = self._clear_one_node(mask, kind, width)
            if found is None and slot not in session.overdue:
                return None
            if found is not None and self._all_lawful(queue, found[1]):
                return found
        elif not forced and not self._within_reach(slot, kind, width, mask):
            return None
        others = self._lawful(queue, mask & self._on_nodes_for(kind, width), forced)
        return self._search(slot, kind, width, forced=forced, others=others)

    def _all_lawful(self, queue: int, victims: list[Victim]) -> bool:
        pairs = [(victim.queue, victim.width) for victim in victims]
        return all(self._session.ledger.borrow_in_turn(queue, pairs))

    def _lawful(self, queue: int, mask: Bools, forced: Sequence[Victim] = ()) -> Iterator[int]:
        """Those of them, by index and worst first, who may go after the `forced` have gone: no
        lender falls below its own."""
        victims = self._victims
        mask = mask & ~np.isin(victims.slots, [victim.slot for victim in forced])
        indices = np.flatnonzero(mask)
        if not self._session.divided:
            return iter(indices.tolist())
        gone = [(victim.queue, victim.width) for victim in forced]
        queues, widths = victims.queues[indices].tolist(), victims.widths[indices].tolist()
        pairs = chain(gone, zip(queues, widths, strict=True))
        lawful = self._session.ledger.borrow_in_turn(queue, pairs)
        return compress(indices.tolist(), islice(lawful, len(gone), None))

    def _lesser(self, mask: Bools, slot: int) -> Bools:
        """Where who loses least goes, it is one of a lower priority; not so for the overdue."""
        session, yielding = self._session, self._session.recipe.yielding
        if yielding is None or not yielding.by_loss or slot in session.overdue:
            return mask
        priority = session.snapshot.jobs.priority
        lesser: Bools = mask & (priority[self._victims.slots] < priority[slot])
        return lesser

    def _on_nodes_for(self, kind: Kind, width: int) -> Bools:
        """Those with a seat where the kind could sit: nobody else's end would help it, and it would
        only use up what a lender can spare."""
        session = self._session
        serves = session.fabric.usable
        if width:
            tiers = session.fabric.site(kind).tiers
            serves = np.logical_or.reduce([tier.capacity > 0 for tier in tiers])
        return self._victims.sitting_on(serves)

    def _sits_on_one_node(self, kind: Kind, width: int) -> bool:
        """One GPU type, GPUs only, and one node is the place to be."""
        tiers = self._session.fabric.site(kind).tiers
        return (
            not kind.counts_host
            and len(tiers) == 1
            and tiers[0].mask is None
            and 0 < width <= int(tiers[0].capacity.max(initial=0))
            and (kind.locality.per_node_doubling > 0 or width == 1 or kind.max_nodes == 1)
        )

    def _clear_one_node(self, mask: Bools, kind: Kind, width: int) -> Found | None:
        session = self._session
        free = np.where(session.fabric.usable, session.room.gpus, -NEVER)
        found = self._victims.one_node(mask, free, width)
        if found is None:
            return None
        node, victims = found
        offer = Offer(((node, width),), 1, 1.0, session.fabric.site(kind).tiers[0].speed)
        return offer, self._needed(offer, kind, [], victims) if len(victims) > 1 else victims

    def _within_reach(self, slot: int, kind: Kind, width: int, mask: Bools) -> bool:
        """A quick no, before a long search: not even with all of them gone."""
        trial = self._victims.room_without(mask, self._session.room)
        return self._offer_in(trial, slot, kind, width) is not None

    def _search(
        self, slot: int, kind: Kind, width: int, *, forced: list[Victim], others: Iterator[int]
    ) -> Found | None:
        """The fewest of the others, worst first, whose seats make an offer good enough.

        More and more are released, twice as many each time; then the shortest list that does
        is found between the last two.
        """
        room = self._session.room.copy()
        for victim in forced:
            room.give(victim.seats)

        def offer_without(gone: list[int]) -> Offer | None:
            trial = self._victims.room_without(self._victims.these(gone), room)
            return self._offer_in(trial, slot, kind, width)

        released: list[int] = []
        low, high, step = -1, 0, 1
        offer = offer_without(released)
        while offer is None:
            released += islice(others, step)
            if len(released) == high:
                return None
            low, high, step = high, len(released), step * 2
            offer = offer_without(released)
        while high - low > 1:
            middle = (low + high) // 2
            fewer = offer_without(released[:middle])
            low, high, offer = (middle, high, offer) if fewer is None else (low, middle, fewer)
        return offer, self._needed(offer, kind, forced, self._on_its_nodes(offer, released[:high]))

    def _on_its_nodes(self, offer: Offer, released: list[int]) -> list[Victim]:
        """Those of them who sit where the offer is."""
        nodes = np.zeros(len(self._session.room.gpus), bool)
        nodes[[node for node, _ in offer.shares]] = True
        there = self._victims.sitting_on(nodes)
        return [self._victims[index] for index in released if there[index]]

    def _offer_in(self, room: Room, slot: int, kind: Kind, width: int) -> Offer | None:
        """A placement there that the job would take."""
        session = self._session
        if int(room.gpus.sum()) < width:
            return None
        offer = session.recipe.place(room, session.fabric, kind, width, avoid=session.reserved)
        return offer if offer is not None and self._good_enough(slot, offer) else None

    def _good_enough(self, slot: int, offer: Offer) -> bool:
        return offer.avoidable <= 1.0 or self._session.patience_left_seconds(slot, offer) <= 0

    def _needed(
        self, offer: Offer, kind: Kind, forced: list[Victim], released: list[Victim]
    ) -> list[Victim]:
        """Leave out those without whom the offer stands as well, who would go last first."""
        kept = released
        for victim in reversed(released):
            fewer = [other for other in kept if other is not victim]
            if self._stands(offer, kind, forced + fewer):
                kept = fewer
        return forced + kept

    def _stands(self, offer: Offer, kind: Kind, victims: list[Victim]) -> bool:
        trial = self._session.room.copy()
        for victim in victims:
            trial.give(victim.seats)
        trial.take(kind, offer.shares)
        return trial.stands(offer.shares, ROUNDING)
