"""Eviction: seats for a job from running jobs that must yield to it.

Two rights exist. A recipe may let running jobs yield to those that rank before them, once they
have run for a while; and a queue within its guarantee may reclaim what it has lent. Either way
the worst-ranked go first, as few as make room for the tightest placement, and nobody is
stopped unless the job that needs the seats is granted them.
"""

import numpy as np

from weft.brain import gates
from weft.brain.desk import Desk
from weft.brain.outcome import Outcome
from weft.brain.victims import NEVER, Victim, Victims
from weft.model.kind import Kind
from weft.model.snapshot import Ints
from weft.policy.place.packing import Offer

ROUNDING = 1e-9


class Eviction:
    """The search for victims in one round."""

    def __init__(self, desk: Desk, outcome: Outcome, running: Ints, positions: Ints) -> None:
        self._desk = desk
        self._outcome = outcome
        self._hopeless: set[int] = set()
        jobs, yielding = desk.snapshot.jobs, desk.recipe.yielding
        may = jobs.preemptible[running]
        if yielding is not None and yielding.min_run_seconds and not desk.divided:
            may = may & (desk.now - jobs.started[running] >= yielding.min_run_seconds)
        self.victims = Victims(desk.state, running[may], positions[may])

    def room_in_quota(
        self, position: int, queue: int, kind: Kind, width: int
    ) -> list[Victim] | None:
        """Worse-ranked jobs under the refusing queue whose end makes room in it; None if none."""
        desk = self._desk
        if gates.quota(desk, kind, queue, width) is None:
            return []
        if desk.recipe.yielding is None:
            return None
        firm, chosen = not kind.preemptible, []
        for victim in self.victims.worst(self.victims.count_behind(position)):
            refusing = desk.ledger.refusing(queue, width, firm=firm)
            if refusing is None:
                break
            under = refusing in desk.state.quota.paths[victim.queue]
            if under and self._may_yield(queue, victim):
                chosen.append(victim)
                desk.ledger.give(victim.queue, victim.width)
        enough = desk.ledger.refusing(queue, width, firm=firm) is None
        for victim in chosen:
            desk.ledger.take(victim.queue, victim.width)
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
    ) -> tuple[Offer, list[Victim]] | None:
        """An offer that is good enough, and those who must go for it (the `forced` anyway).

        What fails for a key fails for all who come after it: they have fewer victims.
        """
        if key in self._hopeless:
            return None
        if not forced and self._simple(kind, width):
            found = self._clear_one_node(position, kind, width)
        else:
            eligible = self._eligible(slot, position, width)
            eligible = forced + [victim for victim in eligible if victim not in forced]
            found = self._search(slot, kind, width, forced=forced, eligible=eligible)
        if found is None:
            self._hopeless.add(key)
        return found

    def _simple(self, kind: Kind, width: int) -> bool:
        """One GPU type, GPUs only, no rights of queues, and one node is the place to be."""
        desk = self._desk
        tiers = desk.fabric.site(kind).tiers
        return (
            not desk.divided
            and not kind.counts_host
            and len(tiers) == 1
            and tiers[0].mask is None
            and 0 < width <= int(tiers[0].capacity.max(initial=0))
            and (kind.locality.per_node_doubling > 0 or width == 1 or kind.max_nodes == 1)
        )

    def _clear_one_node(
        self, position: int, kind: Kind, width: int
    ) -> tuple[Offer, list[Victim]] | None:
        desk = self._desk
        count = self.victims.count_behind(position)
        if not count or desk.free + self.victims.gpus_of(count) < width:
            return None
        free = np.where(desk.fabric.usable, desk.room.gpus, -NEVER)
        found = self.victims.one_node(count, free, width)
        if found is None:
            return None
        node, victims = found
        speed = desk.fabric.site(kind).tiers[0].speed
        offer = Offer(((node, width),), 1, 1.0, speed)
        return offer, self._needed(offer, kind, [], victims) if len(victims) > 1 else victims

    def evict(self, victims: list[Victim], beneficiary: int, width: int) -> bool:
        """Put their seats on the desk; whether more is free afterwards than is asked for."""
        desk = self._desk
        queue = desk.queue(beneficiary)
        for victim in victims:
            reclaim = desk.divided and victim.queue != queue
            self._outcome.preempted[victim.slot] = (beneficiary, reclaim)
        desk.give(victims)
        self.victims.remove(victims)
        spare = sum(victim.width for victim in victims) > width
        if spare:
            self._hopeless.clear()
        return spare

    def _eligible(self, slot: int, position: int, width: int) -> list[Victim]:
        """Running jobs that may have to yield to this one, worst rank first."""
        desk = self._desk
        count = self.victims.count_behind(position)
        if desk.divided:
            return self._lawful(desk.queue(slot), width, count)
        if not count or desk.free + self.victims.gpus_of(count) < width:
            return []
        return self.victims.worst(count)

    def _lawful(self, queue: int, width: int, behind: int) -> list[Victim]:
        """Those whom the queues' rights allow to go, each after those before it are gone."""
        ledger, chosen = self._desk.ledger, []
        for index, victim in enumerate(self.victims.worst(len(self.victims.slots))):
            claimed = victim.queue != queue and ledger.may_reclaim(queue, width, victim.queue)
            if claimed or (index < behind and self._may_yield(queue, victim)):
                chosen.append(victim)
                ledger.give(victim.queue, victim.width)
        for victim in chosen:
            ledger.take(victim.queue, victim.width)
        return chosen

    def _may_yield(self, queue: int, victim: Victim) -> bool:
        """By rank, a job yields to its own queue, and to others only what its queue borrows."""
        if not self._ran_enough(victim):
            return False
        desk = self._desk
        mine = victim.queue == queue or not desk.divided
        return mine or desk.ledger.borrows(queue, victim.queue)

    def _ran_enough(self, victim: Victim) -> bool:
        yielding = self._desk.recipe.yielding
        if yielding is None:
            return False
        started = float(self._desk.snapshot.jobs.started[victim.slot])
        return self._desk.now - started >= yielding.min_run_seconds

    def _search(
        self, slot: int, kind: Kind, width: int, *, forced: list[Victim], eligible: list[Victim]
    ) -> tuple[Offer, list[Victim]] | None:
        """The fewest of the eligible, worst first, whose seats make an offer good enough.

        More and more are released, twice as many each time; then the shortest list that does
        is found between the last two.
        """
        low, high, step = len(forced) - 1, len(forced), 1
        offer = self._offer_without(slot, kind, width, eligible[:high])
        while offer is None:
            if high == len(eligible):
                return None
            low, high, step = high, min(high + step, len(eligible)), step * 2
            offer = self._offer_without(slot, kind, width, eligible[:high])
        while high - low > 1:
            middle = (low + high) // 2
            fewer = self._offer_without(slot, kind, width, eligible[:middle])
            low, high, offer = (middle, high, offer) if fewer is None else (low, middle, fewer)
        return offer, self._needed(offer, kind, forced, eligible[len(forced) : high])

    def _offer_without(self, slot: int, kind: Kind, width: int, gone: list[Victim]) -> Offer | None:
        """A placement that the job would take if these were gone."""
        desk = self._desk
        trial = desk.room.copy()
        for victim in gone:
            trial.give(victim.seats)
        if int(trial.gpus.sum()) < width:
            return None
        offer = desk.recipe.place(trial, desk.fabric, kind, width, avoid=desk.reserved)
        return offer if offer is not None and self._good_enough(slot, offer) else None

    def _good_enough(self, slot: int, offer: Offer) -> bool:
        return offer.slowdown <= 1.0 or self._desk.patience_left_seconds(slot, offer) <= 0

    def _needed(
        self, offer: Offer, kind: Kind, forced: list[Victim], released: list[Victim]
    ) -> list[Victim]:
        """Leave out those without whom the offer stands as well, best-ranked first."""
        nodes = {node for node, _ in offer.shares}
        kept = [v for v in released if any(node in nodes for node, *_ in v.seats)]
        for victim in sorted(kept, key=lambda v: v.position):
            fewer = [other for other in kept if other is not victim]
            if self._stands(offer, kind, forced + fewer):
                kept = fewer
        return forced + kept

    def _stands(self, offer: Offer, kind: Kind, victims: list[Victim]) -> bool:
        trial = self._desk.room.copy()
        for victim in victims:
            trial.give(victim.seats)
        trial.take(kind, offer.shares)
        nodes = [node for node, _ in offer.shares]
        return bool(
            (trial.gpus[nodes] >= 0).all()
            and (trial.cpus[nodes] >= -ROUNDING).all()
            and (trial.memory_gib[nodes] >= -ROUNDING).all()
        )


def nobody(desk: Desk, outcome: Outcome) -> Eviction:
    """An eviction without candidates."""
    none = np.zeros(0, np.int64)
    return Eviction(desk, outcome, none, none)
