"""A placement: the seats that a job, or a group of interleaved jobs, holds."""

from dataclasses import dataclass

from weft.model.ids import NodeId


@dataclass(frozen=True, slots=True)
class Seat:
    """GPUs, CPUs and memory on one node. `devices` stays empty where the world binds them."""

    node: NodeId
    gpus: int
    cpus: float = 0.0
    memory_gib: float = 0.0
    devices: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Seats in rank order: the first seat holds the lowest ranks."""

    seats: tuple[Seat, ...]

    @property
    def width(self) -> int:
        return sum(seat.gpus for seat in self.seats)

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        return tuple(dict.fromkeys(seat.node for seat in self.seats))
