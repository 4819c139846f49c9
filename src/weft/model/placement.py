"""A placement: the seats that a job, or a group of interleaved jobs, holds.

Seats are numbered within an incarnation and a number is never used twice in it, so that a live
resize can keep some, add others and take some away, and all sides mean the same seat by a number.
Seat 0 holds the head of the job at first; when it goes, another one does.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace

from weft.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class Seat:
    """GPUs, CPUs and memory on one node. `devices` stays empty where the world binds them."""

    node: NodeId
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    devices: tuple[int, ...] = ()
    number: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Seats in rank order: the first seat holds the lowest ranks."""

    seats: tuple[Seat, ...]
    _numbers: frozenset[int] | None = field(default=None, init=False, repr=False, compare=False)
    _nodes: tuple[NodeId, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def width(self) -> int:
        if len(self.seats) == 1:
            return self.seats[0].gpus
        return sum([seat.gpus for seat in self.seats])

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Asked for again and again in every round, so kept when first asked for."""
        if self._nodes is None:
            found = tuple(dict.fromkeys([seat.node for seat in self.seats]))
            object.__setattr__(self, "_nodes", found)
        assert self._nodes is not None
        return self._nodes

    @property
    def numbers(self) -> frozenset[int]:
        """Kept for the same reason."""
        if self._numbers is None:
            object.__setattr__(self, "_numbers", frozenset(seat.number for seat in self.seats))
        assert self._numbers is not None
        return self._numbers

    @property
    def gpus_by_node(self) -> dict[NodeId, int]:
        """Several seats of a job may be on one node."""
        found: dict[NodeId, int] = {}
        for seat in self.seats:
            found[seat.node] = found.get(seat.node, 0) + seat.gpus
        return found

    def numbered(self) -> "Placement":
        """The same, each seat with a number of its own: by its place where that was not so."""
        if len(self.numbers) == len(self.seats):
            return self
        seats = enumerate(self.seats)
        return Placement(tuple(replace(seat, number=number) for number, seat in seats))

    def only(self, numbers: Collection[int]) -> "Placement":
        """What is left when the other seats are gone."""
        return Placement(tuple(seat for seat in self.seats if seat.number in numbers))

    def added_by(self, other: "Placement") -> tuple[Seat, ...]:
        """Seats that only the other one has."""
        return tuple(seat for seat in other.seats if seat.number not in self.numbers)

    def joined_with(self, other: "Placement") -> "Placement":
        """Both sides of a resize: its own seats, and those that only the other one has."""
        return Placement((*self.seats, *self.added_by(other)))
