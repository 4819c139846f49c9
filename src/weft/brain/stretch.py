"""Stretching: running jobs that can be resized live follow the widths that the recipe says.

What a job has beyond its target is put on the desk before seats are handed out, so a job that waits
gets it without anybody's end; what nobody took is left where it is. Then those below their target
grow into what is free now. What is still being left is given to them in a later round: a growth
waits for nobody.
"""

from dataclasses import dataclass, field

import numpy as np

from weft.brain import gates
from weft.brain.desk import Desk, free_room
from weft.brain.outcome import Outcome, Stretched
from weft.brain.victims import Victim
from weft.model.placement import Placement, Seat
from weft.model.snapshot import Bools, Ints
from weft.model.state import State
from weft.policy.place.room import Room, Share
from weft.policy.recipe import Resizing

GAIN = 1.01
"""Growing must speed a job up by more than this, or it is not worth a change."""


@dataclass(slots=True)
class _Surplus:
    """Seats that a job has beyond its target, as they lie on the desk."""

    slot: int
    seats: tuple[Seat, ...]
    kept: set[int] = field(default_factory=set)


class Stretch:
    """The resizes of one round."""

    def __init__(self, desk: Desk, outcome: Outcome, resizing: Resizing, ordered: Ints) -> None:
        """`ordered` are all jobs that are ranked, best first."""
        self._desk, self._outcome, self._resizing = desk, outcome, resizing
        self._widths: Ints = desk.recipe.size(desk.snapshot, ordered)
        self._of: dict[int, int] = dict(zip(ordered.tolist(), self._widths.tolist(), strict=True))
        jobs = desk.snapshot.jobs
        live = (jobs.state[ordered] == State.RUNNING) & jobs.live[ordered]
        self._running: list[int] = ordered[live].tolist()
        self._surplus: list[_Surplus] = []
        self._free_now = free_room(desk.state)
        self._grown_gpus = 0

    def widths(self, waiting: Ints) -> Ints:
        """With how many GPUs each begins; whoever would get none asks for its least."""
        least = self._desk.snapshot.jobs.min_gpus[waiting]
        found = np.array([self._of[slot] for slot in waiting.tolist()], np.int64)
        return np.maximum(found, least)

    def put_surplus_on_desk(self) -> set[int]:
        """Of all who have more than their target; the slots of these jobs."""
        for slot in reversed(self._running):
            seats = self._beyond_target(slot)
            if seats:
                self._surplus.append(_Surplus(slot, seats))
                self._desk.give([self._as_victim(slot, seats)])
        return {surplus.slot for surplus in self._surplus}

    def settle(self) -> None:
        """What nobody took stays where it is, unless others are to grow into it; then they grow."""
        wanted = self._wanted_gpus()
        for surplus in reversed(self._surplus):
            self._take_back(surplus)
        for surplus in self._surplus:
            wanted = self._let_go(surplus, wanted)
            gone = tuple(seat for seat in surplus.seats if seat.number not in surplus.kept)
            if gone:
                self._shrink(surplus.slot, gone)
        for slot in self._running:
            self._grow(slot)

    # --- shrinking ----------------------------------------------------------------------------

    def _beyond_target(self, slot: int) -> tuple[Seat, ...]:
        """The latest seats, whole ones, without which the job still has its target.

        Of what its queue is guaranteed nothing is lent out by shrinking.
        """
        desk, gone = self._desk, 0
        spare = int(desk.snapshot.jobs.width[slot]) - self._target(slot)
        found = []
        for seat in sorted(self._placement(slot).seats, key=lambda seat: -seat.number):
            if not desk.fabric.usable[desk.state.node_row[seat.node]]:
                continue
            gpus = gone + seat.gpus
            if desk.divided and not desk.ledger.spares(desk.queue(slot), gpus):
                break
            if seat.number and seat.gpus and gpus <= spare:
                found.append(seat)
                gone = gpus
        return tuple(found)

    def _target(self, slot: int) -> int:
        return max(self._of[slot], int(self._desk.snapshot.jobs.min_gpus[slot]))

    def _as_victim(self, slot: int, seats: tuple[Seat, ...]) -> Victim:
        rows = self._desk.state.node_row
        parts = tuple((rows[seat.node], seat.gpus, seat.cpus, seat.memory_gib) for seat in seats)
        width = sum(seat.gpus for seat in seats)
        return Victim(slot, 0, width, self._desk.queue(slot), parts)

    def _wanted_gpus(self) -> int:
        """GPUs that are missing to the targets of running jobs beyond what is free now."""
        jobs = self._desk.snapshot.jobs
        growing = [slot for slot in self._running if self._may_grow(slot)]
        missing = sum(max(self._of[slot] - int(jobs.width[slot]), 0) for slot in growing)
        return missing - int(np.minimum(self._free_now.gpus, self._desk.room.gpus).sum())

    def _take_back(self, surplus: _Surplus) -> None:
        """Seats that are still on the desk go back to the job."""
        desk, kind = self._desk, self._desk.kind(surplus.slot)
        queue = desk.queue(surplus.slot)
        for seat in surplus.seats:
            row = desk.state.node_row[seat.node]
            lawful = gates.quota(desk, kind, queue, seat.gpus) is None
            if lawful and desk.room.gpus[row] >= seat.gpus:
                surplus.kept.add(seat.number)
                self._take(surplus.slot, ((row, seat.gpus),))

    def _let_go(self, surplus: _Surplus, wanted: int) -> int:
        """But for so many that are wanted; how many are wanted still."""
        for seat in surplus.seats:
            if wanted > 0 and seat.number in surplus.kept:
                surplus.kept.discard(seat.number)
                self._desk.give([self._as_victim(surplus.slot, (seat,))])
                wanted -= seat.gpus
        return wanted

    def _take(self, slot: int, shares: tuple[Share, ...]) -> None:
        desk, gpus = self._desk, sum(gpus for _, gpus in shares)
        desk.room.take(desk.kind(slot), shares)
        desk.free -= gpus
        if desk.restricted:
            desk.ledger.take(desk.queue(slot), gpus)

    def _shrink(self, slot: int, gone: tuple[Seat, ...]) -> None:
        nodes = tuple(self._desk.state.node_row[seat.node] for seat in gone)
        numbers = frozenset(seat.number for seat in gone)
        self._outcome.stretched.append(Stretched(slot, gone=numbers, left_nodes=nodes))

    # --- growing ------------------------------------------------------------------------------

    def _grow(self, slot: int) -> None:
        """Up to the target, on nodes that it is on first, if it may and gains by it."""
        desk = self._desk
        missing = self._of[slot] - int(desk.snapshot.jobs.width[slot])
        missing -= missing % self._resizing.grain_gpus
        if missing <= 0 or not self._may_grow(slot):
            return
        kind = desk.kind(slot)
        if gates.quota(desk, kind, desk.queue(slot), missing) is not None:
            return
        added = self._further(slot, missing)
        if not added or not self._gains(slot, added):
            return
        self._grown_gpus += sum(gpus for _, gpus in added)
        if not desk.state.quota_fits(slot, self._grown_gpus):
            return  # what others are leaving still counts
        self._take(slot, added)
        self._free_now.take(kind, added)
        self._outcome.stretched.append(Stretched(slot, added=added))

    def _may_grow(self, slot: int) -> bool:
        """Whether its last change is long enough ago; if not, a round is asked for when it is."""
        if slot in self._outcome.preempted:
            return False
        until = float(self._desk.snapshot.jobs.resized[slot]) + self._resizing.hold_seconds
        if until <= self._desk.now:
            return True
        if self._of[slot] > int(self._desk.snapshot.jobs.width[slot]):
            self._outcome.wake_by(until)
        return False

    def _further(self, slot: int, missing: int) -> tuple[Share, ...]:
        """As many of the missing GPUs as there are seats for."""
        desk, kind, grain = self._desk, self._desk.kind(slot), self._resizing.grain_gpus
        room, avoid = _both(self._free_now, desk.room), self._elsewhere(slot)
        here = self._beside(slot, room, missing)
        room.take(kind, here)
        left = missing - sum(gpus for _, gpus in here)
        taken = len({*self._placement(slot).nodes})
        while left > 0:
            offer = desk.recipe.place(room, desk.fabric, kind, left, avoid=avoid)
            if offer is None:
                left -= grain
                continue
            if kind.max_nodes is not None and taken + len(offer.shares) > kind.max_nodes:
                break
            return (*here, *offer.shares)
        return here

    def _elsewhere(self, slot: int) -> Bools:
        """Nodes that it cannot grow to: kept for others, of another GPU type, in another pool."""
        desk, nodes = self._desk, self._desk.fabric.nodes
        first = desk.state.node_row[self._placement(slot).nodes[0]]
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
        for node in self._placement(slot).nodes:
            row = desk.state.node_row[node]
            gpus = min(int(offered[row]), missing)
            gpus -= gpus % grain
            if gpus > 0 and (desk.reserved is None or not desk.reserved[row]):
                found.append((row, gpus))
                missing -= gpus
        return tuple(found)

    def _gains(self, slot: int, added: tuple[Share, ...]) -> bool:
        """Another node may slow a job down by more than its GPUs speed it up."""
        state, spec = self._desk.state, self._desk.state.spec(slot)
        seats = self._placement(slot).seats
        more = tuple(Seat(state.node_ids[row], gpus) for row, gpus in added)
        speeds = state.node_table.units_per_second
        return speeds(spec, Placement((*seats, *more))) > GAIN * speeds(spec, Placement(seats))

    def _placement(self, slot: int) -> Placement:
        assignment = self._desk.state.assignments[slot]
        assert assignment is not None
        return assignment.placement


def _both(one: Room, other: Room) -> Room:
    """What both have."""
    return Room(
        np.minimum(one.gpus, other.gpus),
        np.minimum(one.cpus, other.cpus),
        np.minimum(one.memory_gib, other.memory_gib),
    )
