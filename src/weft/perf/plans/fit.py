"""A job's step time, learnt from few points, and how far off it may be.

Fifteen quantities cannot be found from seven points alone; most of them are nearly known. So each
has a prior (`step.believed`), points move it as far as they speak of it, and what they say nothing
about stays as believed. Logarithms are fitted by least squares (Levenberg and Marquardt), doubts
are propagated linearly, and points that fit badly widen everything that is foretold (Student's t).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from weft.model.errors import SpecError
from weft.perf.plans.columns import Floats
from weft.perf.plans.fabric import Fabric
from weft.perf.plans.step import Cases, Part, Work, believed, step_seconds
from weft.perf.student import ninetieth

NOISE = 0.04
"""How far a measured step is off the form, even a good one."""

PRIOR_FREEDOM = 4
"""The noise is believed as if so many points had shown it."""

NUDGE = 1e-5
MOST_ROUNDS = 60
LEAST_DAMPING, MOST_DAMPING = 1e-9, 1e10


@dataclass(frozen=True, slots=True)
class StepForecast:
    """Seconds of each case, and the interval in which 80 % of measurements lie."""

    seconds: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class StepModel:
    """What is believed of one job."""

    work: Work
    fabric: Fabric
    logs: Floats
    covariance: Floats
    widening: float
    freedom: int

    def seconds(self, cases: Cases) -> Floats:
        return step_seconds(self.logs, cases, self.work, self.fabric)

    def forecast(self, cases: Cases) -> StepForecast:
        """With intervals; whoever decides uses the slower end."""
        seconds = self.seconds(cases)
        off = np.exp(ninetieth(self.freedom) * self.doubts(cases))
        return StepForecast(seconds, seconds / off, seconds * off)

    def at_batch(self, batch: int) -> "StepModel":
        """The same program with another batch: what it computes grows in proportion."""
        logs = self.logs.copy()
        logs[Part.COMPUTE] += np.log(batch / self.work.batch)
        return replace(self, logs=logs, work=replace(self.work, batch=batch))

    def doubts(self, cases: Cases) -> Floats:
        """Of the logarithms, noise included."""
        slopes = self.slopes(cases)
        variance = np.einsum("ij,jk,ik->i", slopes, self.covariance, slopes)
        return np.asarray(self.widening * np.sqrt(np.maximum(variance, 0.0) + NOISE**2))

    def slopes(self, cases: Cases) -> Floats:
        """How logarithms of seconds follow those of the parts."""
        return _slopes(
            lambda logs: np.log(step_seconds(logs, cases, self.work, self.fabric)), self.logs
        )


def unmeasured(work: Work, fabric: Fabric) -> StepModel:
    """Before any point: the prior."""
    centres, doubts = believed(work, fabric)
    return StepModel(work, fabric, centres, np.diag(doubts**2), 1.0, PRIOR_FREEDOM)


def fitted(points: Cases, seconds: Floats, prior: StepModel) -> StepModel:
    """From measured steps, and what was believed before them."""
    if not np.all((seconds > 0.0) & np.isfinite(seconds)):
        raise SpecError("a step that takes no time was measured", hint="give seconds above 0")
    logs = np.log(seconds)
    white = np.linalg.cholesky(np.linalg.inv(prior.covariance)).T

    def misses(parts: Floats) -> Floats:
        told = np.log(step_seconds(parts, points, prior.work, prior.fabric))
        return np.concatenate([(told - logs) / NOISE, white @ (parts - prior.logs)])

    best = _least_squares(misses, prior.logs)
    slopes = _slopes(misses, best)
    surprise = float(np.sum(misses(best) ** 2))
    freedom = prior.freedom + len(logs)
    widening = float(np.sqrt((prior.freedom * prior.widening**2 + surprise) / freedom))
    covariance: Floats = np.linalg.inv(slopes.T @ slopes).astype(np.float64)
    return replace(prior, logs=best, covariance=covariance, widening=widening, freedom=freedom)


def _least_squares(misses: Callable[[Floats], Floats], start: Floats) -> Floats:
    """Damped steps downhill until nothing is gained."""
    at, here, damping = start, misses(start), 1e-2
    for _ in range(MOST_ROUNDS):
        slopes = _slopes(misses, at)
        curvature, pull = slopes.T @ slopes, slopes.T @ here
        while damping < MOST_DAMPING:
            way = np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), pull)
            there = misses(at - way)
            gain = here @ here - there @ there
            if gain > 0.0:
                break
            damping *= 4.0
        else:
            return at
        at, here, damping = at - way, there, max(damping / 5.0, LEAST_DAMPING)
        if gain < 1e-9 * (here @ here):
            return at
    return at


def _slopes(function: Callable[[Floats], Floats], at: Floats) -> Floats:
    here = function(at)
    nudges = NUDGE * np.eye(len(at))
    return np.stack([(function(at + nudge) - here) / NUDGE for nudge in nudges], axis=1)
