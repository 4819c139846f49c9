"""A prediction: speeds by width with an interval, and who makes one.

The interval is to hold the truth in 80 of 100 cases. A scheduler takes its low end where it weighs
a shrink and its high end where it weighs growth.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from weft.model.menu import Floats, Ints
from weft.perf.host import HostFit
from weft.perf.point import Point
from weft.perf.prior import FREE, Prior


@dataclass(frozen=True, slots=True)
class Estimate:
    """One speed, and between what it should lie."""

    likely: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Prediction:
    """Speeds by width on the fewest nodes: likely, and between low and high.

    `widths` rise, from 0; they are 0, 1, 2, … unless others were asked for.
    `spread` is the same on more nodes than needed, where that is known apart. The speeds hold for
    `cpus_per_gpu` cores; `cores` tells of others, if measurements differed in them.
    """

    likely: Floats
    low: Floats
    high: Floats
    widths: Ints
    spread: "Prediction | None" = None
    cores: HostFit | None = None
    cpus_per_gpu: float = 0.0

    def at(self, width: int, *, nodes: int = 1, cpus_per_gpu: float = 0.0) -> Estimate:
        """The speed on that many nodes with that many cores for each GPU (0: as measured)."""
        row = self.spread if nodes > 1 and self.spread is not None else self
        factor = self._core_factor(cpus_per_gpu)
        place = int(np.searchsorted(row.widths, width))
        if place == len(row.widths) or row.widths[place] != width:
            raise KeyError(width)
        speeds = (row.likely[place], row.low[place], row.high[place])
        return Estimate(*(factor * float(speed) for speed in speeds))

    def _core_factor(self, cpus_per_gpu: float) -> float:
        if self.cores is None or not cpus_per_gpu or not self.cpus_per_gpu:
            return 1.0
        return self.cores.at(cpus_per_gpu)[0] / self.cores.at(self.cpus_per_gpu)[0]


class Predictor(Protocol):
    """Foretells speeds from measured points, and from `prior` where they say nothing.

    At all widths up to `widest`, or at rising `widths`; nodes have `node_gpus` GPUs.
    """

    def __call__(
        self,
        points: Sequence[Point],
        *,
        widest: int,
        node_gpus: int,
        prior: Prior = FREE,
        widths: Ints | None = None,
    ) -> Prediction: ...
