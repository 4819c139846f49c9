"""Evidence: measured points as columns, each width and spread once.

What was measured twice is one point, the mean by time. A measurement is never better than what a
machine does from one day to the next, and a short one is worse. If points were measured with
different numbers of cores, they are first brought to one number; how cores matter is taken from
points that differ in nothing else (see `host`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite

import numpy as np

from weft.model.curves import Floats
from weft.perf.host import HostFit, fit_cores
from weft.perf.point import Point

STEADY = 0.03
"""How far a long measurement is off, as a share (standard deviation)."""
BRIEF = 0.05
"""What one second of measuring adds; it falls with the root of the time."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One row per width and spread, by width: `across` is 1 where it ran on several nodes.

    `own` is how many of the rows were measured of the job itself; 0 means all.
    """

    widths: Floats
    across: Floats
    logs: Floats
    variances: Floats
    cores: HostFit | None = None
    cpus_per_gpu: float = 0.0
    own: int = 0

    @classmethod
    def of(cls, points: Sequence[Point]) -> "Evidence":
        """Points without a speed say nothing."""
        sound = [point for point in points if _is_sound(point)]
        cores, cpus_per_gpu = _core_fit(sound)
        if cores is not None:
            sound = [_with_cores(point, cores, cpus_per_gpu) for point in sound]
        rows = sorted(_merged(sound).items())
        table = np.array([(*key, *row) for key, row in rows]).reshape(len(rows), 4)
        variances = STEADY**2 + BRIEF**2 / table[:, 3]
        return cls(table[:, 0], table[:, 1], np.log(table[:, 2]), variances, cores, cpus_per_gpu)

    def __len__(self) -> int:
        return len(self.widths)

    def with_more(self, other: "Evidence") -> "Evidence":
        """Both; where they tell of the same width and spread, the mean by their certainty."""
        columns = (
            np.concatenate(pair) for pair in zip(self._columns(), other._columns(), strict=True)
        )
        widths, across, logs, variances = columns
        keys, place = np.unique(np.stack([widths, across], axis=1), axis=0, return_inverse=True)
        weight = np.bincount(place.ravel(), 1.0 / variances)
        mean = np.bincount(place.ravel(), logs / variances) / weight
        return replace(
            self, widths=keys[:, 0], across=keys[:, 1], logs=mean, variances=1.0 / weight
        )

    def _columns(self) -> tuple[Floats, Floats, Floats, Floats]:
        return self.widths, self.across, self.logs, self.variances


def _is_sound(point: Point) -> bool:
    measured = point.units_per_second > 0 and isfinite(point.units_per_second)
    return measured and point.gpus > 0 and point.seconds > 0


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
            relative += [
                (count, speed / speeds[-1]) for count, speed in zip(cores, speeds, strict=True)
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
    return sum(point.units_per_second * point.seconds for point in points) / seconds, seconds


def _with_cores(point: Point, cores: HostFit, cpus_per_gpu: float) -> Point:
    """What it would have measured with that many cores for each GPU."""
    if not point.cpus_per_gpu:
        return point
    factor = cores.at(cpus_per_gpu)[0] / cores.at(point.cpus_per_gpu)[0]
    return replace(point, units_per_second=point.units_per_second * factor)
