"""Victims: running jobs that may have to yield in a round, worst rank first.

Only a few of them are ever looked at closely, so each becomes an object when it is; how many rank
behind a given job, and how many GPUs they hold together, are answered from columns.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.brain.state import BrainState
from weft.model.snapshot import Ints

NEVER = 1 << 40


@dataclass(frozen=True, slots=True)
class Victim:
    """A running job with its place in the ranking and its seats (node, GPUs, CPUs, memory).

    Seats on a cordoned node are left out: nobody could take them over.
    """

    slot: int
    position: int
    width: int
    queue: int
    seats: tuple[tuple[int, int, float, float], ...]


class Victims:
    """Candidates in order, worst first; shrinks as they are chosen."""

    def __init__(self, state: BrainState, slots: Ints, positions: Ints) -> None:
        """`slots` and `positions` come best rank first."""
        self._state = state
        self.slots: list[int] = slots[::-1].tolist()
        self._positions = positions[::-1]
        self._seen: dict[int, Victim] = {}
        self._refresh()

    def _refresh(self) -> None:
        self._negated = (-self._positions).tolist()
        widths = self._state.jobs.width[np.array(self.slots, np.int64)]
        self._by_node: tuple[Ints, Ints, Ints] | None = None
        self._gpus: list[int] = [0, *np.cumsum(widths).tolist()]

    def count_behind(self, position: int) -> int:
        """How many rank behind that position."""
        return bisect_left(self._negated, -position)

    def gpus_of(self, count: int) -> int:
        """GPUs that the worst `count` hold together."""
        return self._gpus[count]

    def one_node(self, count: int, free: Ints, width: int) -> tuple[int, list[Victim]] | None:
        """The node that the worst of the first `count` can clear for `width`, and who sits there.

        Each node's seats are given back worst rank first; the node that has enough after the
        worst-ranked prefix wins.
        """
        nodes, turns, gpus = self._seats_behind(count)
        room = free[nodes] + _running_sums(nodes, gpus)
        enough = room >= width
        if not enough.any():
            return None
        turn = int(turns[enough].min())
        node = int(nodes[enough][turns[enough].argmin()])
        on_node = turns[(nodes == node) & (turns <= turn)]
        return node, [self[index] for index in on_node.tolist()]

    def _seats_behind(self, count: int) -> tuple[Ints, Ints, Ints]:
        """Node, turn and GPUs of the seats of the worst `count`, by node and then by turn."""
        if self._by_node is None:
            seats, rows = self._state.seats, self._state.seat_count
            turn_of = np.full(self._state.size + 1, NEVER)
            turn_of[self.slots] = np.arange(len(self.slots))
            turns = turn_of[seats.slot[:rows]]
            some = np.flatnonzero(turns < NEVER)
            some = some[np.lexsort((turns[some], seats.node[some]))]
            self._by_node = seats.node[some], turns[some], seats.gpus[some]
        nodes, turns, gpus = self._by_node
        behind = turns < count
        return nodes[behind], turns[behind], gpus[behind]

    def worst(self, count: int) -> list[Victim]:
        return [self[index] for index in range(count)]

    def __getitem__(self, index: int) -> Victim:
        slot = self.slots[index]
        found = self._seen.get(slot)
        if found is None:
            found = self._seen[slot] = seated(self._state, slot, int(self._positions[index]))
        return found

    def remove(self, victims: Iterable[Victim]) -> None:
        gone = {victim.slot for victim in victims}
        keep = [index for index, slot in enumerate(self.slots) if slot not in gone]
        self.slots = [self.slots[index] for index in keep]
        self._positions = self._positions[keep]
        self._refresh()


def seated(state: BrainState, slot: int, position: int = 0) -> Victim:
    """The job in that slot, with its seats."""
    assignment = state.assignments[slot]
    assert assignment is not None, f"slot {slot} has no seats"
    rows, usable = state.node_row, state.fabric.usable
    seats = tuple(
        (rows[seat.node], seat.gpus, seat.cpus, seat.memory_gib)
        for seat in assignment.placement.seats
        if usable[rows[seat.node]]
    )
    return Victim(slot, position, assignment.width, int(state.jobs.queue[slot]), seats)


def _running_sums(groups: Ints, amounts: Ints) -> Ints:
    """Sums so far within each run of equal groups."""
    sums = amounts.cumsum()
    begins = np.concatenate([[0], np.flatnonzero(groups[1:] != groups[:-1]) + 1])
    lengths = np.append(begins[1:], len(groups)) - begins
    before = (sums - amounts)[begins]
    result: Ints = sums - before.repeat(lengths)
    return result
