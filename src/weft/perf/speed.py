"""Speed of a job under its placement: width × GPU type × locality × company × host.

One function serves the brain, which extrapolates progress between reports, and the simulated
world, which makes the progress; a fitted model can take its place later without either noticing.
"""

from weft.model.ids import GpuType
from weft.model.job import Job


def units_per_second(  # noqa: PLR0913 - a speed has that many causes, all by name
    job: Job,
    *,
    width: int,
    gpu_type: GpuType,
    nodes: int,
    fewest_nodes: int,
    racks: int = 1,
    alone: float | None = None,
    company: float = 1.0,
    host: float = 1.0,
) -> float:
    """Work per second. `alone` is what is believed of its speed when it is well placed, where that
    is not what it says itself; `company` is the share of its speed that interleaving leaves,
    `host` what the cores and the memory beside its GPUs make of it."""
    slowdown = job.locality.slowdown(nodes=nodes, fewest_nodes=fewest_nodes, racks=racks)
    speed = job.units_per_second(width) if alone is None else alone
    return speed * job.type_speed(gpu_type) * company * host / slowdown
