"""One round: rank, size, group and place, and say why everybody else waits.

The round walks the waiting jobs in rank order on a working copy of what is free. A job is
granted seats that are free; failing that, and where the recipe lets running jobs yield, seats of
jobs that rank behind it, worst first, so that a job is preempted only for one that then
starts. Where queues have guarantees, those who stay within theirs go first and may reclaim what
was lent. What failed for one kind of job fails for all of that kind until something is given
back, so the walk costs as much as there are kinds, not jobs.
"""

from dataclasses import dataclass, field

import numpy as np

from weft.brain.reservation import Reservation, reserve
from weft.brain.state import REASON_ROW, BrainState
from weft.brain.victims import Victim, Victims, seated
from weft.model.kind import Kind
from weft.model.reason import ReasonCode
from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State
from weft.policy.order.ranking import Ranking
from weft.policy.place.packing import Offer
from weft.policy.place.room import Room, Share
from weft.policy.recipe import Passing, Recipe
from weft.policy.tenancy.quota import QuotaLedger

SEVERAL = 1 << 20
"""Kinds and widths are joined into one number; no job is wider than this."""


@dataclass(frozen=True, slots=True)
class Granted:
    """Seats for one job; empty `victims` means that they are free now."""

    slot: int
    width: int
    shares: tuple[Share, ...]
    victims: tuple[int, ...] = ()


@dataclass(slots=True)
class Outcome:
    """What a round found, by slot."""

    grants: list[Granted] = field(default_factory=list)
    moves: list[Granted] = field(default_factory=list)
    preempted: dict[int, tuple[int, bool]] = field(default_factory=dict)
    waiting: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    reasons: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    candidates: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ranked: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    ranking: Ranking | None = None
    reservation: Reservation | None = None
    wake: float | None = None


def decide(state: BrainState, now: float, recipe: Recipe) -> Outcome:
    """Run one round on the state as it stands; changes nothing."""
    return Round(state, now, recipe).run()


