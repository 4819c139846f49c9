"""Weave's widths: every rung of every job has a price, and the cluster buys the best of them.

If all jobs are there and all scale as k^a, the mean completion time is smallest when the i-th
longest of n jobs gets the share (i/n)^e − ((i−1)/n)^e of the GPUs, with e = 1/(1−a): some for all,
the shorter the more, and by rank alone (heSRPT: Berg, Vesilo and Harchol-Balter, 2020). Those
shares are what a greedy hand-out arrives at that buys speed at the prices

    c_i = ((i/n)^e − ((i−1)/n)^e)^(1−a),

so that is what is done here with the curves that jobs really have: a rung that lifts a job from
speed p to p' for q GPUs is worth c_i (p' − p) / (p_1 q). It has three consequences. No floor is
needed: a long job gets its first GPU when that is worth more than the fourth of a short one. With
many jobs in line the prices of the first ones are nearly equal, so all of them run narrow, which is
efficient; with few they spread. And only the order of lengths matters, which is what intervals
give (`order.expected`).

Rungs that a job stands on already are worth `hold` more, for every change costs something and the
next event may take it back; those of a job that cannot be resized live are not for sale; what a
change costs in seconds is charged by the brain. A job pays for the share of the scarcer resource
that it takes: with many cores per GPU, that of the cores. And tenants who hold less than a max-min
division would give them are favoured, up to twofold.
"""

from dataclasses import dataclass, replace

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.order.expected import places
from weft.policy.size.available import available_gpus
from weft.policy.size.bids import Bids
from weft.policy.size.ladder import NEVER, Ladders, Ranges, Stride, places_within

MOST_FAVOUR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weave:
    """Widths of the given jobs; 0 for those who get nothing.

    `scaling` is the exponent a that the prices assume; with `fairness` 0 tenants do not matter.
    """

    grain_gpus: int = 1
    packed: bool = False
    scaling: float = 0.4
    hold: float = 1.0
    fairness: float = 1.0

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints:
        bids = Bids.of(snapshot, slots)
        widths = np.where(bids.stuck, bids.held, 0)
        left = available_gpus(snapshot, slots) - int(widths.sum())
        open_ = np.flatnonzero(bids.most > 0)
        if left <= 0 or not len(open_):
            return widths
        prices = self._prices(snapshot, slots)[open_]
        bought = self._bought(snapshot, bids.of_rows(open_), prices, left)
        widths[open_] = np.maximum(bought, widths[open_])
        return widths

    def _prices(self, snapshot: Snapshot, slots: Ints) -> Floats:
        """By the place of each job from the longest, and dearer where it needs many cores."""
        count, power = len(slots), 1.0 / (1.0 - self.scaling)
        place = count - places(snapshot, slots)
        share = (place / count) ** power - (np.maximum(place - 1.0, 0.0) / count) ** power
        price = share ** (1.0 - self.scaling) / _shares_of_a_gpu(snapshot, slots)
        found: Floats = price * self._favour(snapshot, slots)
        return found

    def _favour(self, snapshot: Snapshot, slots: Ints) -> Floats:
        """More than 1 for tenants that hold less than their fair part, less for those with more."""
        jobs = snapshot.jobs
        active = np.flatnonzero(jobs.active)
        tenants = jobs.tenant[active]
        held = np.bincount(tenants, jobs.width[active]) + 1.0
        wanted = np.bincount(tenants, jobs.max_gpus[active]).astype(np.float64)
        due = fair_parts(wanted, int(snapshot.nodes.gpus.sum()))
        favour = np.clip((due + 1.0) / held, 1.0 / MOST_FAVOUR, MOST_FAVOUR) ** self.fairness
        found: Floats = favour[jobs.tenant[slots]]
        return found

    def _bought(self, snapshot: Snapshot, bids: Bids, prices: Floats, left: int) -> Ints:
        stride = Stride.on(snapshot.nodes, grain_gpus=self.grain_gpus, packed=self.packed)
        curves = snapshot.curves
        least = stride.least(bids.least, bids.most)
        useful = bids.useful(curves, least)
        ranges, number = Ranges(bids.curve, least, useful, np.full(len(least), -1)).distinct()
        ladders, first = Ladders.of(curves, ranges, stride)
        rungs = _Rungs.of(ladders, first, number, curves.likely[ranges.curve, 1])
        worth = rungs.worth * prices[rungs.job]
        has = rungs.width <= bids.held[rungs.job]
        worth = np.where(has, worth * (1.0 + self.hold), worth)
        stuck = bids.stuck[rungs.job]
        worth[has & stuck] = np.inf
        beyond = np.minimum(rungs.cost, np.maximum(rungs.width - bids.held[rungs.job], 0))
        paid = replace(rungs, cost=np.where(stuck, beyond, rungs.cost))
        return paid.bought(worth, left, len(bids.least))


