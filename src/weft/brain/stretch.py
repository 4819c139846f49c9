"""Stretching: running jobs that can be resized live follow the widths that the recipe says.

What a job has beyond its target is put on the desk before seats are handed out, so a job that waits
gets it without anybody's end; what nobody took is left where it is. Then those below their target
grow into what is free now. What is still being left is given to them in a later round: a growth
waits for nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from weft.brain import gates
from weft.brain.desk import Desk, free_room
from weft.brain.outcome import Granted, Outcome, Stretched
from weft.brain.portion import Portion, portions
from weft.brain.victims import Victim
from weft.brain.worth import seconds_left, worth_growing, worth_restarting
from weft.model.placement import Placement, Seat
from weft.model.snapshot import Bools, Floats, Ints
from weft.model.state import State
from weft.policy.place.room import Room, Share
from weft.policy.recipe import Resizing
from weft.policy.size.requested import is_packed

LATER_SECONDS = 60.0
GAIN = 1.01
"""Growing must speed a job up by more than this, or it is not worth a change."""


@dataclass(slots=True)
class _Surplus:
    """What a job has beyond its target, as it lies on the desk."""

    slot: int
    portions: tuple[Portion, ...]
    kept: list[Portion] = field(default_factory=list)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return tuple(seat for portion in self.portions for seat in portion.seats)

    @property
    def gone(self) -> tuple[Seat, ...]:
        gone = (portion for portion in self.portions if portion not in self.kept)
        return tuple(seat for portion in gone for seat in portion.seats)


class Stretch:
    """The resizes of one round."""

    def __init__(self, desk: Desk, outcome: Outcome, resizing: Resizing, ordered: Ints) -> None:
        """`ordered` are all jobs that are ranked, best first."""
        self._desk, self._outcome, self._resizing = desk, outcome, resizing
        jobs = desk.snapshot.jobs
        self._targets = np.zeros(len(jobs.active), np.int64)
        self._targets[ordered] = desk.recipe.size(desk.snapshot, ordered)
        exploring = ordered[(jobs.explore[ordered] > 0) & resizing.explore]
        self._targets[exploring] = np.minimum(self._targets[exploring], jobs.explore[exploring])
        self._exploring = frozenset(exploring.tolist())
        running = ordered[jobs.state[ordered] == State.RUNNING]
        goals = np.maximum(self._targets[running], jobs.min_gpus[running])
        live = jobs.live[running]
        self._shrinking: Ints = running[live & (goals < jobs.width[running])]
        self._growing: Ints = worth_growing(desk.snapshot, running[live], goals[live], resizing)
        if (jobs.width[running[live]] < goals[live]).sum() > len(self._growing):
            self._look_again(running[live])
        self._restarting = worth_restarting(desk.snapshot, running[~live], goals[~live], resizing)
        self._cramped: list[int] = []
        self._surplus: list[_Surplus] = []
        self._free_now = free_room(desk.state, moves=True)
        self._grown_gpus = 0

    def _look_again(self, slots: Ints) -> None:
        """Of a job of unknown length the more is expected the longer it runs: ask later."""
        if np.isnan(self._desk.snapshot.jobs.work_total[slots]).any():
            pause = max(self._resizing.hold_seconds, LATER_SECONDS)
            self._outcome.wake_by(self._desk.now + pause)

    def widths(self, waiting: Ints) -> Ints:
        """With how many GPUs each begins; whoever would get none asks for its least."""
        return np.maximum(self._targets[waiting], self._desk.snapshot.jobs.min_gpus[waiting])

    def put_surplus_on_desk(self) -> set[int]:
        """Of all who have more than their target; the slots of these jobs."""
        for slot in self._shrinking[::-1].tolist():
            portions = self._beyond_target(slot)
            if portions:
                surplus = _Surplus(slot, portions)
                self._surplus.append(surplus)
                self._desk.give([self._as_victim(slot, surplus.seats)])
        return {surplus.slot for surplus in self._surplus}

    def settle(self) -> None:
        """What nobody took stays where it is, unless others are to grow into it; then they grow."""
        holds = self._hold_seconds(self._growing)
        growing = [
            slot
            for slot, seconds in zip(self._growing.tolist(), holds.tolist(), strict=True)
            if self._may_change(slot, seconds)
        ]
        wanted = self._wanted_gpus(growing)
        for surplus in reversed(self._surplus):
            if surplus.slot not in self._exploring:
                self._take_back(surplus)
        for surplus in self._surplus:
            wanted = self._let_go(surplus, wanted)
            gone = surplus.gone
            if gone:
                self._shrink(surplus.slot, gone)
        for slot in growing:
            self._grow(slot)
        for slot in [*self._restarting.tolist(), *self._cramped]:
            if self._may_change(slot, self._resizing.hold_seconds):
                self._restart(slot)

    # --- shrinking ----------------------------------------------------------------------------

    def _beyond_target(self, slot: int) -> tuple[Portion, ...]:
        """Without these the job still has its target; or its least, where a whole node goes.

        Of what its queue is guaranteed nothing is lent out by shrinking.
        """
        desk = self._desk
        found: list[Portion] = []
        width, target = int(desk.snapshot.jobs.width[slot]), self._target(slot)
        left, least = width, int(desk.snapshot.jobs.min_gpus[slot])
        for portion in self._portions(slot):
            after = left - portion.gpus
            if desk.divided and not desk.ledger.spares(desk.queue(slot), width - after):
                break
            if left > target and after >= (least if portion.whole else target):
                found.append(portion)
                left = after
            elif self._resizing.packed:
                break
        return tuple(found)

    def _portions(self, slot: int) -> Iterator[Portion]:
        state, usable = self._desk.state, self._desk.fabric.usable
        placement = state.placement(slot)
        known = frozenset(node for node in placement.nodes if usable[state.node_row[node]])
        return portions(placement, known, packed=self._resizing.packed)

    def _target(self, slot: int) -> int:
        return max(int(self._targets[slot]), int(self._desk.snapshot.jobs.min_gpus[slot]))

    def _as_victim(self, slot: int, seats: tuple[Seat, ...]) -> Victim:
        rows = self._desk.state.node_row
        parts = tuple((rows[seat.node], seat.gpus, seat.cpus, seat.memory_gib) for seat in seats)
        width = sum(seat.gpus for seat in seats)
        return Victim(slot, 0, width, self._desk.queue(slot), parts)

    def _wanted_gpus(self, growing: list[int]) -> int:
        """GPUs that these miss to their targets beyond what is free now."""
        missing = int((self._targets[growing] - self._desk.snapshot.jobs.width[growing]).sum())
        return missing - int(np.minimum(self._free_now.gpus, self._desk.room.gpus).sum())

    def _take_back(self, surplus: _Surplus) -> None:
        """What is still on the desk goes back to the job."""
        desk, kind = self._desk, self._desk.kind(surplus.slot)
        queue = desk.queue(surplus.slot)
        for portion in surplus.portions:
            row = desk.state.node_row[portion.node]
            lawful = gates.quota(desk, kind, queue, portion.gpus) is None
            if lawful and desk.room.holds(row, portion.as_one()):
                surplus.kept.append(portion)
                self._take(surplus.slot, ((row, portion.gpus),))

    def _let_go(self, surplus: _Surplus, wanted: int) -> int:
        """But for so many that are wanted; how many are wanted still."""
        for portion in surplus.portions:
            if wanted > 0 and portion in surplus.kept:
                surplus.kept.remove(portion)
                self._desk.give([self._as_victim(surplus.slot, portion.seats)])
                wanted -= portion.gpus
        return wanted

    def _take(self, slot: int, shares: tuple[Share, ...]) -> None:
        gpus = sum(gpus for _, gpus in shares)
        self._desk.take(Granted(slot, gpus, shares), self._desk.kind(slot))

    def _shrink(self, slot: int, gone: tuple[Seat, ...]) -> None:
        nodes = tuple(self._desk.state.node_row[seat.node] for seat in gone)
        numbers = frozenset(seat.number for seat in gone)
        self._outcome.stretched.append(Stretched(slot, gone=numbers, left_nodes=nodes))

    # --- growing ------------------------------------------------------------------------------

    def _grow(self, slot: int) -> None:
        """Up to the target, on nodes that it is on first, if it may and gains by it."""
        desk = self._desk
        missing = int(self._targets[slot]) - int(desk.snapshot.jobs.width[slot])
        missing -= missing % self._resizing.grain_gpus
        if missing <= 0:
            return
        kind = desk.kind(slot)
        if gates.quota(desk, kind, desk.queue(slot), missing) is not None:
            return
        added = self._further(slot, missing)
        if not added or not self._gains(slot, added):
            self._cramped += self._worth_a_move(slot)
            return
        self._grown_gpus += sum(gpus for _, gpus in added)
        if not desk.state.quota_fits(slot, self._grown_gpus):
            return  # what others are leaving still counts
        self._take(slot, added)
        self._free_now.take(kind, added)
        self._outcome.stretched.append(Stretched(slot, added=added))

    def _worth_a_move(self, slot: int) -> list[int]:
        """The job itself, if it could only grow elsewhere and that is worth a restart."""
        if not self._resizing.packed:
            return []
        one = np.array([slot])
        moving = replace(self._resizing, restarts=True)
        worthy = worth_restarting(self._desk.snapshot, one, self._targets[one], moving)
        return [slot] if len(worthy) else []

    def _restart(self, slot: int) -> None:
        """Another start, wider, on what is free now and what it has itself."""
        desk, width = self._desk, int(self._targets[slot])
        missing = width - int(desk.snapshot.jobs.width[slot])
        if not desk.snapshot.jobs.preemptible[slot] or missing > int(self._free_now.gpus.sum()):
            return
        if gates.quota(desk, desk.kind(slot), desk.queue(slot), missing) is not None:
            return
        granted = desk.moved(slot, width)
        if granted is not None:
            self._outcome.moves.append(granted)

    def _may_change(self, slot: int, hold_seconds: float) -> bool:
        """Whether its last change is that long ago; if not, a round is asked for when it is."""
        if slot in self._outcome.preempted:
            return False
        until = float(self._desk.snapshot.jobs.resized[slot]) + hold_seconds
        if until > self._desk.now:
            self._outcome.wake_by(until)
        return until <= self._desk.now

    def _hold_seconds(self, slots: Ints) -> Floats:
        """Before a live growth: the longer a job still runs, the less it loses by waiting."""
        resizing, snapshot = self._resizing, self._desk.snapshot
        if not resizing.hold_share:
            return np.full(len(slots), resizing.hold_seconds)
        left = seconds_left(snapshot, slots, snapshot.jobs.width[slots])
        held: Floats = np.maximum(resizing.hold_seconds, resizing.hold_share * left)
        return held

    def _further(self, slot: int, missing: int) -> tuple[Share, ...]:
        """As many of the missing GPUs as there are seats for; where packed, whole nodes beyond."""
        desk, kind, grain = self._desk, self._desk.kind(slot), self._beyond_grain(slot)
        room, avoid = _both(self._free_now, desk.room), self._elsewhere(slot)
        here = self._beside(slot, room, missing)
        if self._resizing.packed:
            here = self._cut_to_packed(slot, here)
        room.take(kind, here)
        left = missing - sum(gpus for _, gpus in here)
        left -= left % grain
        taken = len({*self._desk.state.placement(slot).nodes})
        while left > 0 and (not self._resizing.packed or self._fills_its_node(slot, here)):
            offer = desk.recipe.place(room, desk.fabric, kind, left, avoid=avoid)
            if offer is None:
                left -= grain
                continue
            if kind.max_nodes is not None and taken + len(offer.shares) > kind.max_nodes:
                break
            return (*here, *offer.shares)
        return here

    def _beyond_grain(self, slot: int) -> int:
        """By how many GPUs it grows beyond the nodes that it has."""
        if not self._resizing.packed:
            return self._resizing.grain_gpus
        node = self._desk.state.placement(slot).nodes[0]
        return int(self._desk.fabric.nodes.gpus[self._desk.state.node_row[node]])

    def _cut_to_packed(self, slot: int, here: tuple[Share, ...]) -> tuple[Share, ...]:
        """So much of it that the job's width divides its node, or fills it."""
        if len(here) != 1:
            return ()
        ((node, gpus),) = here
        size = int(self._desk.fabric.nodes.gpus[node])
        width = self._desk.state.placement(slot).width
        gpus = next((g for g in range(gpus, 0, -1) if is_packed(width + g, size)), 0)
        return ((node, gpus),) if gpus else ()

    def _fills_its_node(self, slot: int, here: tuple[Share, ...]) -> bool:
        """Whether it has whole nodes with these: only then may it go on to others."""
        state, more, size = self._desk.state, dict(here), self._desk.fabric.nodes.gpus
        held = state.placement(slot).gpus_by_node.items()
        rows = ((state.node_row[node], gpus) for node, gpus in held)
        return all(gpus + more.get(row, 0) == size[row] for row, gpus in rows)

    def _elsewhere(self, slot: int) -> Bools:
        """Nodes that it cannot grow to: kept for others, of another GPU type, in another pool."""
        desk, nodes = self._desk, self._desk.fabric.nodes
        first = desk.state.node_row[self._desk.state.placement(slot).nodes[0]]
        alike = (nodes.gpu_type == nodes.gpu_type[first]) & (nodes.pool == nodes.pool[first])
        found: Bools = ~alike if desk.reserved is None else ~alike | desk.reserved
        return found

    def _beside(self, slot: int, room: Room, missing: int) -> tuple[Share, ...]:
        """On the nodes that it has already."""
        desk, kind, grain = self._desk, self._desk.kind(slot), self._resizing.grain_gpus
        offered = np.zeros(len(room.gpus), np.int64)
        for tier in desk.fabric.site(kind).tiers:
            offered = np.maximum(offered, room.offered(kind, tier))
        found: list[Share] = []
        for node in self._desk.state.placement(slot).nodes:
            row = desk.state.node_row[node]
            gpus = min(int(offered[row]), missing)
            gpus -= gpus % grain
            if gpus > 0 and (desk.reserved is None or not desk.reserved[row]):
                found.append((row, gpus))
                missing -= gpus
        return tuple(found)

    def _gains(self, slot: int, added: tuple[Share, ...]) -> bool:
        """Another node may slow a job down by more than its GPUs speed it up.

        Only recipes that use curves mind what was measured of the width itself.
        """
        state, seats = self._desk.state, self._desk.state.placement(slot).seats
        more = tuple(Seat(state.node_ids[row], gpus) for row, gpus in added)
        now, wider = (
            state.pace_on(slot, Placement(held), believing=self._resizing.explore)
            for held in (seats, (*seats, *more))
        )
        return wider > self._least_gain(slot, added) * now

    def _least_gain(self, slot: int, added: tuple[Share, ...]) -> float:
        """How many times as fast it must be: hardly faster at all, or half of what is promised."""
        if not self._resizing.compact:
            return GAIN
        width, more = self._desk.state.placement(slot).width, sum(gpus for _, gpus in added)
        curve = self._desk.snapshot.curves.likely[self._desk.snapshot.jobs.curve[slot]]
        promised = float(curve[width + more] / curve[width]) - 1.0 if curve[width] > 0 else 0.0
        return max(1.0 + promised / 2.0, GAIN)


def _both(one: Room, other: Room) -> Room:
    """What both have."""
    return Room(
        np.minimum(one.gpus, other.gpus),
        np.minimum(one.cpus, other.cpus),
        np.minimum(one.memory_gib, other.memory_gib),
    )
