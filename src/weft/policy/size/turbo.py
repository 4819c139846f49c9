"""AITurbo's widths: predictable jobs where they cost the cluster least, the others as they asked.

What a predictable job still costs at width k is the time it has left there times the service that
it takes, w / p(k) × k c (`order.gains`). It begins at the width that it asked for and looks one
step up and one step down. Where growing takes more off its cost it is listed to grow, where
shrinking does it is listed to shrink, and moves are made while they gain. Shrinks need nobody's
leave. Everybody is then admitted by rank with the width that was found, and growths are made in the
order of what they gain for each GPU, as far as there are GPUs. A job that cannot be predicted has
the width that it asked for: nothing is known that would justify another. That is the published
rule, and it is all that is done without `fill`.

It makes the GPU time small that jobs take, not the time that they wait. On a concave curve no
growth ever gains: every predictable job shrinks to its least width, which is right while others
wait for GPUs, and leaves them idle when nobody does. With `fill` (which is not in the paper) they
are handed out too. First those for whom what they asked for was too much get as much of it as there
is. Then the next GPUs go where the service that is lost buys most: seconds sooner for GPU-seconds
more, (1/p − 1/p') / (k'/p' − k/p). The work that is left has cancelled, so that holds of jobs that
can be predicted and of jobs that cannot, and nothing is guessed; equals are served by rank.
"""

from dataclasses import dataclass, replace

import numpy as np

from weft.model.menu import Menus
from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.order.gains import foreseen, service_per_gpu
from weft.policy.size.bids import Bids
from weft.policy.size.climb import Climb, Climbing
from weft.policy.size.floors import floors_and_more
from weft.policy.size.greedy import MOST_GAIN, greedily
from weft.policy.size.width_ladder import EQUAL, NEVER, Ladders, Ranges, Stride
from weft.policy.supply import Purse, Supply


@dataclass(frozen=True, slots=True, kw_only=True)
class Turbo(Climbing):
    """Least resource time for predictable jobs; with `fill`, nothing idle that somebody can use."""

    fill: bool = True

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        bids = _united(snapshot, slots, Bids.of(snapshot, slots, supply))
        stride = Stride.on(snapshot.nodes, grain_gpus=self.grain_gpus, packing=self.packing)
        known, asked = np.isfinite(bids.work), snapshot.jobs.asked_gpus[slots]
        least, owed = self._claims(bids, stride)
        if self.packing.packs:
            asked = np.maximum(stride.rounded(asked, bids.least, bids.most), least)
        if not self.fill:
            bids = replace(bids, most=np.where(known, bids.most, asked))
        cheapest = self._cheapest(snapshot.menus, bids, least, asked, stride)
        planned = np.where(bids.stuck, bids.held, np.where(known, cheapest, asked))

        def grow(widths: Ints, purse: Purse) -> Ints:
            if self.fill:
                widths = _in_part(stride, least, planned, widths, pool=bids.pool, purse=purse)
            return self._climbed_all(snapshot.menus, bids, widths, stride=stride, purse=purse)

        return floors_and_more(supply, planned, owed, fill=grow)

    def climbed(self, climb: Climb, purse: Purse) -> Ints:
        """Growths that gain, of predictable jobs; then, with `fill`, those that lose least."""
        work = np.nan_to_num(climb.work, nan=0.0)
        rungs = greedily(climb, work, growth_gains(climb.ladders), climb.seq, purse=purse)
        if not self.fill:
            return rungs
        alike, rank = np.ones(len(rungs)), np.arange(len(rungs))
        on = replace(climb, first=rungs)
        return greedily(on, alike, fill_prices(climb.ladders), rank, purse=purse)

    def _cheapest(self, menus: Menus, bids: Bids, least: Ints, asked: Ints, stride: Stride) -> Ints:
        """Where each job stands after its shrinks: no step down gains, or a step up gains more."""
        most = bids.useful(menus, least)
        ranges, number = Ranges(
            bids.menu, least, most, self._held(menus, bids), bids.pool
        ).distinct()
        ladders, first, _ = Ladders.of(menus, ranges, stride, hull=self.hull)
        growth = growth_gains(ladders)
        shrink = np.where(np.isin(np.arange(len(growth)), first), 0.0, -np.roll(growth, 1))
        at = _last_below(ladders.width, first, number, asked)
        while len(falling := np.flatnonzero(shrink[at] > np.maximum(growth[at], 0.0))):
            at[falling] -= 1
        return ladders.width[at]


def growth_gains(ladders: Ladders) -> Floats:
    """What the next rung takes off the cost of a job, per GPU and unit of work; 0 where none is."""
    found = np.zeros(len(ladders.cost))
    below = np.flatnonzero(ladders.cost < NEVER)
    with np.errstate(divide="ignore", invalid="ignore"):
        cost = ladders.width / ladders.speed
        gain = cost[below] - cost[below + 1]
        gain[np.abs(gain) <= EQUAL * cost[below]] = 0.0
        found[below] = gain / ladders.cost[below]
    return np.nan_to_num(found, nan=0.0, posinf=MOST_GAIN, neginf=-MOST_GAIN)


def fill_prices(ladders: Ladders) -> Floats:
    """Seconds that the next rung saves for each GPU-second that it costs; 0 where none is."""
    found = np.zeros(len(ladders.cost))
    below = np.flatnonzero(ladders.cost < NEVER)
    with np.errstate(divide="ignore", invalid="ignore"):
        seconds = 1.0 / ladders.speed
        saved = (seconds[below] - seconds[below + 1]) / ladders.cost[below]
        found[below] = saved / np.maximum(-growth_gains(ladders)[below], 0.0)
    return np.nan_to_num(found, nan=0.0, posinf=MOST_GAIN)


def _united(snapshot: Snapshot, slots: Ints, bids: Bids) -> Bids:
    """Work with the cores counted in, of predictable jobs; of the others it is unknown."""
    known = foreseen(snapshot, slots) & np.isfinite(bids.work)
    work = np.where(known, bids.work * service_per_gpu(snapshot, slots), np.nan)
    return replace(bids, work=work)


def _in_part(
    stride: Stride, least: Ints, planned: Ints, widths: Ints, *, pool: Ints, purse: Purse
) -> Ints:
    """By rank, to those who have less than was planned for them: as much of it as there is."""
    found = widths.copy()
    short = (widths < planned) & (np.array(purse.left)[pool] > 0)
    for row in np.flatnonzero(short).tolist():
        own, left = slice(row, row + 1), purse.left[pool[row]]
        within = np.minimum(planned[own], widths[own] + left)
        if left and within[0] >= least[row]:
            found[own] = np.maximum(stride.rounded(within, least[own], planned[own]), widths[own])
            purse.pay(int(pool[row]), int(found[row] - widths[row]))
    return found


def _last_below(width: Ints, first: Ints, number: Ints, asked: Ints) -> Ints:
    """The last rung of the ladder of each job that is no wider than what it asked for."""
    span = int(max(width.max(initial=0), asked.max(initial=0))) + 1
    counts = np.diff(first, append=len(width))
    keys = np.repeat(np.arange(len(first)), counts) * span + width
    at = np.searchsorted(keys, number * span + asked, side="right") - 1
    return np.maximum(at, first[number])
