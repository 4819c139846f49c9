"""Seats that a large gang had when it failed, kept for it while it comes back.

If others took them meanwhile, the gang would drive as many out again as it has nodes, and each
failure of one large job would become a storm of preemptions.
"""

from dataclasses import dataclass

from weft.policy.place.room import Share


@dataclass(frozen=True, slots=True)
class SeatHold:
    """GPUs by row of their node, and until when nobody else gets them."""

    shares: tuple[Share, ...]
    until: float
