"""Floors: what must be given comes first, then the least width of each job in rank order."""

from collections.abc import Callable

import numpy as np

from weft.model.snapshot import Ints
from weft.policy.supply import Purse, Supply


def floors_and_more(
    supply: Supply, least: Ints, owed: Ints, *, fill: Callable[[Ints, Purse], Ints]
) -> Ints:
    """In each stage of the supply the floors, then what `fill` makes of the rest; all widths."""
    widths = owed
    for stage, purse in enumerate(supply.purses()):
        if not stage:
            pay_for(owed, supply.pool, purse)
        widths = fill(_paid_floors(least, widths, supply.pool, purse), purse)
    return widths


def _paid_floors(least: Ints, widths: Ints, pool: Ints, purse: Purse) -> Ints:
    """The least of those who have nothing yet, by rank, as long as it lasts; what all have then.

    Whoever does not fit is passed over. What is left only falls, so one that was passed over never
    fits later: each pass takes all who fit in a row and then drops every job that is too wide, and
    there are at most as many passes as there are different least widths.
    """
    if not purse.single:
        return _one_by_one(least, widths, pool, purse)
    widths, left = widths.copy(), purse.left[0]
    asking = np.flatnonzero((widths == 0) & (least <= left))
    while len(asking) and left:
        taken = np.cumsum(least[asking])
        fitting = int(np.searchsorted(taken, left, side="right"))
        served, asking = asking[:fitting], asking[fitting:]
        widths[served] = least[served]
        left -= int(taken[fitting - 1])
        asking = asking[least[asking] <= left]
    purse.pay(0, purse.left[0] - left)
    return widths


def _one_by_one(least: Ints, widths: Ints, pool: Ints, purse: Purse) -> Ints:
    found = widths.copy()
    asking = np.flatnonzero((widths == 0) & (least > 0))
    asked = least[asking]
    served = np.fromiter(purse.pay_in_turn(pool[asking].tolist(), asked.tolist()), bool)
    found[asking[served]] = asked[served]
    return found


def pay_for(widths: Ints, pool: Ints, purse: Purse) -> None:
    """What jobs have that is not for sale is paid first, whatever is left then."""
    for number, gpus in enumerate(np.bincount(pool, widths).astype(np.int64).tolist()):
        if gpus:
            purse.pay(number, gpus)
