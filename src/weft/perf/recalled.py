"""What earlier runs of the same program say about the next.

People run the same program again with another batch or on other data, and its curve keeps its
shape. The points of an earlier run are brought to the level that the new job has shown so far and
then count as points of its own, only less certain ones: the more is measured of the job itself, the
less they matter. A job of which nothing is measured is believed to be as fast as its forerunners.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from weft.perf.evidence import Evidence
from weft.perf.point import Point
from weft.perf.predict import concluded, middle_line
from weft.perf.prediction import Prediction

Run = tuple[Point, ...]

LATEST = 4
UNLIKE = 0.1
"""How far a job's curve is off its forerunners', as a share (standard deviation)."""


@dataclass(frozen=True, slots=True)
class Recalled:
    """A predictor for whoever has forerunners: the points of each, oldest first.

    Without any it foretells from the job's own points.
    """

    earlier: tuple[Run, ...]

    def __call__(self, points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
        own = Evidence.of(points)
        runs = [_at_level_of(own, Evidence.of(run)) for run in self.earlier]
        if runs:
            past = reduce(Evidence.with_more, runs)
            past = replace(past, variances=past.variances + UNLIKE**2)
            own = replace(own.with_more(past), own=max(len(own), 1))
        return concluded(own, widest=widest, node_gpus=node_gpus)


def _at_level_of(own: Evidence, past: Evidence) -> Evidence:
    """The past one, faster or slower throughout, as the job's own points ask for."""
    if not len(own) or not len(past):
        return past
    ahead = own.logs - middle_line(past, own.widths, own.across)
    return replace(past, logs=past.logs + np.average(ahead, weights=1.0 / own.variances))
