"""Places for workers: on the head's own seat, and on those that followers have brought.

A seat is a pod, or this machine. It has room for some workers: a number of places, a pool of device
numbers, or no bound at all. A worker takes the lowest free place and keeps it until it has ended,
so the first ranks of a crew stand beside the head, where a plain script's ranks look for rank 0. A
place that was withdrawn is nobody's any more; whoever still stands there is to leave.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

HEAD_SEAT: Final = 0


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Room for one worker; `device` is the one that it may see, if they are told apart."""

    seat: int
    index: int
    device: int | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """Where workers may run: without indices there is room for any number of them."""

    number: int
    gpus: int = 0
    indices: tuple[int, ...] | None = None
    by_device: bool = False

    def places(self) -> Iterator[Place]:
        indices = count() if self.indices is None else iter(self.indices)
        for index in indices:
            yield Place(self.number, index, index if self.by_device else None)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a worker stands among those that are started with it, as torchrun would count."""

    rank: int
    width: int
    local_rank: int = 0
    local_width: int = 1
    node_rank: int = 0
    nodes: int = 1


class Places:
    """Who stands where."""

    def __init__(self) -> None:
        self._seats: dict[int, Seat] = {}
        self._held: dict[int, Place] = {}
        self._lots: dict[int, str] = {}

    def open(self, seat: Seat) -> None:
        """There is a seat, or it has other room than before."""
        self._seats[seat.number] = seat

    def withdraw(self, seat: int) -> Seat | None:
        """Nobody may come to this seat any more; who is there stays until it is let go.

        Gives the seat as it was, for whoever may take that back.
        """
        return self._seats.pop(seat, None)

    def take(self, worker: int, lot: str = "") -> Place | None:
        """The lowest place that nobody of its lot has, now this worker's; None if there is none.

        Workers of another execution plan stand for a while where those of the old one stand.
        """
        taken = {place for other, place in self._held.items() if self._lots.get(other, "") == lot}
        for number in sorted(self._seats):
            for place in self._seats[number].places():
                if place not in taken:
                    self._held[worker], self._lots[worker] = place, lot
                    return place
        return None

    def hold(self, worker: int, place: Place, lot: str = "") -> None:
        """It stands there already."""
        self._held[worker], self._lots[worker] = place, lot

    def release(self, worker: int) -> None:
        self._held.pop(worker, None)
        self._lots.pop(worker, None)

    def of(self, worker: int) -> Place | None:
        return self._held.get(worker)

    @property
    def workers(self) -> tuple[int, ...]:
        return tuple(self._held)

    def workers_on(self, seat: int) -> tuple[int, ...]:
        return tuple(worker for worker, place in self._held.items() if place.seat == seat)

    @property
    def unwanted(self) -> frozenset[int]:
        """Workers whose place has been withdrawn."""
        return frozenset(worker for worker, place in self._held.items() if not self._has(place))

    @property
    def room(self) -> int | None:
        """Workers that fit; None if any number does."""
        sizes = [seat.indices for seat in self._seats.values()]
        if any(indices is None for indices in sizes):
            return None
        return sum(len(indices) for indices in sizes if indices is not None)

    @property
    def seats(self) -> tuple[int, ...]:
        return tuple(sorted(self._seats))

    @property
    def gpus(self) -> int:
        return sum(seat.gpus for seat in self._seats.values())

    def standing(self, worker: int, rank: int, width: int) -> Standing:
        """As if all workers of that width stood on the first places, which at a start they do."""
        place = self._held[worker]
        crews = self._crews(width)
        if place.device is not None or place.seat not in crews:
            # It sees one device, and calls it 0; or it came when the crew was complete.
            return Standing(rank, width, 0, 1, max(place.seat, 0), max(len(crews), 1))
        seats = sorted(crews)
        return Standing(
            rank,
            width,
            local_rank=place.index,
            local_width=crews[place.seat],
            node_rank=seats.index(place.seat),
            nodes=len(seats),
        )

    def _has(self, place: Place) -> bool:
        seat = self._seats.get(place.seat)
        if seat is None or seat.by_device != (place.device is not None):
            return False
        return seat.indices is None or place.index in seat.indices

    def _crews(self, width: int) -> dict[int, int]:
        """How many of a crew of that width stand on each seat."""
        crews: dict[int, int] = {}
        left = width
        for number in sorted(self._seats):
            indices = self._seats[number].indices
            crews[number] = left if indices is None else min(left, len(indices))
            left -= crews[number]
            if left <= 0:
                break
        return crews
