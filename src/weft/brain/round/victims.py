"""Victims: running jobs that may have to yield in a round, worst rank first.

Only a few of them are ever looked at closely, so each becomes an object when it is; who may go at
all, how many GPUs they hold together and which node they could clear are answered from columns.
A mask over the candidates says who is meant.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Self

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.model.state import State
from weft.policy.place.room import Room

NEVER = 1 << 40
LOOKS, MANY_MORE = (64, 1024), 8
"""Among how many seats a node to clear is looked for before all, where all are many times more."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job with its place in the ranking and its seats (node, GPUs, CPUs, memory)."""

    slot: int
    position: int
    width: int
    queue: int
    seats: tuple[tuple[int, int, float, float], ...]


@dataclass(frozen=True, slots=True)
class _Seats:
    """Seats of all candidates on nodes that can be used, worst rank first; and their order by node
    and then by rank."""

    turns: Ints
    nodes: Ints
    gpus: Ints
    cpus: Floats
    memory_gib: Floats
    by_node: Ints

    @classmethod
    def of(cls, state: BrainState, slots: Ints, on_offer: Collection[int]) -> Self:
        """A companion's seats come with its lead's, and hold no GPUs."""
        seats, count, company = state.seats, state.seat_count, state.seating.company
        turn_of = np.full(state.size + 1, NEVER)
        turn_of[slots] = np.arange(len(slots))
        for lead in company.leads():
            turn_of[list(company.companions(lead))] = turn_of[lead]
        turns = turn_of[seats.slot[:count]]
        turns[list(on_offer)] = NEVER
        turns[~usable(state)[seats.node[:count]]] = NEVER
        some = np.flatnonzero(turns < NEVER)
        some = some[np.lexsort((seats.node[some], turns[some]))]
        nodes = seats.node[some]
        return cls(
            turns=turns[some],
            nodes=nodes,
            gpus=seats.gpus[some],
            cpus=seats.cpus[some],
            memory_gib=seats.memory_gib[some],
            by_node=nodes.argsort(kind="stable"),
        )


def by_party(state: BrainState, ordered: Ints, at: Ints) -> tuple[Ints, Ints]:
    """Running jobs and their places in the ranking, best first; of a party its lead alone.

    A party goes as a whole, so it has the place of its best member, and stays while one starts.
    """
    slots, company = ordered[at], state.seating.company
    if not company:
        return slots, at
    places = dict(zip(slots.tolist(), at.tolist(), strict=True))
    best = {
        slot: min(places.get(member, NEVER) for member in company.members(slot))
        for slot in places
        if not company.is_companion(slot) and not _somebody_starts(state, slot)
    }
    leads = sorted(best, key=lambda slot: best[slot])
    return np.array(leads, np.int64), np.array([best[slot] for slot in leads], np.int64)


def _somebody_starts(state: BrainState, lead: int) -> bool:
    others = state.seating.company.companions(lead)
    return any(state.state_of(slot) not in (State.RUNNING, State.STOPPING) for slot in others)


