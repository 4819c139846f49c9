"""Stretching: running jobs that can be resized live follow the widths that the recipe says.

What a job has beyond its target is offered before seats are handed out, so a job that waits
gets it without anybody's end; what nobody took is left where it is. Then those below their target
grow into what is free now. What is still being left is given to them in a later round: a growth
waits for nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from weft.brain.round import gates
from weft.brain.round.outcome import Granted, Outcome, Stretched
from weft.brain.round.session import Session
from weft.brain.round.shrink_step import ShrinkStep, shrink_steps
from weft.brain.round.victims import Victim
from weft.brain.round.worth import (
    seconds_left,
    seconds_until_worth,
    worth_growing,
    worth_restarting,
)
from weft.model.placement import Placement, Seat
from weft.model.snapshot import Bools, Floats, Ints
from weft.model.state import State
from weft.policy.place.room import Room, Share
from weft.policy.recipe import Resizing
from weft.policy.supply import Domains

ROUNDING_SECONDS = 1.0
GAIN = 1.01
"""Growing must speed a job up by more than this, or it is not worth a change."""


INSTANT_SECONDS = 1.0
"""Without any hold, GPUs could go back and forth for ever where a resize takes no time."""


@dataclass(slots=True)
class _Surplus:
    """What a job has beyond its target, as it is on offer."""

    slot: int
    shrink_steps: tuple[ShrinkStep, ...]
    kept: list[ShrinkStep] = field(default_factory=list)

    @property
    def seats(self) -> tuple[Seat, ...]:
        return tuple(seat for step in self.shrink_steps for seat in step.seats)

    @property
    def gone(self) -> tuple[Seat, ...]:
        gone = (step for step in self.shrink_steps if step not in self.kept)
        return tuple(seat for step in gone for seat in step.seats)


class Stretch:
    """The resizes of one round."""

    def __init__(
        self,
        session: Session,
        outcome: Outcome,
        resizing: Resizing,
        ordered: Ints,
        overdue: Bools | None,
    ) -> None:
        """`ordered` are all jobs that are ranked, best first; some of them are overdue."""
        self._session, self._outcome, self._resizing = session, outcome, resizing
        jobs, self._ordered = session.snapshot.jobs, ordered
        self._targets = np.zeros(len(jobs.active), np.int64)
        self._targets[ordered] = session.sized(ordered, overdue=overdue)
        exploring = ordered[(jobs.explore[ordered] > 0) & resizing.explore]
        self._targets[exploring] = np.minimum(self._targets[exploring], jobs.explore[exploring])
        self._exploring = frozenset(exploring.tolist())
        running = ordered[jobs.state[ordered] == State.RUNNING]
        goals = np.maximum(self._targets[running], jobs.min_gpus[running])
        live = jobs.live[running]
        self._shrinking: Ints = running[live & (goals < jobs.width[running])]
        self._growing: Ints = worth_growing(session.snapshot, running[live], goals[live], resizing)
        if (jobs.width[running[live]] < goals[live]).sum() > len(self._growing):
            self._look_again(running[live], goals[live])
        self._restarting = worth_restarting(
            session.snapshot, running[~live], goals[~live], resizing
        )
        self._cramped: list[int] = []
        self._surplus: list[_Surplus] = []
        self._domains = Domains.of(session.snapshot)
        self._free_now = session.room.copy()

    def _look_again(self, slots: Ints, goals: Ints) -> None:
        """When growing will have become worth it to somebody for whom it is not yet."""
        refused = ~np.isin(slots, self._growing)
        wait = seconds_until_worth(
            self._session.snapshot, slots[refused], goals[refused], self._resizing
        )
        if np.isfinite(wait):
            self._outcome.wake_by(self._session.now + wait + ROUNDING_SECONDS)

    def widths(self, waiting: Ints) -> Ints:
        """With how many GPUs each begins; whoever would get none asks for its least."""
        return np.maximum(self._targets[waiting], self._session.snapshot.jobs.min_gpus[waiting])

    def put_surplus_on_session(self) -> set[int]:
        """Of all who have more than their target; the slots of these jobs."""
        for slot in self._shrinking[::-1].tolist():
            shrink_steps = self._beyond_target(slot)
            if shrink_steps:
                surplus = _Surplus(slot, shrink_steps)
                self._surplus.append(surplus)
                self._session.give([self._as_victim(slot, surplus.seats)])
                self._session.on_offer.update(self._rows(surplus))
        return {surplus.slot for surplus in self._surplus}

    def settle(self) -> None:
        """What nobody took stays where it is, unless others are to grow into it; then they grow."""
        growing = self._may_grow(self._growing)
        wanted = self._wanted_gpus(growing)
        staying = [own for own in self._surplus if own.slot not in self._outcome.preempted]
        for surplus in reversed(staying):
            if surplus.slot not in self._exploring:
                self._take_back(surplus)
        for surplus in staying:
            self._let_go(surplus, wanted)
            self._let_go_to_runnable(surplus)
            gone = surplus.gone
            if gone:
                self._shrink(surplus.slot, gone)
        for slot in growing:
            self._grow(slot)
        self._grow_instead_of_refused()
        for slot in dict.fromkeys([*self._restarting.tolist(), *self._cramped]):
            if self._may_change(slot, self._resizing.hold_seconds):
                self._restart(slot)

    # --- shrinking ----------------------------------------------------------------------------

    def _beyond_target(self, slot: int) -> tuple[ShrinkStep, ...]:
        """Without these the job still has its target; or its least, where a whole node goes.

        Of what its queue is guaranteed nothing is lent out by shrinking.
        """
        session = self._session
        found: list[ShrinkStep] = []
        width, target = int(session.snapshot.jobs.width[slot]), self._target(slot)
        left, least = width, int(session.snapshot.jobs.min_gpus[slot])
        for step in self._shrink_steps(slot):
            after = left - step.gpus
            if session.divided and not session.ledger.spares(session.queue(slot), width - after):
                break
            if left > target and after >= (least if step.whole else target):
                found.append(step)
                left = after
            elif self._resizing.packing.packs:
                break
        while found and not session.state.runnable.runs(slot, left):
            left += found.pop().gpus
        return tuple(found)

    def _shrink_steps(self, slot: int) -> Iterator[ShrinkStep]:
        state, usable = self._session.state, self._session.fabric.usable
        placement = state.placement(slot)
        known = frozenset(node for node in placement.nodes if usable[state.node_row[node]])
        return shrink_steps(placement, known, packed=self._resizing.packing.packs)

    def _rows(self, surplus: _Surplus) -> list[int]:
        """Of the seats that it would do without."""
        state, numbers = self._session.state, {seat.number for seat in surplus.seats}
        pairs = zip(
            state.placement(surplus.slot).seats, state.seating.seat_rows[surplus.slot], strict=True
        )
        return [row for seat, row in pairs if seat.number in numbers]

    def _target(self, slot: int) -> int:
        return max(int(self._targets[slot]), int(self._session.snapshot.jobs.min_gpus[slot]))

    def _as_victim(self, slot: int, seats: tuple[Seat, ...]) -> Victim:
        rows = self._session.state.node_row
        parts = tuple((rows[seat.node], seat.gpus, seat.cpus, seat.memory_gib) for seat in seats)
        width = sum(seat.gpus for seat in seats)
        return Victim(slot, 0, width, self._session.queue(slot), parts)

    def _wanted_gpus(self, growing: list[int]) -> list[int]:
        """GPUs that these miss to their targets beyond what is free now, by domain."""
        session, domains = self._session, self._domains
        missing = self._targets[growing] - session.snapshot.jobs.width[growing]
        heads = [session.state.node_row[session.state.placement(s).nodes[0]] for s in growing]
        wanted = np.bincount(domains.of_node[heads], missing, minlength=domains.count)
        free = np.minimum(self._free_now.gpus, session.room.gpus)
        left = wanted - np.bincount(domains.of_node, free, minlength=domains.count)
        return [int(gpus) for gpus in left]

    def _take_back(self, surplus: _Surplus) -> None:
        """What nobody took goes back to the job."""
        session, kind = self._session, self._session.kind(surplus.slot)
        queue = session.queue(surplus.slot)
        for step in surplus.shrink_steps:
            row = session.state.node_row[step.node]
            lawful = gates.quota(session, kind, queue, step.gpus) is None
            if lawful and session.room.holds(row, step.as_one()):
                surplus.kept.append(step)
                self._take(surplus.slot, ((row, step.gpus),))

    def _let_go(self, surplus: _Surplus, wanted: list[int]) -> None:
        """But for so many that are wanted in its domain; those are wanted no more."""
        rows = self._session.state.node_row
        for step in surplus.shrink_steps:
            domain = int(self._domains.of_node[rows[step.node]])
            if wanted[domain] > 0 and step in surplus.kept:
                surplus.kept.remove(step)
                self._session.give([self._as_victim(surplus.slot, step.seats)])
                wanted[domain] -= step.gpus

    def _let_go_to_runnable(self, surplus: _Surplus) -> None:
        """So much more that the job runs at the width that it is left with."""
        runnable = self._session.state.runnable
        width = int(self._session.snapshot.jobs.width[surplus.slot])
        while surplus.kept and not runnable.runs(
            surplus.slot, width - sum(seat.gpus for seat in surplus.gone)
        ):
            step = surplus.kept.pop()
            self._session.give([self._as_victim(surplus.slot, step.seats)])

    def _take(self, slot: int, shares: tuple[Share, ...]) -> None:
        gpus = sum(gpus for _, gpus in shares)
        self._session.take(Granted(slot, gpus, shares), self._session.kind(slot))

    def _shrink(self, slot: int, gone: tuple[Seat, ...]) -> None:
        nodes = tuple(self._session.state.node_row[seat.node] for seat in gone)
        numbers = frozenset(seat.number for seat in gone)
        self._outcome.stretched.append(Stretched(slot, gone=numbers, left_nodes=nodes))

    # --- growing ------------------------------------------------------------------------------

    def _may_grow(self, slots: Ints) -> list[int]:
        """Those of them whose last change is long enough ago."""
        holds = self._hold_seconds(slots).tolist()
        pairs = zip(slots.tolist(), holds, strict=True)
        return [slot for slot, seconds in pairs if self._may_change(slot, seconds)]

    def _grow_instead_of_refused(self) -> None:
        """GPUs that were meant for jobs which cannot be seated now would idle: others may grow.

        So the sizing step is asked once more without those; when they can be seated, what was lent
        like that is beyond its holders' targets and on offer to them. Whoever got back all that it
        had on offer may grow like anybody else; whoever is to be measured at its width stays there.
        """
        session, refused, ordered = self._session, self._outcome.waiting, self._ordered
        idle = np.minimum(self._free_now.gpus, session.room.gpus)
        if not len(refused) or not idle.any():
            return
        running, goals = self._live_goals()
        below = goals.size and (session.snapshot.jobs.max_gpus[running] > goals).any()
        if not below:
            return
        kept = ordered[~np.isin(ordered, refused)]
        self._targets[kept] = np.maximum(self._targets[kept], session.sized(kept))
        changed = [*(one.slot for one in self._outcome.stretched), *self._exploring]
        running = running[~np.isin(running, changed)]
        more = worth_growing(session.snapshot, running, self._targets[running], self._resizing)
        for slot in self._may_grow(more):
            self._grow(slot)

    def _live_goals(self) -> tuple[Ints, Ints]:
        """Running jobs that can be resized live, and the width that each is to have."""
        jobs, ordered = self._session.snapshot.jobs, self._ordered
        running = ordered[(jobs.state[ordered] == State.RUNNING) & jobs.live[ordered]]
        return running, np.maximum(self._targets[running], jobs.width[running])

    def _grow(self, slot: int) -> None:
        """Up to the target, on nodes that it is on first, if it may and gains by it."""
        session = self._session
        width = int(session.snapshot.jobs.width[slot])
        missing = min(int(self._targets[slot]) - width, session.growth_room(slot))
        missing -= missing % self._resizing.grain_gpus
        missing = session.state.runnable.rounded(slot, width + missing) - width
        if missing <= 0:
            return
        kind = session.kind(slot)
        added = self._gainful(slot, self._further(slot, missing))
        if not added:
            self._cramped += self._worth_a_move(slot)
            return
        self._take(slot, added)
        if session.restricted:
            session.held.take(session.queue(slot), sum(gpus for _, gpus in added))
        self._free_now.take(kind, added)
        self._outcome.stretched.append(Stretched(slot, added=added))

    def _worth_a_move(self, slot: int) -> list[int]:
        """The job itself, if it could only grow elsewhere and that is worth a restart."""
        if not self._resizing.packing.packs:
            return []
        one = np.array([slot])
        moving = replace(self._resizing, restarts=True)
        worthy = worth_restarting(self._session.snapshot, one, self._targets[one], moving)
        return [slot] if len(worthy) else []

    def _restart(self, slot: int) -> None:
        """Another start, wider, on what is free now and what it has itself."""
        session, width = self._session, int(self._targets[slot])
        missing = width - int(session.snapshot.jobs.width[slot])
        if not session.snapshot.jobs.yields[slot] or missing > int(self._free_now.gpus.sum()):
            return
        if gates.quota(session, session.kind(slot), session.queue(slot), missing) is not None:
            return
        granted = session.moved(slot, width)
        if granted is not None:
            self._outcome.moves.append(granted)

    def _may_change(self, slot: int, hold_seconds: float) -> bool:
        """Whether its last change is that long ago; if not, a round is asked for when it is."""
        if slot in self._outcome.preempted:
            return False
        now, jobs = self._session.now, self._session.snapshot.jobs
        resized = float(jobs.resized[slot])
        until = resized + hold_seconds
        if until <= now <= resized and jobs.started[slot] < resized:
            until = now + INSTANT_SECONDS
        if until > now:
            self._outcome.wake_by(until)
        return until <= now

    def _hold_seconds(self, slots: Ints) -> Floats:
        """Before a live growth: the longer a job still runs, the less it loses by waiting."""
        resizing, snapshot = self._resizing, self._session.snapshot
        if not resizing.hold_share:
            return np.full(len(slots), resizing.hold_seconds)
        left = seconds_left(snapshot, slots, snapshot.jobs.width[slots])
        held: Floats = np.maximum(resizing.hold_seconds, resizing.hold_share * left)
        return held

    def _further(self, slot: int, missing: int) -> tuple[Share, ...]:
        """As many of the missing GPUs as there are seats for; where packed, whole nodes beyond."""
        session, kind, grain = self._session, self._session.kind(slot), self._beyond_grain(slot)
        room, avoid = self._free_now.common(session.room), self._elsewhere(slot)
        here = self._beside(slot, room, missing)
        if self._resizing.packing.packs:
            here = self._cut_to_packed(slot, here)
        room.take(kind, here)
        left = missing - sum(gpus for _, gpus in here)
        left -= left % grain
        taken = len({*self._session.state.placement(slot).nodes})
        while left > 0 and (not self._resizing.packing.packs or self._fills_its_node(slot, here)):
            offer = session.recipe.place(room, session.fabric, kind, left, avoid=avoid)
            if offer is None:
                left -= grain
                continue
            if kind.max_nodes is not None and taken + len(offer.shares) > kind.max_nodes:
                break
            return (*here, *offer.shares)
        return here

    def _beyond_grain(self, slot: int) -> int:
        """By how many GPUs it grows beyond the nodes that it has."""
        if not self._resizing.packing.packs:
            return self._resizing.grain_gpus
        node = self._session.state.placement(slot).nodes[0]
        return int(self._session.fabric.nodes.gpus[self._session.state.node_row[node]])

    def _cut_to_packed(self, slot: int, here: tuple[Share, ...]) -> tuple[Share, ...]:
        """So much of it that the job's width divides its node, or fills it."""
        if len(here) != 1:
            return ()
        ((node, gpus),) = here
        size = int(self._session.fabric.nodes.gpus[node])
        width = self._session.state.placement(slot).width
        gpus = next(
            (g for g in range(gpus, 0, -1) if self._resizing.packing.allows(width + g, size)), 0
        )
        return ((node, gpus),) if gpus else ()

    def _fills_its_node(self, slot: int, here: tuple[Share, ...]) -> bool:
        """Whether it has whole nodes with these: only then may it go on to others."""
        state, more, size = self._session.state, dict(here), self._session.fabric.nodes.gpus
        held = state.placement(slot).gpus_by_node.items()
        rows = ((state.node_row[node], gpus) for node, gpus in held)
        return all(gpus + more.get(row, 0) == size[row] for row, gpus in rows)

    def _elsewhere(self, slot: int) -> Bools:
        """Nodes that it cannot grow to: kept for others, of another GPU type, in another pool."""
        session, nodes = self._session, self._session.fabric.nodes
        first = session.state.node_row[self._session.state.placement(slot).nodes[0]]
        alike = (nodes.gpu_type == nodes.gpu_type[first]) & (nodes.pool == nodes.pool[first])
        found: Bools = ~alike if session.reserved is None else ~alike | session.reserved
        return found

    def _beside(self, slot: int, room: Room, missing: int) -> tuple[Share, ...]:
        """On the nodes that it has already."""
        session, kind, grain = self._session, self._session.kind(slot), self._resizing.grain_gpus
        offered = np.zeros(len(room.gpus), np.int64)
        for tier in session.fabric.site(kind).tiers:
            offered = np.maximum(offered, room.offered(kind, tier))
        found: list[Share] = []
        for node in self._session.state.placement(slot).nodes:
            row = session.state.node_row[node]
            gpus = min(int(offered[row]), missing)
            gpus -= gpus % grain
            if gpus > 0 and (session.reserved is None or not session.reserved[row]):
                found.append((row, gpus))
                missing -= gpus
        return tuple(found)

    def _gainful(self, slot: int, added: tuple[Share, ...]) -> tuple[Share, ...]:
        """All of these shares, else those on nodes that it has already, if it gains by them."""
        rows = {self._session.state.node_row[n] for n in self._session.state.placement(slot).nodes}
        beside = tuple(share for share in added if share[0] in rows)
        return next((some for some in (added, beside) if some and self._gains(slot, some)), ())

    def _gains(self, slot: int, added: tuple[Share, ...]) -> bool:
        """Another node may slow a job down by more than its GPUs speed it up.

        Only recipes that use curves mind what was measured of the width itself.
        """
        state, seats = self._session.state, self._session.state.placement(slot).seats
        gpus = state.placement(slot).width + sum(count for _, count in added)
        if not state.runnable.runs(slot, gpus):
            return False
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
        width, more = self._session.state.placement(slot).width, sum(gpus for _, gpus in added)
        menus, menu = self._session.snapshot.menus, self._session.snapshot.jobs.menu[[slot, slot]]
        now, then = menus.speeds(menu, np.array([width, width + more])).tolist()
        promised = then / now - 1.0 if now > 0 else 0.0
        return max(1.0 + promised / 2.0, GAIN)
