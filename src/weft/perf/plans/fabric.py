"""The fabric: GPUs of a node, how they reach each other, and what the host beside them has.

Bandwidths are what an all-reduce measured, by level, not what is printed on the box. Neighbouring
GPUs share a network card, so a job with two GPUs on each of four nodes has a quarter of the
bandwidth between nodes that it would have with eight: where it sits decides what it can send.
"""

from dataclasses import dataclass, fields

from weft.model.errors import SpecError

GIB = float(2**30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fabric:
    """One kind of node; bandwidths in bytes per second and direction."""

    gpus_per_node: int = 8
    gpu_memory_bytes: float = 80 * GIB
    gpu_flops: float = 312e12
    """Peak of its matrix units."""

    link_bandwidth: float = 150e9
    """Between GPUs of a node, per GPU."""

    cards_per_node: int = 4
    card_bandwidth: float = 20e9
    """Between nodes, per network card."""

    host_bandwidth: float = 20e9
    """Between a GPU and main memory."""

    cores_per_node: int = 96
    host_memory_bytes: float = 1600 * GIB

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise SpecError(
                    f"a node with {field.name} {value} cannot be",
                    hint=f"measure {field.name} and give it above 0",
                )

    def cards(self, gpus: int) -> int:
        """Network cards within reach of so many GPUs of a node."""
        per_card = max(1, self.gpus_per_node // self.cards_per_node)
        return min(self.cards_per_node, -(-gpus // per_card))

    def filled(self, gpus: int) -> tuple[int, ...]:
        """GPUs by node when as few nodes as possible are used."""
        whole, rest = divmod(gpus, self.gpus_per_node)
        return (self.gpus_per_node,) * whole + ((rest,) if rest else ())
