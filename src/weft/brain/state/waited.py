"""Seconds waited, by cause: of jobs that are over, and of those that wait on."""

import numpy as np

from weft.brain.state.brain_state import BrainState
from weft.brain.state.waits import REASONS
from weft.model.ids import JobId
from weft.model.reason import CAUSES
from weft.model.state import State


def waited(state: BrainState, job: JobId, until: float) -> list[float]:
    """In the order of `CAUSES`, with the wait that has not ended by then."""
    slot = state.slot_of.get(job)
    if slot is None:
        return list(state.closed[job].waits_seconds)
    seconds: list[float] = state.waits.booked[slot, 1:].tolist()
    row = int(state.jobs.reason[slot])
    if row:
        cause = CAUSES.index(REASONS[row - 1].cause)
        seconds[cause] += max(until - float(state.jobs.waiting_since[slot]), 0.0)
    return seconds


def calm_since(state: BrainState, now: float) -> float:
    """Since when only the clock goes on, for nobody has seats: the last end, or the last arrival.

    A brain that nothing happens to looks at those who wait for another day and more.
    """
    slots = np.fromiter(state.slot_of.values(), np.int64, len(state.slot_of))
    if any(state.state_of(slot) is not State.QUEUED for slot in slots.tolist()):
        return now
    last = [closed.at for closed in state.closed.values()]
    last += state.jobs.submitted[slots].tolist()
    return max(last, default=now)
