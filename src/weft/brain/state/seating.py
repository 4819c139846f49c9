"""Who sits where: the seats of all jobs as rows, and what each node has given away.

A seat is *held* from the moment its job is told to start, or to grow, until the world says that it
is free; it is *releasing* while the job stops or shrinks, and *pledged* while it waits for others
to release. Nothing is counted up and down: what a node has given away is the sum of its rows.
"""

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, replace

import numpy as np

from weft.brain.state.company import Company
from weft.brain.state.job_table import JobTable
from weft.brain.state.node_table import NodeTable
from weft.model.decision import Assignment
from weft.model.host import PerGpu
from weft.model.ids import PartyId
from weft.model.party import PartyRow
from weft.model.placement import Placement, Seat
from weft.model.snapshot import SeatColumns


@dataclass(frozen=True, slots=True)
class Underway:
    """A resize that the world has not answered: the seats before it, and what is to be.

    `standing` are those that were there before any resize that it has not answered: who joins has
    nothing to go on from yet.
    """

    before: frozenset[int]
    target: Assignment
    standing: frozenset[int]


@dataclass(frozen=True, slots=True)
class Meal:
    """A feeding that the world has not answered: what each GPU had before, and is to have."""

    serial: int
    before: PerGpu
    target: PerGpu


LEAVES = 2