def fair_parts(wanted: Floats, gpus: int) -> Floats:
    """Max-min: everybody an equal part, nobody more than wanted, the rest to the others."""
    order = np.argsort(wanted, kind="stable")
    parts, left = np.zeros(len(wanted)), float(gpus)
    for place, tenant in enumerate(order.tolist()):
        parts[tenant] = min(float(wanted[tenant]), left / (len(order) - place))
        left -= parts[tenant]
    return parts


@dataclass(frozen=True, slots=True)
class _Rungs:
    """All rungs of all jobs, job after job: where each leads, its cost and its worth per GPU."""

    job: Ints
    width: Ints
    cost: Ints
    worth: Floats

    @classmethod
    def of(cls, ladders: Ladders, first: Ints, number: Ints, on_one: Floats) -> "_Rungs":
        """Of jobs on the ladders `number`; the first rung leads from nothing to the least width.

        `on_one` is each ladder's speed on one GPU, by which all are made alike.
        """
        ends = np.append(first[1:], len(ladders.width))
        counts = (ends - first)[number]
        job = np.repeat(np.arange(len(number)), counts)
        at = np.repeat(first[number], counts) + places_within(counts)
        below = np.maximum(at - 1, 0)
        begins = np.cumsum(counts) - counts
        cost = np.where(at == first[number][job], ladders.width[at], ladders.cost[below])
        rise = np.where(at == first[number][job], 0.0, ladders.speed[below])
        with np.errstate(divide="ignore", invalid="ignore"):
            worth = (ladders.speed[at] - rise) / (on_one[number][job] * cost)
        worth = _never_rising(np.nan_to_num(worth, nan=0.0, posinf=0.0), begins)
        return cls(job, ladders.width[at], np.minimum(cost, NEVER), worth)

    def bought(self, worth: Floats, left: int, jobs: int) -> Ints:
        """Widths after the best rungs were bought that can be paid for, each after the one below.

        The prefix that fits is taken at once; then what is left is offered to the others in turn,
        and a job that was refused a rung is asked no more.
        """
        order = np.argsort(-worth, kind="stable")
        spent = np.cumsum(self.cost[order])
        fits = int(np.searchsorted(spent, left, side="right"))
        widths = np.zeros(jobs, np.int64)
        np.maximum.at(widths, self.job[order[:fits]], self.width[order[:fits]])
        left -= int(spent[fits - 1]) if fits else 0
        refused = np.zeros(jobs, bool)
        for rung in order[fits:].tolist():
            if not left:
                break
            job, cost = self.job[rung], self.cost[rung]
            if cost > left:
                refused[job] = True
            elif not refused[job]:
                widths[job] = self.width[rung]
                left -= int(cost)
        return widths


def _shares_of_a_gpu(snapshot: Snapshot, slots: Ints) -> Floats:
    """The dominant share that a GPU of each job takes, in GPUs: 1 unless cores are scarcer."""
    jobs, nodes = snapshot.jobs, snapshot.nodes
    gpus, cpus = float(nodes.gpus.sum()), float(nodes.cpus.sum())
    if not gpus or not np.isfinite(cpus) or cpus <= 0:
        return np.ones(len(slots))
    per_gpu = jobs.cpus[slots] / np.maximum(jobs.asked_gpus[slots], 1)
    return np.maximum(per_gpu * gpus / cpus, 1.0)


def _never_rising(worth: Floats, begins: Ints) -> Floats:
    """The same, but no rung is worth more than the one below it in its job."""
    found = worth.copy()
    rising = np.ones(len(worth), bool)
    rising[begins] = False
    while True:
        higher = np.flatnonzero(rising[1:] & (found[1:] > found[:-1])) + 1
        if not len(higher):
            return found
        found[higher] = found[higher - 1]
