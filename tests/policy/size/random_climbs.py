"""Random states of a hand-out: few jobs, few curves, many ties; concave curves and any others."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from weft.model.menu import Menus
from weft.model.snapshot import Floats, Ints
from weft.policy.size.climb import Climb
from weft.policy.size.width_ladder import Ladders, Ranges, Stride

WIDEST = 9
AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class RandomClimb:
    """Jobs on one GPU each, `speeds[curve, width]` of their curves, and the GPUs for all of them.

    `first` is the rung of each curve at one GPU.
    """

    speeds: Floats
    widest: Ints
    curve: Ints
    work: Floats
    attained: Floats
    seq: Ints
    left: int
    ladders: Ladders
    first: Ints

    def __len__(self) -> int:
        return len(self.work)

    def climb(self, order: Ints | None = None) -> Climb:
        """The jobs in the given order."""
        rows = np.arange(len(self)) if order is None else order
        first = self.first[self.curve[rows]]
        pool = np.zeros(len(self.ladders.width), np.int64)
        return Climb(
            self.ladders, first, self.work[rows], self.attained[rows], self.seq[rows], pool
        )

    def rungs(self) -> list[list[tuple[int, float]]]:
        """Each job's ladder as widths and speeds."""
        points = list(zip(self.ladders.width.tolist(), self.ladders.speed.tolist(), strict=True))
        ends = [*self.first[1:].tolist(), len(points)]
        return [points[self.first[curve] : ends[curve]] for curve in self.curve.tolist()]


def a_climb(
    curves: list[list[float]], work: list[float], attained: list[float] | None = None, left: int = 1
) -> RandomClimb:
    """One job for each curve, given as speeds from width 1; submitted in this order."""
    widest = np.array([len(curve) for curve in curves])
    rows = [np.array([0.0, *curve]) for curve in curves]
    speeds = Menus.of([(row, row, row) for row in rows]).likely
    count = np.arange(len(curves))
    ladders, first = _ladders(speeds, widest, hull=True)
    served = np.array(attained) if attained else np.zeros(len(curves))
    return RandomClimb(
        speeds, widest, count, np.array(work), served, count.copy(), left, ladders, first
    )


def random_climbs(
    count: int, seed: int, *, concave: bool = False, hull: bool = True
) -> Iterator[RandomClimb]:
    """Half of them with ties: curves shared, lengths and services of a few values."""
    chance = np.random.default_rng(seed)
    for done in range(0, count, AT_ONCE):
        yield from _block(min(AT_ONCE, count - done), chance, concave=concave, hull=hull)


def _block(
    count: int, chance: np.random.Generator, *, concave: bool, hull: bool
) -> Iterator[RandomClimb]:
    """The ladders of many states are built together, each state gets its own."""
    tied = np.arange(count) % 2 == 0
    curves = chance.integers(1, 9, count)
    speeds = _speeds(chance, np.repeat(tied, curves), concave=concave)
    widest = chance.integers(1, WIDEST + 1, len(speeds))
    ladders, first = _ladders(speeds, widest, hull=hull)
    ends = np.append(first, len(ladders.width))
    begin = 0
    for few, number in zip(tied.tolist(), curves.tolist(), strict=True):
        jobs = int(chance.integers(1, 9)) if few else number
        values = chance.integers(1, 4, (2, jobs)) * 100.0 if few else chance.random((2, jobs))
        own = slice(begin, begin + number)
        rungs = slice(int(ends[begin]), int(ends[begin + number]))
        yield RandomClimb(
            speeds=speeds[own],
            widest=widest[own],
            curve=chance.integers(0, number, jobs) if few else np.arange(jobs),
            work=np.where(chance.random(jobs) < 0.1, np.nan, values[0]),
            attained=values[1],
            seq=chance.permutation(jobs),
            left=int(chance.integers(1, 25)),
            ladders=_part(ladders, rungs),
            first=first[own] - rungs.start,
        )
        begin += number


def _speeds(chance: np.random.Generator, tied: np.ndarray, *, concave: bool) -> Floats:
    """By width from 0. Tied ones are of small whole steps; unless concave, widths may be worse."""
    shape = len(tied), WIDEST
    steps = np.where(tied[:, None], chance.integers(0, 5, shape), chance.random(shape) - 0.3)
    if concave:
        steps = -np.sort(-np.maximum(steps, 0.0), axis=1)
    steps[:, 0] += 1.0
    speeds = np.maximum(np.cumsum(steps, axis=1), 0.5)
    return np.concatenate([np.zeros((len(tied), 1)), speeds], axis=1)


def _ladders(speeds: Floats, widest: Ints, *, hull: bool) -> tuple[Ladders, Ints]:
    gpus = np.tile(np.arange(speeds.shape[1]), (len(speeds), 1))
    menus = Menus(gpus, speeds, speeds, speeds, widest)
    one = np.ones(len(speeds), np.int64)
    ranges = Ranges(np.arange(len(speeds)), one, widest, -one, 0 * one)
    return Ladders.of(menus, ranges, Stride(), hull=hull)[:2]


def _part(ladders: Ladders, rungs: slice) -> Ladders:
    return Ladders(
        width=ladders.width[rungs],
        speed=ladders.speed[rungs],
        cost=ladders.cost[rungs],
        gain=ladders.gain[rungs],
        loss=ladders.loss[rungs],
    )
