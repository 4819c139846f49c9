"""Which points to measure: those that leave the least doubt about all the others.

Before a point is measured, the prior and the points so far tell how much each candidate would
narrow the forecasts of everything that may be asked (A-optimal design, linearised). So the rule
looks at plans, at placements and at times already measured, never at a time that it has not asked
for.
"""

from collections.abc import Callable

import numpy as np

from weft.perf.plans.columns import Floats, Ints
from weft.perf.plans.fit import NOISE, StepModel, fitted
from weft.perf.plans.step import Cases

MOST_POINTS = 7


def most_telling(model: StepModel, asked: Cases, candidates: Ints) -> int:
    """The candidate, a row of `asked`, after which the mean variance of `asked` is smallest."""
    slopes = model.slopes(asked)
    spread = slopes @ model.covariance
    variance = np.einsum("ij,ij->i", spread, slopes)
    links = spread @ slopes[candidates].T
    left = variance[:, None] - links**2 / (NOISE**2 + variance[candidates])
    return int(candidates[int(np.argmin(left.mean(axis=0)))])


def measured_points(
    asked: Cases,
    candidates: Ints,
    measure: Callable[[int], float],
    prior: StepModel,
    most: int = MOST_POINTS,
) -> tuple[StepModel, tuple[int, ...]]:
    """Measure one after the other, each where it tells most; the model, and the rows measured."""
    chosen: list[int] = []
    seconds: list[float] = []
    model = prior
    while len(chosen) < min(most, len(candidates)):
        left: Ints = np.setdiff1d(candidates, np.array(chosen, np.int64))
        chosen.append(most_telling(model, asked, left))
        seconds.append(measure(chosen[-1]))
        told: Floats = np.array(seconds)
        model = fitted(asked.take(np.array(chosen)), told, prior)
    return model, tuple(chosen)
