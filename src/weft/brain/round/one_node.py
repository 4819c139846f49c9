"""A on_one_node width: as many GPUs of one node as make a job nearly as fast as more of them apart.

A job that can grow later need not begin with all that it is to have: what it could have at once is
often scattered, and being scattered slows it down.
"""

import numpy as np

from weft.brain.round.session import Session
from weft.policy.place.packing import Offer

NEARLY = 0.9


def one_node_width(
    session: Session, slot: int, offer: Offer | None, *, width: int, least: int
) -> int | None:
    """The widest on one node below `width`; None if `offer`, spread as it is, is much faster."""
    kind = session.kind(slot)
    tiers = session.fabric.site(kind).tiers
    free = max((int(session.room.offered(kind, tier).max(initial=0)) for tier in tiers), default=0)
    on_one_node = min(free, width - 1)
    if session.recipe.resizing is not None:
        on_one_node -= (on_one_node - least) % session.recipe.resizing.grain_gpus
    on_one_node = session.state.runnable.rounded(slot, on_one_node)
    if on_one_node < max(least, 1):
        return None
    if offer is None:
        return on_one_node
    here, there = session.snapshot.speeds(np.array([slot, slot]), np.array([on_one_node, width]))
    return on_one_node if here >= NEARLY * there / offer.slowdown else None