class Round:
    """The working memory of one round."""

    def __init__(self, state: BrainState, now: float, recipe: Recipe) -> None:
        self.state = state
        self.now = now
        self.recipe = recipe
        self.snapshot: Snapshot = state.snapshot(now)
        self.fabric = state.fabric
        self.room = free_room(state)
        self.free = int(self.room.gpus.sum())
        self.free_at_begin = self.free
        self.lost = _lost_gpus(state)
        self.ledger = QuotaLedger(state.quota, _own_use(state))
        self.outcome = Outcome()
        self.failed: dict[int, int] = {}
        self.offers: dict[int, Offer] = {}
        self._victims: Victims | None = None
        self._hopeless: set[int] = set()
        self._restricted = any(state.quota.restricted)
        self.running: Ints = np.zeros(0, np.int64)
        self.running_at: Ints = np.zeros(0, np.int64)
        self.reservation: Reservation | None = None
        self._quota_victims: list[Victim] = []

    # --- the walk --------------------------------------------------------------------------------

    def run(self) -> Outcome:
        waiting = self._ready()
        if not len(waiting) and not self.recipe.rounds.after_starts:
            return self.outcome
        self._rank(waiting)
        if self.recipe.yielding is not None and self.recipe.yielding.reshuffle:
            return self._reshuffle()
        slots = self.outcome.waiting
        widths = self.recipe.size(self.snapshot, slots)
        keys = (self.snapshot.jobs.kind[slots] * SEVERAL + widths).tolist()
        reasons = self._walk(slots.tolist(), keys, widths.tolist())
        granted = {grant.slot for grant in self.outcome.grants}
        if granted:
            left = np.array([slot not in granted for slot in slots.tolist()], bool)
            self.outcome.waiting = slots[left]
            self.outcome.reasons = np.array(reasons, np.int64)[left]
        else:
            self.outcome.reasons = np.array(reasons, np.int64)
        return self.outcome

    def _ready(self) -> Ints:
        jobs = self.snapshot.jobs
        queued = jobs.active & (jobs.state == State.QUEUED) & (jobs.queue >= 0)
        return np.flatnonzero(queued & (jobs.not_before <= self.now))

    def _rank(self, waiting: Ints) -> None:
        """Order waiting jobs, and running ones among them where they may yield."""
        jobs, ranked = self.snapshot.jobs, waiting
        if self.recipe.yielding is not None or self.state.quota.divided:
            running = np.flatnonzero(jobs.active & (jobs.state == State.RUNNING))
            ranked = np.concatenate([waiting, running])
        ranking = self.recipe.order(self.snapshot, ranked)
        ordered = ranked[ranking.sorted(self.snapshot, ranked)]
        self.outcome.candidates = ranked
        self.outcome.ranked, self.outcome.ranking = ordered, ranking
        self.outcome.wake = ranking.wake
        if len(ranked) == len(waiting):
            self.outcome.waiting = ordered
            self.positions = range(len(ordered))
            return
        runs = jobs.state[ordered] == State.RUNNING
        self.running_at = np.flatnonzero(runs)
        self.running = ordered[self.running_at]
        positions = np.flatnonzero(~runs)
        self.outcome.waiting = ordered[positions]
        self.positions = positions.tolist()

    def _walk(self, slots: list[int], keys: list[int], widths: list[int]) -> list[int]:
        """Reasons, by job in rank order; 0 for those that got seats."""
        if self.state.quota.divided:
            return self._walk_divided(slots, keys, widths)
        reasons = []
        failed, patient = self.failed, REASON_ROW[ReasonCode.LOCALITY_WAIT]
        blocked = False
        for index, key in enumerate(keys):
            reason = failed.get(key)
            if reason is None or reason == patient:
                if blocked:
                    reason = REASON_ROW[ReasonCode.PRIORITY_BEHIND]
                else:
                    reason = self._try(index, slots[index], key, widths[index])
            reasons.append(reason)
            if reason and not blocked:
                blocked = self._blocks(reason)
        return reasons

    def _walk_divided(self, slots: list[int], keys: list[int], widths: list[int]) -> list[int]:
        """First those within their guarantee, who may reclaim; then those who would borrow."""
        reasons = [0] * len(slots)
        later = []
        queues = self.snapshot.jobs.queue[np.array(slots, np.int64)].tolist()
        for index, key in enumerate(keys):
            if not self.ledger.within_guarantee(queues[index], widths[index]):
                later.append(index)
                continue
            known = self.failed.get(key)
            reasons[index] = known or self._try(index, slots[index], key, widths[index], claim=True)
        self.failed.clear()
        for index in later:
            known = self.failed.get(keys[index])
            reasons[index] = known or self._try(index, slots[index], keys[index], widths[index])
        return reasons

    def _blocks(self, reason: int) -> bool:
        """Whether this failure holds everybody behind: strict order, and it could run one day."""
        return self.recipe.passing is Passing.NOBODY and reason in _CAN_BLOCK

    def _try(self, index: int, slot: int, key: int, width: int, *, claim: bool = False) -> int:
        """Grant the job seats and return 0, or the row of the reason why not."""
        kind = self.state.kinds[key // SEVERAL]
        reason = self._gate(kind, slot, width)
        if reason is None:
            reason = self._place(index, slot, key, kind=kind, width=width, claim=claim)
        if reason is None:
            return 0
        row = REASON_ROW[reason]
        self.failed[key] = row
        if self.recipe.reserving is not None:
            self._maybe_reserve(slot, kind, width, reason)
        return row

    # --- gates: each may say no, with its reason ---------------------------------------------------

    def _gate(self, kind: Kind, slot: int, width: int) -> ReasonCode | None:
        """What no other job's end could change, and the quota."""
        site = self.fabric.site(kind)
        if width > site.largest_ever_gpus:
            return ReasonCode.CONSTRAINT_NEVER
        if not self._restricted:
            return None
        queue = int(self.snapshot.jobs.queue[slot])
        firm = not kind.preemptible
        if self.ledger.never(queue, width, firm=firm) is not None:
            return ReasonCode.QUOTA_NEVER
        if self.ledger.refusing(queue, width, firm=firm) is None:
            return None
        if self.recipe.yielding is not None and self._room_in_quota(slot, queue, width, firm=firm):
            return None
        return ReasonCode.QUOTA_FIRM if firm else ReasonCode.QUOTA_LIMIT

    def _place(
        self, index: int, slot: int, key: int, *, kind: Kind, width: int, claim: bool
    ) -> ReasonCode | None:
        """Seats that are free, or seats of those who must yield."""
        offer = self._free_offer(key, slot, kind, width)
        if offer is not None:
            if offer.slowdown <= 1.0 or self._patience_is_over(slot, offer):
                self._grant(Granted(slot, width, offer.shares), kind, ())
                return None
            self.offers[key] = offer
        found = self._offer_with_victims(
            index, slot, key, kind=kind, width=width, claim=claim
        )
        if found is None:
            if offer is not None:
                return ReasonCode.LOCALITY_WAIT
            return self._shortage(kind, width)
        better, victims = found
        self._grant(
            Granted(slot, width, better.shares, tuple(v.slot for v in victims)), kind, victims
        )
        return None

    def _free_offer(self, key: int, slot: int, kind: Kind, width: int) -> Offer | None:
        known = self.offers.get(key)
        if known is not None:
            return known
        if width > self.free or self._quota_victims:
            return None
        return self.recipe.place(
            self.room, self.fabric, kind, width, avoid=self._avoided(slot)
        )

    def _patience_is_over(self, slot: int, offer: Offer) -> bool:
        bound = self.recipe.patience.bound_seconds(offer.slowdown, self._remaining(slot))
        left = bound - self._locality_waited(slot) - self.recipe.rounds.spacing_seconds
        if left <= 0:
            return True
        self.outcome.wake = min(self.outcome.wake or np.inf, self.now + left)
        return False

    def _remaining(self, slot: int) -> float:
        """Seconds that a waiting job has left."""
        jobs = self.snapshot.jobs
        return float((jobs.work_total[slot] - jobs.work_done[slot]) / jobs.pace[slot])

    def _locality_waited(self, slot: int) -> float:
        jobs = self.snapshot.jobs
        waited = float(jobs.locality_waited[slot])
        if jobs.reason[slot] == REASON_ROW[ReasonCode.LOCALITY_WAIT]:
            waited += self.now - float(jobs.waiting_since[slot])
        return waited

    def _shortage(self, kind: Kind, width: int) -> ReasonCode:
        """Why no placement was found for that width."""
        if width > self.free:
            if width <= self.free_at_begin:
                return ReasonCode.PRIORITY_BEHIND
            return ReasonCode.HEALTH_LOST if width <= self.free + self.lost else ReasonCode.CAPACITY_BUSY
        if self.fabric.site(kind).largest_gpus < width:
            return ReasonCode.HEALTH_LOST
        suitable = self.suitable_free(kind)
        if width > suitable:
            return ReasonCode.CONSTRAINT_TYPE if kind.gpu_types else ReasonCode.FRAGMENTED
        if self.reservation is not None and self.recipe.place(self.room, self.fabric, kind, width):
            return ReasonCode.RESERVED
        return ReasonCode.FRAGMENTED

    def suitable_free(self, kind: Kind) -> int:
        tiers = self.fabric.site(kind).tiers
        return int(sum(self.room.offered(kind, tier).sum() for tier in tiers))

    # --- those who must yield ------------------------------------------------------------------------

    def _offer_with_victims(
        self, index: int, slot: int, key: int, *, kind: Kind, width: int, claim: bool
    ) -> tuple[Offer, list[Victim]] | None:
        """The tightest offer that the fewest, worst-ranked running jobs can make room for."""
        forced, self._quota_victims = self._quota_victims, []
        if (self.recipe.yielding is None and not claim) or key in self._hopeless:
            return None
        eligible = self._eligible(index, slot, width, claim=claim)
        if eligible is None:
            self._hopeless.add(key)
            return None
        eligible = forced + [victim for victim in eligible if victim not in forced]
        found = self._search(slot, kind, width, forced=forced, eligible=eligible)
        if found is None:
            self._hopeless.add(key)
        return found

    def _search(
        self, slot: int, kind: Kind, width: int, *, forced: list[Victim], eligible: list[Victim]
    ) -> tuple[Offer, list[Victim]] | None:
        """Release more and more of the eligible, worst first, until an offer is good enough."""
        trial, released, step = self.room.copy(), len(forced), 1
        for victim in forced:
            trial.give(victim.seats)
        free = self.free + sum(victim.width for victim in forced)
        while True:
            offer = None
            if free >= width:
                offer = self.recipe.place(trial, self.fabric, kind, width)
            if offer is not None and (offer.slowdown <= 1.0 or self._patience_is_over(slot, offer)):
                return offer, self._needed(offer, kind, forced, eligible[len(forced) : released])
            if released == len(eligible):
                return None
            for victim in eligible[released : released + step]:
                trial.give(victim.seats)
                free += victim.width
            released, step = min(released + step, len(eligible)), step * 2

    def _eligible(self, index: int, slot: int, width: int, *, claim: bool) -> list[Victim] | None:
        """Running jobs that may have to yield to this one, worst rank first; None if too few."""
        position = self.positions[index]
        victims = self._candidates()
        if not self.state.quota.divided:
            count = victims.count_behind(position)
            if not count or self.free + victims.gpus_of(count) < width:
                return None
            if self._one_node_must_do(slot, width, count):
                return None
            return victims.worst(count)
        yielding = self.recipe.yielding is not None
        queue = int(self.snapshot.jobs.queue[slot])
        return [
            victim
            for victim in victims.worst(len(victims.slots))
            if self._lawful(queue, width, victim, behind=yielding and victim.position > position, claim=claim)
        ]

    def _one_node_must_do(self, slot: int, width: int, count: int) -> bool:
        """Whether the job is to sit on one node, and no node could be cleared for it."""
        if width > int(self.fabric.nodes.gpus.max(initial=0)):
            return False
        kind = self.state.kinds[int(self.snapshot.jobs.kind[slot])]
        if kind.locality.per_node_doubling <= 0 and kind.max_nodes != 1:
            return False
        reach = self._candidates().reach(count, self.room.gpus)
        return int(reach.max(initial=0)) < width

    def _lawful(self, queue: int, width: int, victim: Victim, *, behind: bool, claim: bool) -> bool:
        """Whether the queues' rights allow that this job yields."""
        if victim.queue == queue:
            return behind and self._ran_enough(victim)
        if claim and self.ledger.may_reclaim(queue, width, victim.queue):
            return True
        return behind and self._ran_enough(victim) and self.ledger.borrows(queue, victim.queue)

    def _ran_enough(self, victim: Victim) -> bool:
        yielding = self.recipe.yielding
        if yielding is None:
            return False
        started = float(self.snapshot.jobs.started[victim.slot])
        return self.now - started >= yielding.min_run_seconds

    def _candidates(self) -> Victims:
        """All running jobs that could be asked to yield at all."""
        if self._victims is None:
            jobs, yielding = self.snapshot.jobs, self.recipe.yielding
            may = jobs.preemptible[self.running]
            if yielding is not None and yielding.min_run_seconds and not self.state.quota.divided:
                may = may & (self.now - jobs.started[self.running] >= yielding.min_run_seconds)
            self._victims = Victims(self.state, self.running[may], self.running_at[may])
        return self._victims

    def _needed(
        self, offer: Offer, kind: Kind, forced: list[Victim], released: list[Victim]
    ) -> list[Victim]:
        """Leave out the victims without whom the offer stands as well, best-ranked first."""
        nodes = {node for node, _ in offer.shares}
        kept = [v for v in released if any(node in nodes for node, *_ in v.seats)]
        for victim in sorted(kept, key=lambda v: v.position):
            fewer = [other for other in kept if other is not victim]
            if self._stands(offer, kind, forced + fewer):
                kept = fewer
        return forced + kept

    def _stands(self, offer: Offer, kind: Kind, victims: list[Victim]) -> bool:
        trial = self.room.copy()
        for victim in victims:
            trial.give(victim.seats)
        trial.take(kind, offer.shares)
        nodes = [node for node, _ in offer.shares]
        return bool(
            (trial.gpus[nodes] >= 0).all()
            and (trial.cpus[nodes] >= -1e-9).all()
            and (trial.memory_gib[nodes] >= -1e-9).all()
        )

    def _room_in_quota(self, slot: int, queue: int, width: int, *, firm: bool) -> bool:
        """Find worse-ranked jobs under the refusing queue whose end would make room in it."""
        index = int(np.flatnonzero(self.outcome.waiting == slot)[0])
        position = self.positions[index]
        chosen: list[Victim] = []
        victims = self._candidates()
        for victim in victims.worst(len(victims.slots)):
            refusing = self.ledger.refusing(queue, width, firm=firm)
            if refusing is None:
                break
            if victim.position > position and refusing in self.state.quota.paths[victim.queue]:
                chosen.append(victim)
                self.ledger.give(victim.queue, victim.width)
        enough = self.ledger.refusing(queue, width, firm=firm) is None
        for victim in chosen:
            self.ledger.take(victim.queue, victim.width)
        self._quota_victims = chosen if enough else []
        return enough

    def _grant(self, granted: Granted, kind: Kind, victims: "list[Victim] | tuple[()]") -> None:
        for victim in victims:
            self.room.give(victim.seats)
            self.ledger.give(victim.queue, victim.width)
            self.free += victim.width
            reclaim = self.state.quota.divided and victim.queue != int(
                self.snapshot.jobs.queue[granted.slot]
            )
            self.outcome.preempted[victim.slot] = (granted.slot, reclaim)
        if victims:
            self._candidates().remove(victims)
            if sum(victim.width for victim in victims) > granted.width:
                self.failed.clear()
                self._hopeless.clear()
        self.room.take(kind, granted.shares)
        if self._restricted:
            self.ledger.take(int(self.snapshot.jobs.queue[granted.slot]), granted.width)
        self.free -= granted.width
        self.offers.clear()
        self.outcome.grants.append(granted)

    # --- reservations ----------------------------------------------------------------------------

    def _avoided(self, slot: int) -> "np.ndarray | None":
        """Nodes kept for a blocked gang, unless this job would be gone in time."""
        if self.reservation is None:
            return None
        if self.now + self._remaining(slot) <= self.reservation.at:
            return None
        return self.reservation.nodes

    def _maybe_reserve(self, slot: int, kind: Kind, width: int, reason: ReasonCode) -> None:
        reserving = self.recipe.reserving
        assert reserving is not None
        if self.reservation is not None or reason not in _RESERVABLE:
            return
        if self.now - float(self.snapshot.jobs.submitted[slot]) < reserving.after_seconds:
            return
        self.reservation = reserve(self.state, self.now, slot, kind, width)
        self.outcome.reservation = self.reservation
        if self.reservation is not None:
            self.failed.clear()

    # --- everybody anew ---------------------------------------------------------------------------

    def _reshuffle(self) -> Outcome:
        """Place all ranked jobs on an empty cluster, as if nobody held anything."""
        jobs = self.snapshot.jobs
        for slot in self.running.tolist():
            self.room.give(seated(self.state, slot).seats)
        reasons: list[int] = []
        unplaced: list[int] = []
        widths = self.recipe.size(self.snapshot, self.outcome.ranked).tolist()
        for slot, width in zip(self.outcome.ranked.tolist(), widths, strict=True):
            kind = self.state.kinds[int(jobs.kind[slot])]
            offer = None
            if width <= int(self.room.gpus.sum()):
                offer = self.recipe.place(self.room, self.fabric, kind, width)
            running = jobs.state[slot] == State.RUNNING
            if offer is not None:
                self.room.take(kind, offer.shares)
                self._reseat(Granted(slot, width, offer.shares), running=bool(running))
            elif running:
                unplaced.append(slot)
            else:
                reasons.append(REASON_ROW[self._gate_or_capacity(kind, width)])
        self._displace(unplaced)
        granted = {grant.slot for grant in self.outcome.grants}
        waiting = [slot for slot in self.outcome.waiting.tolist() if slot not in granted]
        self.outcome.waiting = np.array(waiting, np.int64)
        self.outcome.reasons = np.array(reasons, np.int64)
        return self.outcome

    def _reseat(self, granted: Granted, *, running: bool) -> None:
        if not running:
            self.outcome.grants.append(granted)
            return
        now = seated(self.state, granted.slot).seats
        if tuple((node, gpus) for node, gpus, *_ in now) != granted.shares:
            self.outcome.moves.append(granted)

    def _displace(self, unplaced: list[int]) -> None:
        takers = self.outcome.grants or self.outcome.moves
        for slot in unplaced:
            self.outcome.preempted[slot] = (takers[0].slot, False)

    def _gate_or_capacity(self, kind: Kind, width: int) -> ReasonCode:
        if width > self.fabric.site(kind).largest_ever_gpus:
            return ReasonCode.CONSTRAINT_NEVER
        return ReasonCode.CAPACITY_BUSY


_CAN_BLOCK = frozenset(
    REASON_ROW[code]
    for code in (
        ReasonCode.CAPACITY_BUSY,
        ReasonCode.FRAGMENTED,
        ReasonCode.LOCALITY_WAIT,
        ReasonCode.PRIORITY_BEHIND,
        ReasonCode.CONSTRAINT_TYPE,
    )
)
_RESERVABLE = frozenset(
    {
        ReasonCode.CAPACITY_BUSY,
        ReasonCode.FRAGMENTED,
        ReasonCode.LOCALITY_WAIT,
        ReasonCode.PRIORITY_BEHIND,
    }
)


def free_room(state: BrainState) -> Room:
    """What can be given away: seats that stop are pledged first, then free."""
    fabric, count = state.fabric, state.seat_count
    seats = state.seats
    node = seats.node[:count]
    rows = fabric.count
    releasing, pledged = seats.releasing[:count], seats.pledged[:count]

    def committed(column: np.ndarray) -> np.ndarray:
        values = column[:count]
        if not (releasing.any() or pledged.any()):
            return np.bincount(node, values, minlength=rows)
        firm = np.bincount(node, values * ~(releasing | pledged), minlength=rows)
        leaving = np.bincount(node, values * releasing, minlength=rows)
        coming = np.bincount(node, values * pledged, minlength=rows)
        return firm + np.maximum(leaving, coming)

    usable = fabric.usable
    gpus = ((fabric.nodes.gpus - committed(seats.gpus).astype(np.int64)) * usable).clip(min=0)
    if not state.counts_host:
        return Room(gpus, np.where(usable, np.inf, 0.0), np.where(usable, np.inf, 0.0))
    cpus = np.where(usable, fabric.nodes.cpus - committed(seats.cpus), 0.0)
    memory = np.where(usable, fabric.nodes.memory_gib - committed(seats.memory_gib), 0.0)
    return Room(gpus, cpus, memory)


def _own_use(state: BrainState) -> list[int]:
    if not any(state.quota.restricted):
        return [0] * len(state.quota.ids)
    return state.own_use()


def _lost_gpus(state: BrainState) -> int:
    fabric = state.fabric
    return int(fabric.nodes.gpus[~fabric.usable].sum())
