"""Who sits beside whom: the load that a plan's groups put on the network cards of a node.

Ranks fill nodes in order, tensor ranks next to each other, then replicas, then stages, as Megatron
and PyTorch's device meshes number them. A ring that spans nodes leaves every node of its once, so
a node's cards carry one share of bytes for each such ring that passes them. Two plans with equal
degrees can differ severalfold by this alone: replicas of one stage inside a node cost nothing here.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from weft.perf.plans.columns import Bools, Ints
from weft.perf.plans.fabric import Fabric

REMEMBERED = 20_000


@dataclass(frozen=True, slots=True)
class Loads:
    """Rings per card where it is worst; 0 if no such ring leaves its node."""

    tensor: float
    data: float
    shard: float
    """Rings of replicas that share one copy of the state."""

    replica: float
    """Rings across such groups."""


@lru_cache(maxsize=REMEMBERED)
def loads(
    degrees: tuple[int, int, int], shards: int, counts: tuple[int, ...], fabric: Fabric
) -> Loads:
    """Of data × tensor × pipeline ranks, on nodes with so many GPUs each."""
    data, tensor, pipeline = degrees
    if len(counts) == 1:
        return Loads(0.0, 0.0, 0.0, 0.0)
    node = np.repeat(np.arange(len(counts)), counts)
    grid = node.reshape(pipeline, data // shards, shards, tensor)
    cards = np.array([fabric.cards(gpus) for gpus in counts])
    replicas = grid.reshape(pipeline, data, tensor)
    return Loads(
        tensor=_worst(grid.reshape(-1, tensor), cards),
        data=_worst(np.moveaxis(replicas, 1, -1).reshape(-1, data), cards),
        shard=_worst(np.moveaxis(grid, 2, -1).reshape(-1, shards), cards),
        replica=_worst(np.moveaxis(grid, 1, -1).reshape(-1, data // shards), cards),
    )


def _worst(groups: Ints, cards: Ints) -> float:
    """`groups[ring, member]` are nodes. Rings have cards of their own, or share them whole."""
    leaves: Bools = (groups != groups[:, :1]).any(axis=1)
    if not leaves.any():
        return 0.0
    there = groups[leaves][:, :, None] == np.arange(len(cards))
    rings: Ints = there.any(axis=1).sum(axis=0)
    apart = 1.0 / (cards // np.maximum(rings, 1)).clip(1)
    return float(np.where(rings < cards, apart, -(-rings // cards)).max(where=rings > 0, initial=0))
