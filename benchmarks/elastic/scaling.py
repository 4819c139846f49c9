"""Invented models for generated workloads: curves from a formula, so that no traces are needed.

A step on k GPUs at a fixed global batch takes compute / k, an all-reduce that grows towards a
limit as rings do, and a wait for the slowest that grows with every worker (the form that Optimus
and Pollux fit). A model's useful widths end where one GPU more would make it less than half a
percent faster. The nine differ as the AFS authors' nine do: some gain from four GPUs, one from a
hundred.
"""

from collections.abc import Mapping
from functools import cache

from weft.model.curve import Curve

LEAST_GAIN = 0.005
WIDEST = 128

# Share of a one-GPU step that an all-reduce costs in the limit, and that each worker adds.
MODELS: Mapping[str, tuple[float, float]] = {
    "attention-large": (0.002, 0.00001),
    "attention-small": (0.020, 0.00020),
    "convolution-deep": (0.010, 0.00005),
    "convolution-wide": (0.060, 0.00100),
    "diffusion": (0.006, 0.00003),
    "embedding": (0.250, 0.01000),
    "graph": (0.120, 0.00400),
    "recurrent": (0.180, 0.00200),
    "speech": (0.035, 0.00050),
}


@cache
def invented_curves() -> Mapping[str, Curve]:
    """Steps per second by width, where one GPU makes one step per second."""
    return {name: _curve(*costs) for name, costs in MODELS.items()}


def _curve(reduce_share: float, worker_share: float) -> Curve:
    points = [(1, 1.0)]
    for width in range(2, WIDEST + 1):
        seconds = 1 / width + reduce_share * (width - 1) / width + worker_share * (width - 1)
        if 1 / seconds < points[-1][1] * (1 + LEAST_GAIN):
            break
        points.append((width, 1 / seconds))
    return Curve(tuple(points))
