"""Evidence: measured points as columns, each width and spread once.

What was measured twice is one point, the mean by time. A measurement is never better than what a
machine does from one day to the next, and a short one is worse. If points were measured with
different numbers of cores, they are first brought to one number; how cores matter is taken from
points that differ in nothing else (see `host`). Points of earlier runs of the same program stand
beside the job's own, each run with its number: how fast a run was overall is its own affair.

What workers say are claims: a figure beyond any machine's is cut to what can be reckoned with.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from weft.model.menu import Floats, Ints
from weft.perf.host import HostFit, fit_cores
from weft.perf.point import Point

STEADY = 0.03
"""How far a long measurement is off, as a share (standard deviation)."""
BRIEF = 0.05
"""What one second of measuring adds; it falls with the root of the time."""
SPEEDS = 1e-300, 1e300
SECONDS = 1e-6, 1e9
CORES = 1e-3, 1e6
CORES_MATTER = 1e6
"""Cores make nobody faster by more than this factor."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row per width and spread, by width: `across` is 1 where it ran on several nodes.

    `runs` is 0 where the job itself was measured, and the number of an earlier run elsewhere.
    """

    widths: Floats
    across: Floats
    logs: Floats
    variances: Floats
    runs: Ints
    cores: HostFit | None = None
    cpus_per_gpu: float = 0.0

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Evidence":
        """Points without a speed say nothing."""
        sound = [_within_reason(point) for point in points if _is_sound(point)]
        cores, cpus_per_gpu = _core_fit(sound)
        if cores is not None:
            sound = [_with_cores(point, cores, cpus_per_gpu) for point in sound]
        rows = sorted(_merged(sound).items())
        table = np.array([(*key, *row) for key, row in rows]).reshape(len(rows), 4)
        variances = STEADY**2 + BRIEF**2 / table[:, 3]
        widths, across, logs = table[:, 0], table[:, 1], np.log(table[:, 2])
        runs = np.zeros(len(rows), np.int64)
        return cls(widths, across, logs, variances, runs, cores, cpus_per_gpu)

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def own(self) -> "Evidence":
        """What was measured of the job itself."""
        mine = self.runs == 0
        if mine.all():
            return self
        return replace(
            self,
            widths=self.widths[mine],
            across=self.across[mine],
            logs=self.logs[mine],
            variances=self.variances[mine],
            runs=self.runs[mine],
        )

    def after(self, earlier: Sequence["Evidence"]) -> "Evidence":
        """The job's own, with what earlier runs of its program showed."""
        if not earlier:
            return self
        every = (self, *earlier)
        return replace(
            self,
            widths=np.concatenate([one.widths for one in every]),
            across=np.concatenate([one.across for one in every]),
            logs=np.concatenate([one.logs for one in every]),
            variances=np.concatenate([one.variances for one in every]),
            runs=np.repeat(np.arange(len(every)), [len(one) for one in every]),
        )


def _is_sound(point: Point) -> bool:
    figures = point.units_per_second, point.seconds
    return point.gpus > 0 and all(figure > 0 and isfinite(figure) for figure in figures)


def _within_reason(point: Point) -> Point:
    speed, seconds = _cut(point.units_per_second, SPEEDS), _cut(point.seconds, SECONDS)
    cores = point.cpus_per_gpu if CORES[0] <= point.cpus_per_gpu <= CORES[1] else 0.0
    if (speed, seconds, cores) == (point.units_per_second, point.seconds, point.cpus_per_gpu):
        return point
    return replace(point, units_per_second=speed, seconds=seconds, cpus_per_gpu=cores)


def _cut(figure: float, bounds: tuple[float, float]) -> float:
    return min(max(figure, bounds[0]), bounds[1])


def _merged(points: list[Point]) -> dict[tuple[int, int], tuple[float, float]]:
    """Speed and seconds by width and spread."""
    return {place: _mean(found) for place, found in _by_place(points).items()}


def _core_fit(points: list[Point]) -> tuple[HostFit | None, float]:
    """How cores matter, and the most cores that were measured; None if nothing tells."""
    known = [point for point in points if point.cpus_per_gpu > 0]
    most = max((point.cpus_per_gpu for point in known), default=0.0)
    relative: list[tuple[float, float]] = []
    for found in _by_place(known).values():
        cores = sorted({point.cpus_per_gpu for point in found})
        speeds = [_mean([p for p in found if p.cpus_per_gpu == count])[0] for count in cores]
        if len(cores) > 1:
            believable = (1.0 / CORES_MATTER, CORES_MATTER)
            relative += [
                (count, _cut(speed / speeds[-1], believable))
                for count, speed in zip(cores, speeds, strict=True)
            ]
    return (fit_cores(relative), most) if relative else (None, most)


def _by_place(points: list[Point]) -> dict[tuple[int, int], list[Point]]:
    places: dict[tuple[int, int], list[Point]] = {}
    for point in points:
        places.setdefault((point.gpus, int(point.nodes > 1)), []).append(point)
    return places


def _mean(points: list[Point]) -> tuple[float, float]:
    """Speed over all the time, and that time."""
    seconds = sum(point.seconds for point in points)
    return sum(point.units_per_second * (point.seconds / seconds) for point in points), seconds


def _with_cores(point: Point, cores: HostFit, cpus_per_gpu: float) -> Point:
    """What it would have measured with that many cores for each GPU."""
    if not point.cpus_per_gpu:
        return point
    factor = cores.at(cpus_per_gpu)[0] / cores.at(point.cpus_per_gpu)[0]
    return replace(point, units_per_second=_cut(point.units_per_second * factor, SPEEDS))
