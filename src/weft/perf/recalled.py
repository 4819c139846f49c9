"""What earlier runs of the same program say about the next.

People run the same program again with another batch or on other data, and its curve keeps its
shape. How fast a run was overall is its own affair; what it shared with the next is the shape, but
for a part (`smooth.KIN`). So the more is measured of the job itself, the less its forerunners
matter. A job of which nothing is measured is believed to be as fast as they were.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from weft.model.menu import Ints
from weft.perf.evidence import Evidence
from weft.perf.point import Point
from weft.perf.predict import concluded
from weft.perf.prediction import Prediction
from weft.perf.prior import FREE, Prior

Run = tuple[Point, ...]

LATEST = 4
KNOWN_RUNS = 4096


@dataclass(frozen=True, slots=True)
class Recalled:
    """A predictor for whoever has forerunners: the points of each, oldest first.

    Without any it foretells from the job's own points.
    """

    earlier: tuple[Run, ...]

    def __call__(
        self,
        points: Sequence[Point],
        *,
        widest: int,
        node_gpus: int,
        prior: Prior = FREE,
        widths: Ints | None = None,
    ) -> Prediction:
        past = [_evidence(run) for run in self.earlier]
        evidence = Evidence.of(points).after([run for run in past if len(run)])
        return concluded(evidence, widest=widest, node_gpus=node_gpus, prior=prior, widths=widths)


@lru_cache(maxsize=KNOWN_RUNS)
def _evidence(run: Run) -> Evidence:
    """A run that is over is looked at again whenever its program runs."""
    return Evidence.of(run)