class Seating:
    """Rows of seats, by job and by node. Of a party of several (`model.party`) only the lead's
    rows have GPUs; `company` says who that is.

    `admitted` are the parties with pledged seats, and whether a node of theirs is known to be taken
    until something is given back there; `resizes` and `feeding` are what the world has not
    answered, `held_on` the GPUs of each held row by node, `pledged_on` the parties with a pledge
    there, `of_party` the jobs that were told to take turns, by the name of their party. A node is
    `shrunk` while more is held on it than it has, `touched` when what is given away on it has
    changed since the last round, and `stale` when that has changed since what is free there was
    last summed (`vacancy`).
    """

    def __init__(self, jobs: JobTable, nodes: NodeTable) -> None:
        self._jobs = jobs
        self._nodes = nodes
        self.seats = SeatColumns.empty(64)
        self.seat_count = 0
        self.seat_rows: list[list[int]] = []
        self.assignments: list[Assignment | None] = []
        self.admitted: dict[int, bool] = {}
        self.resizes: dict[int, Underway] = {}
        self.feeding: dict[int, Meal] = {}
        self.held_on: list[dict[int, int]] = []
        self.pledged_on: list[dict[int, None]] = []
        self.shrunk: set[int] = set()
        self.touched: set[int] = set()
        self.stale: set[int] = set()
        self.company = Company()
        self.of_party: dict[PartyId, dict[int, None]] = {}
        self._free_rows: list[int] = []

    def add_node(self, node: int) -> None:
        """The node with that row may be sat on, or has changed."""
        if node == len(self.held_on):
            self.held_on.append({})
            self.pledged_on.append({})
        self.admitted.update(dict.fromkeys(self.pledged_on[node], False))
        self.touched.add(node)
        self.stale.add(node)

    def add_party(self, party: PartyRow) -> None:
        """A party that has no seats yet."""
        if party == len(self.seat_rows):
            self.seat_rows.append([])
            self.assignments.append(None)
        self.seat_rows[party].clear()

    def forget_party(self, party: PartyRow) -> None:
        """It is over, and has given its seats back before."""
        self.admitted.pop(party, None)
        self.assignments[party] = None

    def seat(
        self,
        party: PartyRow,
        assignment: Assignment,
        *,
        pledged: bool,
        lead: PartyRow | None = None,
    ) -> None:
        """Give the job its seats, pledged or held at once; their rows are in the same order.

        With a `lead` it takes turns on GPUs that the lead holds; of one that is found leaving, they
        are its own from now on.
        """
        if lead is not None:
            self.company.join(party, lead)
        if assignment.party:
            self.of_party.setdefault(assignment.party, {})[party] = None
        self.assignments[party] = assignment
        self._jobs.columns.width[party] = assignment.width
        for seat in assignment.placement.seats:
            self._put_seat(party, seat, pledged=pledged)
        if pledged:
            self.admitted[party] = False
        elif lead is not None and self._goes(lead) == LEAVES:
            self._pass_on(lead, to_whoever_stays=True)

    def add_seats(self, party: PartyRow, added: tuple[Seat, ...]) -> None:
        """Further seats, held at once, beside those that the job has."""
        for seat in added:
            self._put_seat(party, seat, pledged=False)
        self._reassign(party, (*self._seats_of(party), *added))

    def drop_seats(self, party: PartyRow, numbers: Collection[int]) -> list[int]:
        """Give some of the job's seats back; the nodes they were on."""
        pairs = list(zip(self._seats_of(party), self.seat_rows[party], strict=True))
        self._reassign(party, tuple(seat for seat, _ in pairs if seat.number not in numbers))
        self.seat_rows[party] = [row for seat, row in pairs if seat.number not in numbers]
        return [self._free_row(party, row) for seat, row in pairs if seat.number in numbers]

    def may_be_free(self, nodes: Collection[int]) -> list[int]:
        """The admitted who may have got their seats by what was given back on these nodes."""
        near = {party for node in nodes for party in self.pledged_on[node]}
        return [party for party, taken in self.admitted.items() if not taken or party in near]

    def hold(self, party: PartyRow) -> None:
        """Pledged seats become held."""
        for row in self.seat_rows[party]:
            self.seats.pledged[row] = False
            node = int(self.seats.node[row])
            self.pledged_on[node].pop(party, None)
            self.held_on[node][row] = int(self.seats.gpus[row])
            self.touched.add(node)
            self.stale.add(node)
        self.admitted.pop(party, None)

    def mark_releasing(self, party: PartyRow, numbers: Collection[int] | None = None) -> None:
        """The seats with these numbers are being left, or all; then any resize has ended too."""
        if numbers is None:
            self.resizes.pop(party, None)
            self.feeding.pop(party, None)
        for seat, row in zip(self._seats_of(party), self.seat_rows[party], strict=True):
            if numbers is None or seat.number in numbers:
                self.seats.releasing[row] = True
                self.stale.add(int(self.seats.node[row]))
        if numbers is None:
            self._pass_on(party, to_whoever_stays=True)

    def unmark_releasing(self, party: PartyRow) -> None:
        self.seats.releasing[self.seat_rows[party]] = False
        self.stale.update(self.nodes_of(party))

    def release(self, party: PartyRow) -> list[int]:
        """Give the job's seats back; the nodes they were on. GPUs that others use pass to them."""
        self._pass_on(party)
        self.company.leave(party)
        self._forget_name(party)
        nodes = [self._free_row(party, row) for row in self.seat_rows[party]]
        self.seat_rows[party].clear()
        self.resizes.pop(party, None)
        self.feeding.pop(party, None)
        self._jobs.columns.fed_cores[party] = self._jobs.columns.fed_gib[party] = 0.0
        self.assignments[party] = None
        self._jobs.columns.width[party] = 0
        self.admitted.pop(party, None)
        return nodes

    def fed(self, party: PartyRow) -> PerGpu:
        """What each GPU of the job holds beyond what its seat says."""
        return PerGpu(
            float(self._jobs.columns.fed_cores[party]), float(self._jobs.columns.fed_gib[party])
        )

    def feed(self, party: PartyRow, level: PerGpu) -> None:
        """Each GPU of the job holds so much beyond what its seat says."""
        self._jobs.columns.fed_cores[party], self._jobs.columns.fed_gib[party] = level
        rows, seats = self.seat_rows[party], self.seats
        seats.fed_cpus[rows] = seats.gpus[rows] * level.cores
        seats.fed_gib[rows] = seats.gpus[rows] * level.memory_gib
        self.touched.update(self.nodes_of(party))

    def placement(self, party: PartyRow) -> Placement:
        """Of a job that has seats."""
        assignment = self.assignments[party]
        assert assignment is not None, f"party {party} has no seats"
        return assignment.placement

    def nodes_of(self, party: PartyRow) -> list[int]:
        return [int(self.seats.node[row]) for row in self.seat_rows[party]]

    def gpus_staying(self, party: PartyRow, node: int) -> int:
        """GPUs that the job holds on that node and is not leaving."""
        seats = self.seats
        rows = (row for row in self.seat_rows[party] if seats.node[row] == node)
        return sum(self.held_on[node].get(row, 0) for row in rows if not seats.releasing[row])

    def staying_on(self, node: int) -> int:
        """GPUs held there by those who are not leaving."""
        held = self.held_on[node].items()
        return sum(gpus for row, gpus in held if not self.seats.releasing[row])

    @property
    def any_spread(self) -> bool:
        """Whether some party has several seats."""
        return any(len(rows) > 1 for rows in self.seat_rows)

    def rows_on(self, node: int) -> list[int]:
        """The rows of all seats there, held or pledged, in order."""
        rows = list(self.held_on[node])
        for party in self.pledged_on[node]:
            rows += [row for row in self.seat_rows[party] if self.seats.node[row] == node]
        return sorted(rows)

    def note_shrunk(self, node: int) -> bool:
        """Whether more is held there than the node has now: it shrank under its jobs."""
        if sum(self.held_on[node].values()) <= int(self._nodes.columns.gpus[node]):
            self.shrunk.discard(node)
            return False
        self.shrunk.add(node)
        return True

    def parties_on(self, node: int) -> list[PartyRow]:
        """Those with a seat, held or pledged, on that node; in order of submission."""
        rows = np.flatnonzero(
            (self.seats.node[: self.seat_count] == node) & (self.seats.slot[: self.seat_count] >= 0)
        )
        parties = sorted({int(self.seats.slot[row]) for row in rows})
        return sorted(parties, key=lambda party: int(self._jobs.columns.seq[party]))

    def copied(self, jobs: JobTable, nodes: NodeTable) -> "Seating":
        """An independent one over those rows of jobs and nodes."""
        twin = copy(self)
        twin._jobs, twin._nodes = jobs, nodes
        twin.seats, twin._free_rows = self.seats.copied(), list(self._free_rows)
        twin.assignments = list(self.assignments)
        twin.seat_rows = [list(rows) for rows in self.seat_rows]
        twin.held_on = [dict(held) for held in self.held_on]
        twin.pledged_on = [dict(pledged) for pledged in self.pledged_on]
        twin.admitted, twin.resizes = dict(self.admitted), dict(self.resizes)
        twin.feeding = dict(self.feeding)
        twin.shrunk, twin.touched = set(self.shrunk), set(self.touched)
        twin.stale, twin.company = set(self.stale), self.company.copied()
        twin.of_party = {party: dict(named) for party, named in self.of_party.items()}
        return twin

    # --- helpers ------------------------------------------------------------------------------

    def _pass_on(self, lead: PartyRow, *, to_whoever_stays: bool = False) -> None:
        """The GPUs of one that goes are those of a companion from now on: one that stays, if any.

        With `to_whoever_stays` they are kept where nobody does.
        """
        ranked = sorted(self.company.companions(lead), key=self._goes)
        if not ranked or (to_whoever_stays and self._goes(ranked[0])):
            return
        self._put_gpus(lead, held=False)
        self._put_gpus(ranked[0], held=True)
        self.company.follow(lead, ranked[0])

    def _forget_name(self, party: PartyRow) -> None:
        assignment = self.assignments[party]
        if assignment is not None and assignment.party:
            named = self.of_party[assignment.party]
            del named[party]
            if not named:
                del self.of_party[assignment.party]

    def _goes(self, party: PartyRow) -> int:
        """0 for who sits and stays, 1 for who has not begun, `LEAVES` for who is leaving."""
        rows, seats = self.seat_rows[party], self.seats
        return LEAVES if seats.releasing[rows].any() else int(seats.pledged[rows].any())

    def _put_gpus(self, party: PartyRow, *, held: bool) -> None:
        """Its rows count the GPUs of its seats, or none."""
        for seat, row in zip(self._seats_of(party), self.seat_rows[party], strict=True):
            gpus = self.seats.gpus[row] = seat.gpus if held else 0
            node = int(self.seats.node[row])
            if row in self.held_on[node]:
                self.held_on[node][row] = gpus
            self.touched.add(node)
            self.stale.add(node)

    def _seats_of(self, party: PartyRow) -> tuple[Seat, ...]:
        assignment = self.assignments[party]
        return assignment.placement.seats if assignment else ()

    def _reassign(self, party: PartyRow, seats: tuple[Seat, ...]) -> None:
        assignment = self.assignments[party]
        assert assignment is not None
        placement = Placement(seats)
        width = self._jobs.columns.width[party] = placement.width
        self.assignments[party] = replace(assignment, width=width, placement=placement)

    def _put_seat(self, party: PartyRow, seat: Seat, *, pledged: bool) -> None:
        row, node, seats = self._take_row(), self._nodes.row[seat.node], self.seats
        seats.slot[row] = party
        seats.node[row] = node
        gpus = 0 if self.company.is_companion(party) else seat.gpus
        seats.gpus[row] = gpus
        seats.cpus[row] = seat.cpus
        seats.memory_gib[row] = seat.memory_gib
        seats.fed_cpus[row] = seat.gpus * self._jobs.columns.fed_cores[party]
        seats.fed_gib[row] = seat.gpus * self._jobs.columns.fed_gib[party]
        seats.pledged[row] = pledged
        seats.releasing[row] = False
        self.seat_rows[party].append(row)
        self.touched.add(node)
        self.stale.add(node)
        if pledged:
            self.pledged_on[node][party] = None
        else:
            self.held_on[node][row] = gpus

    def _free_row(self, party: PartyRow, row: int) -> int:
        """Nobody has this seat any more; its node."""
        seats, node = self.seats, int(self.seats.node[row])
        self.held_on[node].pop(row, None)
        self.pledged_on[node].pop(party, None)
        self.touched.add(node)
        self.stale.add(node)
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
