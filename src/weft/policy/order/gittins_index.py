"""The Gittins index of a job whose length is unknown but drawn from known samples.

2D-Gittins of Tiresias (Gu et al., NSDI 2019) serves the job that promises most completions per
GPU-second invested. With S the total service of a job and `a` what it has attained, the promise is

    G(a) = sup over D > 0 of  P(S − a <= D | S > a) / E[min(S − a, D) | S > a].

Only D = s − a for samples s > a matter: between two of them the numerator stands still while the
denominator grows, so the ratio falls until the next sample lifts it. The supremum is a maximum.

How it is computed. Let n(t) count the samples <= t, and let w(t) = Σ min(s, t) be the work of
serving every sample up to t. Then G(a) is the steepest slope from the point (w(a), n(a)) to a point
(w(s), n(s)) further right: a tangent to the upper hull of the samples beyond `a`. Read from the
right, every sample has one successor on that hull, where its own tangent touches; the slope of that
tangent is the index of a job that has attained exactly this sample. From any `a` it pays to serve
past a sample just as long as the index there exceeds the rate earned so far. Along the chain of
successors this turns from true to false once, so jumps of …, 4, 2, 1 successors find the turn in
log2 steps, for all attained values at once. Nothing is interpolated.

A short stretch late in a heavy tail is a small difference of huge sums. Work is therefore kept as a
pair of floats, the rounded sum and what rounding lost, which holds rates to the last few bits.
"""

from dataclasses import dataclass
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.model.errors import SpecError

Floats: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class GittinsTable:
    """Samples of total service, arranged so that the index of many jobs is one vector search.

    Service is in any one unit, such as GPU-seconds; an index is in completions per that unit. A job
    that has outlived every sample has index 0: nothing recorded says that it will ever end, so it
    comes last.
    """

    values: Floats  # distinct samples, ascending
    alive: Indices  # alive[k]: how many samples are >= values[k]; one more entry, 0, at the end
    work: Floats  # work[0] + work[1]: service given to all samples when each got up to values[k]
    after: Floats  # after[k]: index of a job that has attained exactly values[k]
    jumps: Indices  # jumps[p, k]: the 2**p-th hull successor of values[k]; the last is its own

    @classmethod
    def from_samples(cls, samples: npt.ArrayLike) -> Self:
        """Arrange observed totals; they need no order and may repeat or be zero."""
        totals = np.asarray(samples, dtype=np.float64)
        _refuse_unusable(totals)
        values, counts = np.unique(totals, return_counts=True)
        alive = np.append(np.cumsum(counts[::-1])[::-1], 0)
        work = _exact_running_sum(np.diff(values, prepend=0.0) * alive[:-1])
        successor, after = _hull(alive, work)
        table = cls(values, alive, work, after, _doublings(successor))
        for column in (table.values, table.alive, table.work, table.after, table.jumps):
            column.setflags(write=False)
        return table

    def index(self, attained: npt.ArrayLike) -> Floats:
        """G(a) for each attained service a >= 0, in the shape given."""
        given = np.asarray(attained, dtype=np.float64)
        rates = np.zeros(given.shape)
        inside = given < self.values[-1]
        rates[inside] = self._best_rate(given[inside])
        return rates

    def index_at(self, attained: npt.ArrayLike, quantum: npt.ArrayLike) -> Floats:
        """The ratio of G for a fixed D, one for all or one per job: Tiresias' discretised form.

        There D is the service left until the next queue threshold; in the last queue it may be
        infinite. A sample s ends within the quantum when s <= a + D as floats add.
        """
        given, quanta = np.broadcast_arrays(
            np.asarray(attained, dtype=np.float64), np.asarray(quantum, dtype=np.float64)
        )
        if not np.all(quanta > 0):
            raise SpecError("a Gittins quantum must be positive", hint="give D > 0, or infinity")
        rates = np.zeros(given.shape)
        inside = given < self.values[-1]
        rates[inside] = self._rate_within(given[inside], quanta[inside])
        return rates

    def _best_rate(self, attained: Floats) -> Floats:
        first = np.searchsorted(self.values, attained, side="right")
        stop = first
        for jump in self.jumps[::-1]:
            further = jump[stop]
            stop = np.where(self._pays_to_pass(further, attained, first), further, stop)
        # Either the first sample is not worth passing, or `stop` is the last one that is.
        stop = np.where(self._pays_to_pass(stop, attained, first), self.jumps[0][stop], stop)
        return self._rate_until(stop, attained, first)

    def _pays_to_pass(
        self, stop: Indices, attained: Floats, first: Indices
    ) -> npt.NDArray[np.bool_]:
        return self.after[stop] > self._rate_until(stop, attained, first)

    def _rate_until(self, stop: Indices, attained: Floats, first: Indices) -> Floats:
        """Completions per service when a job past `attained` is served up to values[stop]."""
        completions = self.alive[first] - self.alive[stop + 1]
        return completions / self._work_until(stop, attained, first)

    def _work_until(self, stop: Indices, attained: Floats, first: Indices) -> Floats:
        to_first = (self.values[first] - attained) * self.alive[first]
        rounded, lost = self.work[:, stop] - self.work[:, first]
        work: Floats = to_first + (rounded + lost)
        return work

    def _rate_within(self, attained: Floats, quanta: Floats) -> Floats:
        reach = np.minimum(quanta, self.values[-1])  # no sample needs more; keeps infinity out
        first = np.searchsorted(self.values, attained, side="right")
        end = np.searchsorted(self.values, attained + reach, side="right")
        # No sample ends within the quantum where end == first: the numerator is 0 whatever `last`.
        last = np.maximum(end - 1, first)
        past_last = np.maximum(reach - (self.values[last] - attained), 0.0)
        work = self._work_until(last, attained, first) + past_last * self.alive[end]
        rates: Floats = (self.alive[first] - self.alive[end]) / work
        return rates


