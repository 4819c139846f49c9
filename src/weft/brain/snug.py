"""A snug width: as many GPUs of one node as make a job nearly as fast as more of them apart.

A job that can grow later need not begin with all that it is to have: what it could have at once is
often scattered, and being scattered slows it down.
"""

import numpy as np

from weft.brain.desk import Desk
from weft.policy.place.packing import Offer

NEARLY = 0.9


def snug_width(desk: Desk, slot: int, offer: Offer | None, *, width: int, least: int) -> int | None:
    """The widest on one node below `width`; None if `offer`, spread as it is, is much faster."""
    kind = desk.kind(slot)
    tiers = desk.fabric.site(kind).tiers
    free = max((int(desk.room.offered(kind, tier).max(initial=0)) for tier in tiers), default=0)
    snug = min(free, width - 1)
    if desk.recipe.resizing is not None:
        snug -= (snug - least) % desk.recipe.resizing.grain_gpus
    if snug < max(least, 1):
        return None
    if offer is None:
        return snug
    here, there = desk.snapshot.curves.likely[
        desk.snapshot.jobs.curve[slot], np.array([snug, width])
    ]
    return snug if here >= NEARLY * there / offer.slowdown else None
