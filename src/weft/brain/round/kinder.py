"""Kinder places: nodes where a job and its neighbours would not slow each other.

A choice among places that are as good otherwise, and never a reason to wait.
"""

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.neighbour_book import label_of
from weft.model.snapshot import Bools

NOTABLE = 0.05
"""Together they lose at least this share of the newcomer's time."""


def unkind_nodes(state: BrainState, slot: int, width: int, now: float) -> Bools | None:
    """Where the newcomer and those who run there would lose too much; None: nowhere."""
    slowdowns, mine = state.neighbours.slowdowns, label_of(state.spec(slot))
    near = slowdowns.near.get(mine)
    if not near or not width:
        return None
    harm = np.zeros(state.fabric.count)
    for other in state.running_slots().tolist():
        theirs = label_of(state.spec(other))
        if theirs in near:
            gpus = int(state.jobs.width[other])
            lost = width * slowdowns.slower(mine, theirs, now)
            lost += gpus * slowdowns.slower(theirs, mine, now)
            harm[sorted(set(state.nodes_of(other)))] += lost / width
    unkind: Bools = harm >= NOTABLE
    return unkind if unkind.any() else None
