"""Speed of a job under its placement: width × GPU type × locality × company.

One function serves the brain, which extrapolates progress between reports, and the simulated
world, which makes the progress; a fitted model can take its place later without either noticing.
"""

from weft.model.ids import GpuType
from weft.model.job import Job


def units_per_second(
    job: Job,
    *,
    width: int,
    gpu_type: GpuType,
    nodes: int,
    fewest_nodes: int,
    racks: int = 1,
    company: float = 1.0,
) -> float:
    """Work per second; `company` is the share of its solo speed that interleaving leaves."""
    slowdown = job.locality.slowdown(nodes=nodes, fewest_nodes=fewest_nodes, racks=racks)
    return job.units_per_second(width) * job.type_speed(gpu_type) * company / slowdown
