"""Borda: jobs that can be predicted and jobs that cannot in one line (AITurbo, HPDC 2021).

There are three ballots: by the service that a job has had, cores included, by what its growing and
by what its shrinking would gain. Gains are known of predictable jobs only, so in the last two a job
that cannot be predicted meets every other by service: its service counts in place of the gains. A
job's place on a ballot is the number of jobs that come before it there, and half of those level
with it, itself included: ties are averaged. Its score is the sum of its places; a small score is
urgent. Service and gains are told by levels that double (`policy.service`), so that jobs of nearly
equal service do not turn each other round at every round.

A place is a sum over meetings of two, so a job that comes before two others on every ballot, or
after both, moves them alike and can never turn them round. (With places divided by the number of
predictable jobs on one ballot and of all jobs on the other it could.) Levels are quantiles of the
scores, so they mean the same in a short line and in a long one.
"""

from dataclasses import dataclass

import numpy as np

from weft.model.snapshot import Bools, Floats, Ints, Snapshot
from weft.policy.order.gains import attained_service, foreseen, growth_gains, shrink_gains
from weft.policy.order.ranking import Ranking, by_level
from weft.policy.service import service_level


@dataclass(frozen=True, slots=True)
class Borda:
    """Feedback levels by Borda score, counted anew now and again while some wait and some run."""

    quantiles: tuple[float, ...] = (1 / 3, 2 / 3)
    again_seconds: float = 240.0
    grain_gpus: int = 1

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ranking:
        levels = levels_of(scores(snapshot, slots, self.grain_gpus), self.quantiles)
        waiting = snapshot.jobs.gpu_rate[slots] <= 0
        changes = waiting.any() and not waiting.all()
        wake = snapshot.now + self.again_seconds if changes else None
        return Ranking(by_level(snapshot, slots, levels), levels=levels, wake=wake)


def scores(snapshot: Snapshot, slots: Ints, grain_gpus: int = 1) -> Floats:
    """Of each job, in places: small is urgent."""
    growth, shrink = growth_gains(snapshot, slots), shrink_gains(snapshot, slots, grain_gpus)
    known = foreseen(snapshot, slots) & ~np.isnan(growth) & ~np.isnan(shrink)
    served = service_level(attained_service(snapshot, slots))
    return borda(served, service_level(-growth), service_level(shrink), known)


def borda(attained: Floats, growth_cost: Floats, shrink_gain: Floats, known: Bools) -> Floats:
    """Scores from three columns, each best when small; of the gains, only those of the `known`."""
    served = places(attained)
    grown, shrunk = served.copy(), served.copy()
    before = _meetings(attained[known], attained[~known])
    grown[known] = before + places(growth_cost[known])
    shrunk[known] = before + places(shrink_gain[known])
    return served + grown + shrunk


def places(values: Floats) -> Floats:
    """How many are smaller, and half of those that are equal, itself included."""
    return _meetings(values, values)


def levels_of(found: Floats, quantiles: tuple[float, ...]) -> Ints:
    """Which part of the jobs each belongs to, when cut at these shares; equals stay together."""
    return np.searchsorted(quantiles, places(found) / max(len(found), 1), side="left")


def _meetings(values: Floats, others: Floats) -> Floats:
    """How many others are smaller than each, and half of those that are equal."""
    rising = np.sort(others)
    smaller = np.searchsorted(rising, values, side="left")
    return (smaller + np.searchsorted(rising, values, side="right")) / 2