def _refuse_unusable(totals: Floats) -> None:
    if totals.size == 0:
        raise SpecError(
            "a Gittins index needs at least one sample of total service",
            hint="pass the service of finished jobs, or order by attained service until some end",
        )
    if not np.all(np.isfinite(totals) & (totals >= 0)):
        raise SpecError(
            "samples of total service must be finite and not negative",
            hint="drop jobs that have not finished, and check the unit of the samples",
        )


def _exact_running_sum(terms: Floats) -> Floats:
    """Prefix sums as two rows: the rounded sums, and the sum of what each addition lost."""
    rounded = np.add.accumulate(terms)
    before = np.concatenate(([0.0], rounded[:-1]))
    taken = rounded - before  # Knuth's TwoSum: the part of each term that reached the sum
    lost = (before - (rounded - taken)) + (terms - taken)
    return np.stack((rounded, np.add.accumulate(lost)))


def _hull(alive: Indices, work: Floats) -> tuple[Indices, Floats]:
    """For each sample, its successor on the upper hull of later samples, and the slope to it.

    A sample that the walk steps over lies below the hull of everything further left and is never
    visited again, so the walks together take linear time.
    """
    left = alive.tolist()
    rounded, lost = work.tolist()
    last = len(rounded) - 1
    successor, after = [last] * (last + 1), [0.0] * (last + 1)

    def slope(start: int, stop: int) -> float:
        run: float = (rounded[stop] - rounded[start]) + (lost[stop] - lost[start])
        rise: int = left[start + 1] - left[stop + 1]
        return rise / run

    for start in range(last - 1, -1, -1):
        stop = start + 1
        best = slope(start, stop)
        while after[stop] > best:
            stop = successor[stop]
            best = slope(start, stop)
        successor[start], after[start] = stop, best
    return np.array(successor, dtype=np.intp), np.array(after)


def _doublings(successor: Indices) -> Indices:
    rows = [successor]
    while 2 ** len(rows) < successor.size:
        rows.append(rows[-1][rows[-1]])
    return np.stack(rows)
