"""Speed of a job under its placement: width × GPU type × locality × company × host.

One function serves the brain, which extrapolates progress between reports, and the simulated
world, which makes the progress. Each hands in its own numbers: the brain what is claimed and what
it has learnt, the world what is true. So the two agree where the claims do, and nowhere else.
"""

from dataclasses import dataclass

from weft.model.host import HostCurve
from weft.model.request import INDIFFERENT, Locality


@dataclass(frozen=True, slots=True)
class Traits:
    """What makes a job faster or slower where it sits, as whoever asks knows or believes it.

    `alone` is its work per second when it is well placed on GPUs of speed 1, `type_speed` that of
    the GPUs it has.
    """

    alone: float
    type_speed: float = 1.0
    locality: Locality = INDIFFERENT
    host: HostCurve | None = None


def units_per_second(
    traits: Traits,
    *,
    nodes: int,
    fewest_nodes: int,
    racks: int = 1,
    company: float = 1.0,
    host: float = 1.0,
) -> float:
    """Work per second. `company` is the share of its speed that interleaving leaves, `host` what
    the cores and the memory beside its GPUs make of it."""
    slowdown = traits.locality.slowdown(nodes=nodes, fewest_nodes=fewest_nodes, racks=racks)
    return traits.alone * traits.type_speed * company * host / slowdown
