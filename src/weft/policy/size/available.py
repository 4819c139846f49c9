"""How many GPUs there are to hand out."""

import numpy as np

from weft.model.snapshot import Ints, Snapshot


def available_gpus(snapshot: Snapshot, slots: Ints) -> int:
    """GPUs that the given jobs can have: all that are usable, less what others hold or are owed."""
    nodes, seats = snapshot.nodes, snapshot.seats
    usable = int(nodes.gpus[nodes.present & ~nodes.cordoned].sum())
    given = np.zeros(len(snapshot.jobs.active) + 1, bool)
    given[slots] = True
    others = (seats.slot >= 0) & ~given[seats.slot]
    firm = int(seats.gpus[others & ~seats.releasing & ~seats.pledged].sum())
    leaving = int(seats.gpus[others & seats.releasing].sum())
    coming = int(seats.gpus[others & seats.pledged].sum())
    return max(usable - firm - max(leaving, coming), 0)
