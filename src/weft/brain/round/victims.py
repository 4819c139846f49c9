"""Victims: running jobs that may have to yield in a round, worst rank first.

Only a few of them are ever looked at closely, so each becomes an object when it is; who may go at
all, how many GPUs they hold together and which node they could clear are answered from columns.
A mask over the candidates says who is meant.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.model.snapshot import Bools, Ints, Snapshot
from weft.model.state import State

NEVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job with its place in the ranking and its seats (node, GPUs, CPUs, memory)."""

    slot: int
    position: int
    width: int
    queue: int
    seats: tuple[tuple[int, int, float, float], ...]


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
        self._by_node: tuple[Ints, Ints, Ints] | None = None
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
        worst-ranked prefix wins.
        """
        nodes, turns, gpus = self._seats_of(mask)
        if not len(nodes):
            return None
        enough = free[nodes] + _running_sums(nodes, gpus) >= width
        if not enough.any():
            return None
        turn = int(turns[enough].min())
        node = int(nodes[enough][turns[enough].argmin()])
        on_node = turns[(nodes == node) & (turns <= turn)]
        return node, [self[index] for index in dict.fromkeys(on_node.tolist())]

    def reach(self, mask: Bools, free: Ints) -> Ints:
        """Free GPUs by node if all these were gone."""
        nodes, _, gpus = self._seats_of(mask)
        return free + np.bincount(nodes, gpus, minlength=len(free)).astype(np.int64)

    def each(self, mask: Bools) -> Iterator[Victim]:
        """Worst first, and only as many as are asked for."""
        return map(self.__getitem__, np.flatnonzero(mask).tolist())

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

    def _seats_of(self, mask: Bools) -> tuple[Ints, Ints, Ints]:
        """Node, index and GPUs of their seats, by node and then by index."""
        if self._by_node is None:
            seats, rows = self._state.seats, self._state.seat_count
            turn_of = np.full(self._state.size + 1, NEVER)
            turn_of[self.slots] = np.arange(len(self.slots))
            turns = turn_of[seats.slot[:rows]]
            turns[list(self._on_offer)] = NEVER
            some = np.flatnonzero(turns < NEVER)
            some = some[np.lexsort((turns[some], seats.node[some]))]
            self._by_node = seats.node[some], turns[some], seats.gpus[some]
        nodes, turns, gpus = self._by_node
        meant = mask[turns]
        return nodes[meant], turns[meant], gpus[meant]


def seated(
    state: BrainState, slot: int, position: int = 0, on_offer: Collection[int] = ()
) -> Victim:
    """The job in that slot, with its seats on nodes that can be used, but for those on offer."""
    nodes, usable, placement = state.node_row, state.fabric.usable, state.placement(slot)
    own = [
        seat
        for seat, row in zip(placement.seats, state.seating.seat_rows[slot], strict=True)
        if row not in on_offer
    ]
    seats = tuple(
        (nodes[seat.node], seat.gpus, seat.cpus, seat.memory_gib)
        for seat in own
        if usable[nodes[seat.node]]
    )
    for companion in state.seating.company.companions(slot):
        seats += tuple(
            (nodes[seat.node], 0, seat.cpus, seat.memory_gib)
            for seat in state.placement(companion).seats
            if usable[nodes[seat.node]]
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
