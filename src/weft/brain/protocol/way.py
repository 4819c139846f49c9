"""Trials that are in the way: with the GPU of one, some gang that waits could start.

Nobody is to wait for a trial. Whoever is short of GPUs alone, and would not be without the trials,
has them ended; it is looked for by counts, of the cluster and of the nodes on which trials are, and
rather ends one too many.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import CAUSE_OF_ROW
from weft.model.ids import JobId
from weft.model.reason import Cause
from weft.model.snapshot import Ints
from weft.model.state import State

SHORT: Final = (Cause.CAPACITY, Cause.FRAGMENTATION)


def in_the_way(state: BrainState, trials: Iterable[JobId]) -> list[JobId]:
    """Those of these that hold a GPU which would let a gang start."""
    rows = {trial: _rows(state, trial) for trial in trials}
    held = np.bincount([row for of in rows.values() for row in of], minlength=state.fabric.count)
    if not held.any():
        return []
    needs = _needs(state)
    free = state.vacancy.room(counts_host=state.counts_host).gpus
    if _helps(needs, int(free.sum()), int(held.sum())):
        return [trial for trial, of in rows.items() if of]
    helped = {row for row in np.flatnonzero(held) if _helps(needs, int(free[row]), int(held[row]))}
    return [trial for trial, of in rows.items() if not helped.isdisjoint(of)]


def _helps(needs: Ints, free: int, more: int) -> bool:
    """Whether somebody needs more than is free, and no more than that and these."""
    return bool(((needs > free) & (needs <= free + more)).any())


def _needs(state: BrainState) -> Ints:
    """The least that gangs ask for which wait for want of GPUs."""
    size, jobs = state.size, state.jobs
    short = np.isin(CAUSE_OF_ROW[jobs.reason[:size]], SHORT)
    waits = jobs.active[:size] & (jobs.state[:size] == State.QUEUED) & short
    needs: Ints = jobs.min_gpus[:size][waits & (jobs.min_gpus[:size] > 1)]
    return needs


def _rows(state: BrainState, trial: JobId) -> list[int]:
    """Nodes on which it is, or is to be."""
    slot = state.slot_of.get(trial)
    assignment = None if slot is None else state.seating.assignments[slot]
    seats = () if assignment is None else assignment.placement.seats
    return [state.node_row[seat.node] for seat in seats if seat.node in state.node_row]
