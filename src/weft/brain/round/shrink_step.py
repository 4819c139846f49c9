"""Shrink steps: which seats a job could leave, first to last, and which of them only together.

The first seat that a job has holds its head, as a rule, and is never left. Otherwise it leaves the
nodes on which it has fewest first. One that is network-packed leaves whole nodes, its head's own
last: seat by seat it would come to be spread thinly over two nodes, and share a network card with
whoever follows (AFS).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from weft.model.ids import NodeId
from weft.model.placement import Placement, Seat


@dataclass(frozen=True, slots=True)
class ShrinkStep:
    """Seats on one node that are kept or left together; `whole` is all that the job has there."""

    seats: tuple[Seat, ...]
    whole: bool = False

    @property
    def node(self) -> NodeId:
        return self.seats[0].node

    @property
    def gpus(self) -> int:
        return sum(seat.gpus for seat in self.seats)

    def as_one(self) -> Seat:
        """A seat that needs what they need together."""
        cpus, memory = (seat.cpus for seat in self.seats), (seat.memory_gib for seat in self.seats)
        return Seat(self.node, self.gpus, sum(cpus), sum(memory))


def shrink_steps(
    placement: Placement, usable: frozenset[NodeId], *, packed: bool
) -> Iterator[ShrinkStep]:
    """First to last; only on nodes that can be used, for elsewhere nobody gains by it."""
    on_node, first = placement.gpus_by_node, min(placement.numbers)
    seats = sorted(placement.seats, key=lambda seat: (on_node[seat.node], -seat.number))
    if not packed:
        yield from _one_by_one((seat for seat in seats if seat.node in usable), first)
        return
    home = next(seat.node for seat in seats if seat.number == first)
    for node in dict.fromkeys(seat.node for seat in seats if seat.node != home):
        if node not in usable:
            return
        yield ShrinkStep(tuple(seat for seat in seats if seat.node == node), whole=True)
    if home in usable:
        yield from _one_by_one((seat for seat in seats if seat.node == home), first)


def _one_by_one(seats: Iterator[Seat], first: int) -> Iterator[ShrinkStep]:
    return (ShrinkStep((seat,)) for seat in seats if seat.number != first and seat.gpus)
