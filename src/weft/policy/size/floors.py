"""Floors: what must be given comes first, then the least width of each job in rank order."""

import numpy as np

from weft.model.snapshot import Ints


def floors(least: Ints, owed: Ints, left: int) -> tuple[Ints, int]:
    """What is owed; then the least of the others as long as it lasts. And what is left of it all.

    Whoever does not fit is passed over. What is left only falls, so one that was passed over never
    fits later: each pass takes all who fit in a row and then drops every job that is too wide, and
    there are at most as many passes as there are different least widths.
    """
    widths = owed.copy()
    left = max(left - int(owed.sum()), 0)
    asking = np.flatnonzero((owed == 0) & (least <= left))
    while len(asking) and left:
        taken = np.cumsum(least[asking])
        fitting = int(np.searchsorted(taken, left, side="right"))
        served, asking = asking[:fitting], asking[fitting:]
        widths[served] = least[served]
        left -= int(taken[fitting - 1])
        asking = asking[least[asking] <= left]
    return widths, left