class Victims:
    """Candidates by index, worst first; those that are chosen are `left` no more."""

    def __init__(
        self,
        state: BrainState,
        slots: Ints,
        positions: Ints,
        on_offer: Collection[int] = (),
        order: Ints | None = None,
    ) -> None:
        """`slots` and `positions` come best rank first; seats in rows `on_offer` do not count.

        With an `order` that one goes first, whatever its rank, which it names first.
        """
        self._state = state
        self._by_rank = order is None
        turns = np.arange(len(slots))[::-1] if order is None else order
        self.slots = slots[turns]
        self._positions = positions[turns]
        self._negated: list[int] = (-self._positions).tolist()
        self._index_of: dict[int, int] | None = None
        self._seen: dict[int, Victim] = {}
        self._held: _Seats | None = None
        self.left: Bools = np.ones(len(slots), bool)
        self._on_offer = on_offer
        self.widths: Ints = state.jobs.width[self.slots] - self._offered_by()
        self.queues: Ints = state.jobs.queue[self.slots]
        self._sums: list[int] = [0, *self.widths.cumsum().tolist()]

    def behind(self, position: int) -> Bools:
        """Those left that rank behind that position."""
        mask = self.left.copy()
        if not self._by_rank:
            return mask & (self._positions > position)
        mask[bisect_left(self._negated, -position) :] = False
        return mask

    def gpus_behind(self, position: int) -> int:
        """At most so many GPUs are held by those who rank behind that position."""
        if not self._by_rank:
            return int(self.widths[self._positions > position].sum())
        return self._sums[bisect_left(self._negated, -position)]

    def one_node(self, mask: Bools, free: Ints, width: int) -> tuple[int, list[Victim]] | None:
        """The node that these can clear for `width`, and those of them who sit there.

        Each node's seats are given back worst rank first; the node that has enough after the
        worst-ranked prefix wins. Mostly that is a short one.
        """
        seats = self._seats
        meant = np.flatnonzero(mask[seats.turns])
        for most in LOOKS:
            if MANY_MORE * most > len(meant):
                break
            # Nobody's seats are cut in two.
            some = meant[seats.turns[meant] <= seats.turns[meant[most]]]
            some = some[seats.nodes[some].argsort(kind="stable")]
            if (found := self._cleared(some, free, width)) is not None:
                return found
        return self._cleared(seats.by_node[mask[seats.turns[seats.by_node]]], free, width)

    def room_without(self, mask: Bools, room: Room) -> Room:
        """What is free if all these were gone."""
        seats, count = self._seats, len(room.gpus)
        meant = np.flatnonzero(mask[seats.turns])
        nodes = seats.nodes[meant]
        gpus = room.gpus + np.bincount(nodes, seats.gpus[meant], count).astype(np.int64)
        if not self._state.counts_host:
            return Room(gpus, room.cpus, room.memory_gib)
        cpus = room.cpus + np.bincount(nodes, seats.cpus[meant], count)
        memory_gib = room.memory_gib + np.bincount(nodes, seats.memory_gib[meant], count)
        return Room(gpus, cpus, memory_gib)

    def sitting_on(self, nodes: Bools) -> Bools:
        """Those with a seat on one of these."""
        found = np.zeros(len(self.slots), bool)
        found[self._seats.turns[nodes[self._seats.nodes]]] = True
        return found

    def these(self, indices: Iterable[int]) -> Bools:
        """As a mask."""
        mask = np.zeros(len(self.slots), bool)
        mask[list(indices)] = True
        return mask

    def remove(self, victims: list[Victim]) -> None:
        if self._index_of is None:
            self._index_of = {slot: index for index, slot in enumerate(self.slots.tolist())}
        self.left[[self._index_of[victim.slot] for victim in victims]] = False

    def __getitem__(self, index: int) -> Victim:
        found = self._seen.get(index)
        if found is None:
            slot, position = int(self.slots[index]), int(self._positions[index])
            found = self._seen[index] = seated(self._state, slot, position, self._on_offer)
        return found

    def _offered_by(self) -> Ints:
        """GPUs of each that are on offer already."""
        rows, seats = list(self._on_offer), self._state.seats
        by_slot = np.bincount(seats.slot[rows], seats.gpus[rows], minlength=self._state.size)
        offered: Ints = by_slot.astype(np.int64)[self.slots]
        return offered

    def _cleared(self, meant: Ints, free: Ints, width: int) -> tuple[int, list[Victim]] | None:
        """The same among these seats, which come by node and then by rank."""
        nodes, turns = self._seats.nodes[meant], self._seats.turns[meant]
        if not len(nodes):
            return None
        enough = free[nodes] + _running_sums(nodes, self._seats.gpus[meant]) >= width
        if not enough.any():
            return None
        turn = int(turns[enough].min())
        node = int(nodes[enough][turns[enough].argmin()])
        on_node = turns[(nodes == node) & (turns <= turn)]
        return node, [self[index] for index in dict.fromkeys(on_node.tolist())]

    @property
    def _seats(self) -> _Seats:
        """Made when first asked for: in many rounds nobody has to go."""
        if self._held is None:
            self._held = _Seats.of(self._state, self.slots, self._on_offer)
        return self._held


def usable(state: BrainState) -> Bools:
    """Nodes whose seats are there for others once they are left."""
    return state.fabric.usable


def seated(
    state: BrainState, slot: int, position: int = 0, on_offer: Collection[int] = ()
) -> Victim:
    """The job in that slot, with its seats on nodes that can be used, but for those on offer."""
    nodes, there, placement = state.node_row, usable(state), state.placement(slot)
    own = [
        seat
        for seat, row in zip(placement.seats, state.seating.seat_rows[slot], strict=True)
        if row not in on_offer
    ]
    seats = tuple(
        (nodes[seat.node], seat.gpus, seat.cpus, seat.memory_gib)
        for seat in own
        if there[nodes[seat.node]]
    )
    for companion in state.seating.company.companions(slot):
        seats += tuple(
            (nodes[seat.node], 0, seat.cpus, seat.memory_gib)
            for seat in state.placement(companion).seats
            if there[nodes[seat.node]]
        )
    width = sum(seat.gpus for seat in own)
    return Victim(slot, position, width, int(state.jobs.queue[slot]), seats)


def least_lost_first(snapshot: Snapshot, slots: Ints) -> Ints:
    """An order in which the lowest priority goes first, and of equals who loses least by it.

    What is lost is what was trained since the last checkpoint, on all of its GPUs. When that was is
    known from how often the job saves; one that saves when it is told to stop loses nothing.
    """
    jobs = snapshot.jobs
    ran, every = snapshot.now - jobs.started[slots], jobs.saves_every_seconds[slots]
    with np.errstate(invalid="ignore", divide="ignore"):
        since = np.where(np.isfinite(every) & (every > 0), np.mod(ran, every), ran)
    lost = np.where(every > 0, since, 0.0) * jobs.width[slots]
    order: Ints = np.lexsort((-jobs.seq[slots], lost, jobs.priority[slots]))
    return order


def _running_sums(groups: Ints, amounts: Ints) -> Ints:
    """Sums so far within each run of equal groups."""
    sums = amounts.cumsum()
    begins = np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1])
    lengths = np.append(begins[1:], len(groups)) - begins
    before = (sums - amounts)[begins]
    result: Ints = sums - before.repeat(lengths)
    return result
