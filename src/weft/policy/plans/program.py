"""The choice as an integer program: one option per job, within GPUs, quotas and the allowance.

Its relaxation is solved by HiGHS. Nearly all of that answer is whole, because the only rows that
jobs share are few; the rest is branched on for a bounded number of times. No clock is looked at:
the same bids give the same choice, and whatever the bound, the best answer so far is feasible.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from weft.model.errors import SpecError
from weft.model.snapshot import Bools, Floats, Ints
from weft.policy.plans.bids import Bid, Option
from weft.policy.plans.greedy import Chosen, may_stop
from weft.policy.plans.market import Market
from weft.policy.plans.planning import Planning

SOLVERS = "in Weft's checkout: pip install '.[solvers]'"
ROUNDING = 1e-6
MOST_NODES = 24
GOOD_ENOUGH = 0.999
"""An answer is taken that has so much of what the relaxation promises."""


@dataclass(frozen=True, slots=True)
class Columns:
    """One column per job and option; an option of None is to stop. Rows: jobs, then what is shared.

    `uses[row, column]` is in a shared row; the first is GPUs, then the allowance, then queues.
    """

    owner: Ints
    options: tuple[Option | None, ...]
    worth: Floats
    uses: Floats
    there: Floats
    must: Bools
    """Jobs that have to keep running as something."""

    slots: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Solved:
    """A choice, what it is worth, and the most that any could be."""

    chosen: Chosen
    worth: float
    bound: float

    @property
    def gap(self) -> float:
        """How far from the best it may be, as a share of that."""
        return max(1.0 - self.worth / self.bound, 0.0) if self.bound > 0.0 else 0.0


def columns(bids: Sequence[Bid], market: Market, planning: Planning) -> Columns:
    """All that could be given."""
    owner: list[int] = []
    options: list[Option | None] = []
    worth: list[float] = []
    costs: list[float] = []
    restart, dear = market.restart_seconds, planning.margin * planning.scarce**market.scarcity
    must, waiting = np.zeros(len(bids), np.bool_), [bid for bid in bids if bid.held is None]
    for row, bid in enumerate(bids):
        offered = planning.offered(bid, market)
        owner += [row] * len(offered)
        options += offered
        worth += [planning.worth(bid, one, restart) for one in offered]
        costs += [
            0.0 if bid.held is None or one is bid.held else one.gpus * restart for one in offered
        ]
        if bid.held is None:
            continue
        must[row] = True
        if may_stop(bid, waiting, planning, restart):
            owner.append(row)
            options.append(None)
            worth.append((1.0 - dear) * planning.worth(bid, bid.held, restart))
            costs.append(bid.held.gpus * restart)
    own, queues = np.array(owner, np.int64), np.array([bid.queue for bid in bids], np.int64)
    gpus = np.array([0 if one is None else one.gpus for one in options], np.float64)
    shared = [gpus, np.array(costs)]
    shared += [np.where(queues[own] == row, gpus, 0.0) for row in range(len(market.room))]
    there = [float(market.gpus), max(market.allowance, 0.0), *(float(room) for room in market.room)]
    return Columns(
        own,
        tuple(options),
        np.array(worth),
        np.stack(shared),
        np.array(there),
        must,
        tuple(bid.slot for bid in bids),
    )


def solved(bids: Sequence[Bid], market: Market, planning: Planning, at_least: Chosen) -> Solved:
    """The best choice that was found; never worse than `at_least`, which is feasible."""
    table = columns(bids, market, planning)
    best = _rows_of(table, at_least)
    value, bound = float(table.worth[best].sum()), 0.0
    waiting: list[tuple[Ints, Ints]] = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for node in range(MOST_NODES):
        if not waiting:
            break
        fixed, barred = waiting.pop()
        parts = _relaxed(table, fixed, barred)
        if parts is None:
            continue
        promised = float(table.worth @ parts)
        bound = promised if node == 0 else bound
        if promised * GOOD_ENOUGH <= value:
            continue
        found = _completed(table, parts)
        if found is not None and float(table.worth[found].sum()) > value:
            best, value = found, float(table.worth[found].sum())
        broken = np.abs(parts - np.rint(parts))
        column = int(np.argmax(broken))
        if broken[column] > ROUNDING:
            waiting += [(fixed, np.append(barred, column)), (np.append(fixed, column), barred)]
    chosen = {
        table.slots[int(table.owner[column])]: option
        for column in best.tolist()
        if (option := table.options[column]) is not None
    }
    return Solved(chosen, value, max(bound, value))


def _rows_of(table: Columns, chosen: Chosen) -> Ints:
    """Which columns a choice takes; of a running job that is not in it the one that stops it."""
    owners = (table.slots[row] for row in table.owner.tolist())
    pairs = enumerate(zip(owners, table.options, strict=True))
    return np.array([at for at, (slot, option) in pairs if chosen.get(slot) is option], np.int64)


def _relaxed(table: Columns, fixed: Ints, barred: Ints) -> Floats | None:
    """The best answer in parts; None if what was decided cannot be."""
    try:
        from scipy.optimize import linprog  # noqa: PLC0415 - an extra, loaded when used
        from scipy.sparse import csc_array, vstack  # noqa: PLC0415
    except ImportError as missing:
        raise SpecError("an exact choice of plans needs SciPy", hint=SOLVERS) from missing
    count, jobs = len(table.owner), len(table.slots)
    own = csc_array((np.ones(count), (table.owner, np.arange(count))), shape=(jobs, count))
    bounds = np.column_stack([np.zeros(count), np.ones(count)])
    bounds[fixed, 0] = 1.0
    bounds[barred, 1] = 0.0
    found = linprog(
        -table.worth,
        A_ub=vstack([csc_array(own[~table.must]), csc_array(table.uses)]),
        b_ub=np.concatenate([np.ones(int((~table.must).sum())), table.there]),
        A_eq=csc_array(own[table.must]) if table.must.any() else None,
        b_eq=np.ones(int(table.must.sum())) if table.must.any() else None,
        bounds=bounds,
        method="highs-ds",
    )
    part: Floats | None = found.x
    return part


def _completed(table: Columns, parts: Floats) -> Ints | None:
    """A whole answer near this one: what is whole of it, then the rest by worth per GPU."""
    taken = np.flatnonzero(parts > 1.0 - ROUNDING)
    decided = np.zeros(len(table.slots), np.bool_)
    decided[table.owner[taken]] = True
    left = table.there - table.uses[:, taken].sum(axis=1)
    found = list(taken)
    open_columns = np.flatnonzero(~decided[table.owner])
    density = table.worth[open_columns] / np.maximum(table.uses[0, open_columns], 1.0)
    likelier = parts[open_columns] > ROUNDING
    order = np.lexsort((open_columns, -density, ~likelier))
    for column in open_columns[order].tolist():
        owner = int(table.owner[column])
        fits = (table.uses[:, column] <= left + ROUNDING).all()
        if not decided[owner] and fits and table.worth[column] > 0.0:
            decided[owner] = True
            left = left - table.uses[:, column]
            found.append(column)
    if (table.must & ~decided).any():
        return None
    return np.array(sorted(found), np.int64)
