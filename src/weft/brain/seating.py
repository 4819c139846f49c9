"""Who sits where: the seats of all jobs as rows, and what each node has given away.

A seat is *held* from the moment its job is told to start, or to grow, until the world says that it
is free; it is *releasing* while the job stops or shrinks, and *pledged* while it waits for others
to release. Nothing is counted up and down: what a node has given away is the sum of its rows.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np

from weft.brain.nodes import NodeTable
from weft.model.decision import Assignment
from weft.model.host import PerGpu
from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat
from weft.model.snapshot import JobColumns, NodeColumns, SeatColumns


@dataclass(frozen=True, slots=True)
class Underway:
    """A resize that the world has not answered: the seats before it, and what is to be."""

    before: frozenset[int]
    target: Assignment


@dataclass(frozen=True, slots=True)
class Meal:
    """A feeding that the world has not answered: what each GPU had before, and is to have."""

    serial: int
    before: PerGpu
    target: PerGpu


class Seating:
    """Rows of seats, by job and by node."""

    def __init__(self) -> None:
        self.jobs = JobColumns.empty(64)
        self.node_table = NodeTable()
        self.seats = SeatColumns.empty(64)
        self.seat_count = 0
        self.seat_rows: list[list[int]] = []
        self.assignments: list[Assignment | None] = []
        self.admitted: dict[int, None] = {}
        self.resizes: dict[int, Underway] = {}
        self.feeding: dict[int, Meal] = {}
        self.held_on: list[dict[int, int]] = []
        self.pledged_on: list[dict[int, None]] = []
        self.shrunk: set[int] = set()
        self.touched: set[int] = set()
        self._free_rows: list[int] = []

    @property
    def nodes(self) -> NodeColumns:
        return self.node_table.columns

    @property
    def node_row(self) -> dict[NodeId, int]:
        return self.node_table.row

    def seat(self, slot: int, assignment: Assignment, *, pledged: bool) -> None:
        """Give the job its seats, pledged or held at once; their rows are in the same order."""
        self.assignments[slot] = assignment
        self.jobs.width[slot] = assignment.width
        for seat in assignment.placement.seats:
            self._put_seat(slot, seat, pledged=pledged)
        if pledged:
            self.admitted[slot] = None

    def add_seats(self, slot: int, added: tuple[Seat, ...]) -> None:
        """Further seats, held at once, beside those that the job has."""
        for seat in added:
            self._put_seat(slot, seat, pledged=False)
        self._reassign(slot, (*self._seats_of(slot), *added))

    def drop_seats(self, slot: int, numbers: Collection[int]) -> list[int]:
        """Give some of the job's seats back; the nodes they were on."""
        pairs = list(zip(self._seats_of(slot), self.seat_rows[slot], strict=True))
        self._reassign(slot, tuple(seat for seat, _ in pairs if seat.number not in numbers))
        self.seat_rows[slot] = [row for seat, row in pairs if seat.number not in numbers]
        return [self._free_row(slot, row) for seat, row in pairs if seat.number in numbers]

    def hold(self, slot: int) -> None:
        """Pledged seats become held."""
        for row in self.seat_rows[slot]:
            self.seats.pledged[row] = False
            node = int(self.seats.node[row])
            self.pledged_on[node].pop(slot, None)
            self.held_on[node][row] = int(self.seats.gpus[row])
            self.touched.add(node)
        self.admitted.pop(slot, None)

    def mark_releasing(self, slot: int, numbers: Collection[int] | None = None) -> None:
        """The seats with these numbers are being left, or all; then any resize has ended too."""
        if numbers is None:
            self.resizes.pop(slot, None)
            self.feeding.pop(slot, None)
        for seat, row in zip(self._seats_of(slot), self.seat_rows[slot], strict=True):
            if numbers is None or seat.number in numbers:
                self.seats.releasing[row] = True

    def unmark_releasing(self, slot: int) -> None:
        self.seats.releasing[self.seat_rows[slot]] = False

    def release(self, slot: int) -> list[int]:
        """Give the job's seats back; the nodes they were on."""
        nodes = [self._free_row(slot, row) for row in self.seat_rows[slot]]
        self.seat_rows[slot].clear()
        self.resizes.pop(slot, None)
        self.feeding.pop(slot, None)
        self.jobs.fed_cores[slot] = self.jobs.fed_gib[slot] = 0.0
        self.assignments[slot] = None
        self.jobs.width[slot] = 0
        self.admitted.pop(slot, None)
        return nodes

    def fed(self, slot: int) -> PerGpu:
        """What each GPU of the job holds beyond what its seat says."""
        return PerGpu(float(self.jobs.fed_cores[slot]), float(self.jobs.fed_gib[slot]))

    def feed(self, slot: int, level: PerGpu) -> None:
        """Each GPU of the job holds so much beyond what its seat says."""
        self.jobs.fed_cores[slot], self.jobs.fed_gib[slot] = level
        rows, seats = self.seat_rows[slot], self.seats
        seats.fed_cpus[rows] = seats.gpus[rows] * level.cores
        seats.fed_gib[rows] = seats.gpus[rows] * level.memory_gib
        self.touched.update(self.nodes_of(slot))

    def placement(self, slot: int) -> Placement:
        """Of a job that has seats."""
        assignment = self.assignments[slot]
        assert assignment is not None, f"slot {slot} has no seats"
        return assignment.placement

    def nodes_of(self, slot: int) -> list[int]:
        return [int(self.seats.node[row]) for row in self.seat_rows[slot]]

    def gpus_staying(self, slot: int, node: int) -> int:
        """GPUs that the job holds on that node and is not leaving."""
        seats = self.seats
        rows = (row for row in self.seat_rows[slot] if seats.node[row] == node)
        return sum(self.held_on[node].get(row, 0) for row in rows if not seats.releasing[row])

    def staying_on(self, node: int) -> int:
        """GPUs held there by those who are not leaving."""
        held = self.held_on[node].items()
        return sum(gpus for row, gpus in held if not self.seats.releasing[row])

    def note_shrunk(self, node: int) -> bool:
        """Whether more is held there than the node has now: it shrank under its jobs."""
        if sum(self.held_on[node].values()) <= int(self.nodes.gpus[node]):
            self.shrunk.discard(node)
            return False
        self.shrunk.add(node)
        return True

    def jobs_on(self, node: int) -> list[int]:
        """Slots with a seat, held or pledged, on that node; in order of submission."""
        rows = np.flatnonzero(
            (self.seats.node[: self.seat_count] == node) & (self.seats.slot[: self.seat_count] >= 0)
        )
        slots = sorted({int(self.seats.slot[row]) for row in rows})
        return sorted(slots, key=lambda slot: int(self.jobs.seq[slot]))

    # --- helpers ------------------------------------------------------------------------------

    def _seats_of(self, slot: int) -> tuple[Seat, ...]:
        assignment = self.assignments[slot]
        return assignment.placement.seats if assignment else ()

    def _reassign(self, slot: int, seats: tuple[Seat, ...]) -> None:
        assignment = self.assignments[slot]
        assert assignment is not None
        placement = Placement(seats)
        width = self.jobs.width[slot] = placement.width
        self.assignments[slot] = replace(assignment, width=width, placement=placement)

    def _put_seat(self, slot: int, seat: Seat, *, pledged: bool) -> None:
        row, node, seats = self._take_row(), self.node_row[seat.node], self.seats
        seats.slot[row] = slot
        seats.node[row] = node
        seats.gpus[row] = seat.gpus
        seats.cpus[row] = seat.cpus
        seats.memory_gib[row] = seat.memory_gib
        seats.fed_cpus[row] = seat.gpus * self.jobs.fed_cores[slot]
        seats.fed_gib[row] = seat.gpus * self.jobs.fed_gib[slot]
        seats.pledged[row] = pledged
        seats.releasing[row] = False
        self.seat_rows[slot].append(row)
        self.touched.add(node)
        if pledged:
            self.pledged_on[node][slot] = None
        else:
            self.held_on[node][row] = seat.gpus

    def _free_row(self, slot: int, row: int) -> int:
        """Nobody has this seat any more; its node."""
        seats, node = self.seats, int(self.seats.node[row])
        self.held_on[node].pop(row, None)
        self.pledged_on[node].pop(slot, None)
        self.touched.add(node)
        if self.shrunk:
            self.note_shrunk(node)
        seats.slot[row] = -1
        seats.gpus[row] = 0
        seats.cpus[row] = 0.0
        seats.memory_gib[row] = 0.0
        seats.fed_cpus[row] = seats.fed_gib[row] = 0.0
        seats.pledged[row] = False
        seats.releasing[row] = False
        self._free_rows.append(row)
        return node

    def _take_row(self) -> int:
        if self._free_rows:
            return self._free_rows.pop()
        row = self.seat_count
        self.seat_count += 1
        if row >= len(self.seats.slot):
            self.seats = self.seats.grown(2 * row)
        return row
