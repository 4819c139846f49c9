"""What earlier runs of the same program say about the next.

People run the same program again with another batch or on other data, and its curve keeps its
shape. The points of an earlier run are brought to the level that the new job has shown so far and
then count as points of its own, only less certain ones: the more is measured of the job itself, the
less they matter. A job of which nothing is measured is believed to be as fast as its forerunners.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np

from weft.model.ids import TenantId
from weft.perf.evidence import Evidence
from weft.perf.point import Point
from weft.perf.predict import concluded, middle_line
from weft.perf.prediction import Prediction

Run = tuple[Point, ...]

LATEST = 4
PROGRAMS = 4096
UNLIKE = 0.1
"""How far a job's curve is off its forerunners', as a share (standard deviation)."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A predictor for whoever has forerunners: the points of each, oldest first."""

    earlier: tuple[Run, ...]

    def __call__(self, points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
        own = Evidence.of(points)
        runs = [_at_level_of(own, Evidence.of(run)) for run in self.earlier]
        if runs:
            past = reduce(Evidence.with_more, runs)
            past = replace(past, variances=past.variances + UNLIKE**2)
            own = replace(own.with_more(past), own=max(len(own), 1))
        return concluded(own, widest=widest, node_gpus=node_gpus)


@dataclass(slots=True)
class CurveHistory:
    """The points of the latest runs, by tenant and program; "" as program is none."""

    _runs: dict[tuple[TenantId, str], tuple[Run, ...]] = field(default_factory=dict)

    def add(self, tenant: TenantId, program: str, points: Sequence[Point]) -> None:
        """A run is over; programs not run for longest are forgotten."""
        if not program or not points:
            return
        earlier = self._runs.pop((tenant, program), ())
        self._runs[tenant, program] = (*earlier, tuple(points))[-LATEST:]
        if len(self._runs) > PROGRAMS:
            del self._runs[next(iter(self._runs))]

    def predictor(self, tenant: TenantId, program: str) -> Recalled:
        """Foretells from the latest runs; without any, from the job's own points."""
        return Recalled(self._runs.get((tenant, program), ()))

    def copied(self) -> "CurveHistory":
        return CurveHistory(dict(self._runs))


def _at_level_of(own: Evidence, past: Evidence) -> Evidence:
    """The past one, faster or slower throughout, as the job's own points ask for."""
    if not len(own) or not len(past):
        return past
    ahead = own.logs - middle_line(past, own.widths, own.across)
    return replace(past, logs=past.logs + np.average(ahead, weights=1.0 / own.variances))
