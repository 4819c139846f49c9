"""Packing: which widths suit the nodes, so that jobs do not get into each other's way.

A job that has part of a second node sends all its traffic through both and shares a network card
with whoever has the rest. On whole nodes it does not, and neither do its neighbours.
"""

from enum import Enum


class Packing(Enum):
    """`WHOLE_NODES` allows any part of one node; `NETWORK` only parts that divide it (AFS)."""

    NONE = "none"
    WHOLE_NODES = "whole nodes"
    NETWORK = "network"

    @property
    def packs(self) -> bool:
        """Whether a job sits on one node or on whole nodes."""
        return self is not Packing.NONE

    def allows(self, width: int, node_gpus: int) -> bool:
        if self is Packing.NONE or width == 0:
            return True
        if width >= node_gpus:
            return width % node_gpus == 0
        return self is Packing.WHOLE_NODES or node_gpus % width == 0

    def widths(self, node_gpus: int, most: int) -> list[int]:
        """All that are allowed from 1 to so many, or to a node."""
        within = [width for width in range(1, node_gpus) if self.allows(width, node_gpus)]
        return [*within, *range(node_gpus, most + 1, node_gpus)]
