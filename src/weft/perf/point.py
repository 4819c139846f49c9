"""A point: one measurement of a job's speed."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """Units of work per second on so many GPUs; `seconds` is how long it was measured.

    `cpus_per_gpu` of 0 means that it is not known.
    """

    gpus: int
    units_per_second: float
    nodes: int = 1
    cpus_per_gpu: float = 0.0
    seconds: float = 1.0
