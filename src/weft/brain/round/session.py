"""The session: what a round has before it while it hands seats out.

A working copy of the free columns and of the queues' use, changed by every grant; the state
behind it stays as it is until the round is over.
"""

from collections.abc import Callable, Sequence

import numpy as np

from weft.brain.round.holds import Holds
from weft.brain.round.kinder import unkind_nodes
from weft.brain.round.outcome import Granted
from weft.brain.round.victims import Victim, seated
from weft.brain.state.brain_state import BrainState
from weft.brain.state.neighbour_book import label_of
from weft.brain.state.waits import REASON_ROW
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.place.packing import Offer
from weft.policy.place.room import Room
from weft.policy.recipe import Recipe, Yielding
from weft.policy.supply import NO_SUPPLY, Supply
from weft.policy.tenancy.quota import NO_LIMIT, QuotaLedger

PATIENT_ROW = REASON_ROW[ReasonCode.LOCALITY_WAIT]


class Session:
    """State, snapshot and recipe, and what is left to give.

    `on_offer` are the rows of seats that running jobs would do without: they have been given
    already, so nobody's end gives them again. `overdue` are those who have waited too long.
    """

    def __init__(self, state: BrainState, now: float, recipe: Recipe) -> None:
        self.state = state
        self.now = now
        self.recipe = recipe
        self.snapshot: Snapshot = state.snapshot(now)
        self.fabric = state.fabric
        moves = recipe.resizing or recipe.planning or recipe.defragmenting or recipe.sharing
        self.room = free_room(state, moves=moves is not None)
        self.restricted = state.quota.limited
        self.divided = state.quota.divided
        own = state.own_use() if self.restricted else [0] * len(state.quota.ids)
        self.ledger = QuotaLedger(state.quota, own)
        self.holds = Holds(state, now, self.room, self.ledger) if _keeps(state, recipe) else None
        self.free = int(self.room.gpus.sum())
        self.free_at_begin = self.free
        self.reserved: Bools | None = None
        self.reserved_until = 0.0
        self.on_offer: set[int] = set()
        self.overdue: frozenset[int] = frozenset()
        self._held: QuotaLedger | None = None

    def kind(self, slot: int) -> Kind:
        return self.state.kinds[int(self.snapshot.jobs.kind[slot])]

    def queue(self, slot: int) -> int:
        return int(self.snapshot.jobs.queue[slot])

    def growth_room(self, slot: int) -> int:
        """By how many GPUs its queue lets the job grow now; what others are leaving counts."""
        if not self.restricted:
            return NO_LIMIT
        queue, firm = self.queue(slot), not self.snapshot.jobs.preemptible[slot]
        room = min(self.ledger.room(queue, firm=firm), self.held.room(queue))
        return max(room, 0)

    @property
    def held(self) -> QuotaLedger:
        """Use by queue of all that is held, also by those who are leaving."""
        if self._held is None:
            own = self.state.own_use(held_only=True)
            self._held = QuotaLedger(self.state.quota, own)
        return self._held

    def offer(self, slot: int, kind: Kind, width: int) -> Offer | None:
        """A placement on what is free, off the nodes that are kept for others."""
        if width > self.free:
            return None
        avoid = None if self.reserved is None or self.gone_in_time(slot) else self.reserved
        offer = self.recipe.place(self.room, self.fabric, kind, width, avoid=avoid)
        return offer if offer is None else self._kinder(slot, kind, offer, width=width, avoid=avoid)

    def minds_neighbours(self, slot: int) -> bool:
        """Whether it matters to it, or to others, who sits beside it."""
        near = self.state.neighbours.slowdowns.near
        return bool(near) and label_of(self.state.spec(slot)) in near

    def _kinder(
        self, slot: int, kind: Kind, offer: Offer, *, width: int, avoid: Bools | None
    ) -> Offer:
        """One that is as good, beside others whom it does not slow; else the same."""
        if not self.minds_neighbours(slot):
            return offer
        unkind = unkind_nodes(self.state, slot, width, self.now)
        if unkind is None or not any(unkind[node] for node, _ in offer.shares):
            return offer
        away = unkind if avoid is None else unkind | avoid
        other = self.recipe.place(self.room, self.fabric, kind, width, avoid=away)
        if other is None or other.speed / other.slowdown < offer.speed / offer.slowdown:
            return offer
        return other

    def open_hold(self, slot: int) -> None:
        """What is kept for this one is there for it alone."""
        if self.holds is not None and slot in self.holds:
            self.free += self.holds.open(slot)

    def shut_hold(self, slot: int) -> None:
        """It was not seated."""
        if self.holds is not None and slot in self.holds:
            self.free -= self.holds.shut(slot)

    def end_hold(self, slot: int) -> bool:
        """It was seated; whether something was kept for it."""
        if self.holds is None or slot not in self.holds:
            return False
        self.holds.end(slot)
        return True

    def is_kept_from(self, kind: Kind, width: int) -> bool:
        """Whether the kind would find seats if nothing were kept for gangs that failed."""
        if self.holds is None or width > self.free + self.holds.gpus:
            return False
        return self.recipe.place(self.holds.all_open(), self.fabric, kind, width) is not None

    def gone_in_time(self, slot: int) -> bool:
        """Whether the job would be over before the reservation is due."""
        return self.now + self.remaining_seconds(slot) <= self.reserved_until

    def all_gone_in_time(self) -> Bools:
        """The same for all waiting jobs, by slot."""
        left = self.snapshot.remaining_seconds(np.arange(len(self.snapshot.jobs.active)))
        in_time: Bools = self.now + left <= self.reserved_until
        return in_time

    def take(self, granted: Granted, kind: Kind) -> None:
        self.room.take(kind, granted.shares)
        self.free -= granted.width
        if self.restricted:
            self.ledger.take(self.queue(granted.slot), granted.width)

    def give(self, victims: Sequence[Victim]) -> None:
        for victim in victims:
            self.room.give(victim.seats)
            self.free += sum(gpus for _, gpus, *_ in victim.seats)
            if self.restricted:
                self.ledger.give(victim.queue, victim.width)

    def moved(
        self, slot: int, width: int, pays: Callable[[Offer], bool] | None = None
    ) -> Granted | None:
        """Another start on what is free and what the job has itself, where there is one that pays.

        Where there is none, the job keeps what it has.
        """
        kind, own = self.kind(slot), seated(self.state, slot)
        self.give([own])
        offer = self.offer(slot, kind, width)
        if offer is None or (pays is not None and not pays(offer)):
            self.take_back(own, kind)
            return None
        granted = Granted(slot, width, offer.shares)
        self.take(granted, kind)
        return granted

    def take_back(self, victim: Victim, kind: Kind) -> None:
        shares = tuple((row, gpus) for row, gpus, *_ in victim.seats)
        self.room.take(kind, shares)
        self.free -= sum(gpus for _, gpus in shares)
        if self.restricted:
            self.ledger.take(victim.queue, victim.width)

    def may_go(self, slots: Ints, yielding: Yielding) -> Bools:
        """Which of these running jobs yield by now, each with all who take turns with it."""
        jobs = self.snapshot.jobs

        def may(some: Ints) -> Bools:
            ran = self.now - jobs.started[some]
            ripe = yielding.may_go(ran, jobs.saves_every_seconds[some], jobs.spared[some])
            return ripe & jobs.yields[some]

        return self._all_members(slots, may)

    def preemptible(self, slots: Ints) -> Bools:
        """Which of these may be stopped at all, each with all who take turns with it."""
        jobs = self.snapshot.jobs
        return self._all_members(slots, lambda some: jobs.preemptible[some])

    def _all_members(self, slots: Ints, true: Callable[[Ints], Bools]) -> Bools:
        found, company = true(slots), self.state.seating.company
        for lead in company.leads():
            others = np.array(company.companions(lead), np.int64)
            found &= (slots != lead) | true(others).all()
        return found

    def remaining_seconds(self, slot: int) -> float:
        """Seconds that a waiting job has left; NaN where nobody knows."""
        return float(self.snapshot.remaining_seconds(np.array([slot]))[0])

    def patience_left_seconds(self, slot: int, offer: Offer) -> float:
        """How much longer the job waits for a tighter placement than this one.

        One that has waited too long takes what there is: seats that others would have to leave
        come with no other wait in which its patience could end.
        """
        if slot in self.overdue:
            return 0.0
        jobs = self.snapshot.jobs
        bound = self.recipe.patience.bound_seconds(offer.avoidable, self.remaining_seconds(slot))
        waited = float(jobs.locality_waited[slot])
        if jobs.reason[slot] == PATIENT_ROW:
            waited += self.now - float(jobs.waiting_since[slot])
        return bound - waited - self.recipe.rounds.spacing_seconds

    def sized(self, slots: Ints, *, overdue: Bools | None = None) -> Ints:
        """The width that the recipe says for each of these, first to last in rank.

        Those of them who are `overdue` have waited too long. A width at which a job does not run is
        rounded down to one at which it does.
        """
        supply = NO_SUPPLY
        if self.recipe.resizing is not None:
            ledger = self.ledger if self.restricted else None
            supply = Supply.of(self.snapshot, slots, ledger, overdue=overdue)
        return self._runnable(slots, self.recipe.size(self.snapshot, slots, supply))

    def _runnable(self, slots: Ints, widths: Ints) -> Ints:
        rounded = self.state.runnable
        if not rounded:
            return widths
        pairs = zip(slots.tolist(), widths.tolist(), strict=True)
        return np.array([rounded.rounded(slot, gpus) for slot, gpus in pairs], np.int64)

    def suitable_free(self, kind: Kind) -> int:
        """Free GPUs on nodes that suit the kind."""
        tiers = self.fabric.site(kind).tiers
        return int(sum(self.room.offered(kind, tier).sum() for tier in tiers))

    def lost_gpus(self) -> int:
        """GPUs on nodes that are lost or cordoned."""
        return int(self.fabric.nodes.gpus[~self.fabric.usable].sum())

    def aside_gpus(self) -> int:
        """GPUs on nodes that are there and set aside."""
        state, nodes = self.state, self.fabric.nodes
        rows = [state.node_row.get(one.node) for one in state.failures.health.aside]
        return sum(int(nodes.gpus[row]) for row in rows if row is not None and nodes.present[row])


def _keeps(state: BrainState, recipe: Recipe) -> bool:
    """Whether seats are kept for somebody; not where everybody is placed anew in each round."""
    yielding = recipe.yielding
    anew = yielding is not None and (yielding.reshuffle or yielding.regrouping is not None)
    return bool(state.failures.holds) and not anew and recipe.planning is None


def free_room(state: BrainState, *, moves: bool = False) -> Room:
    """What can be given away: seats being left are owed to the pledges first.

    With `moves` also to those who are stopping in order to start elsewhere.
    """
    owed = _owed_to_moves(state) if moves and state.next_assignment else None
    return state.vacancy.room(counts_host=state.counts_host, owed=owed)


def _owed_to_moves(state: BrainState) -> Floats:
    """GPUs, CPUs and memory by node that jobs will have which are stopping to move."""
    owed = np.zeros((3, state.fabric.count))
    for assignment in state.next_assignment.values():
        for seat in assignment.placement.seats:
            owed[:, state.node_row[seat.node]] += (seat.gpus, seat.cpus, seat.memory_gib)
    return owed
