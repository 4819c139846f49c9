"""When a falling loss will be where it is meant to be.

Optimus' law: l(k) = 1 / (b0 k + b1) + b2 with nothing negative. Written as a / (1 + c k) + b2 it is
linear in a and b2 once c is given, so the fit is a search over one number with a closed form
inside: no start values, no solver, always the same answer. Noise is taken as relative to the loss,
and points far off the curve count less. Late points count more, because it is them that the future
continues: Optimus divides their deviation by 4 and 16, this fit by √2 and 2. With noise of 2 % that
makes nine jobs in ten known to within a quarter at 30 % of their work, instead of two in ten.

How sure it is has three parts. Chance: the covariance of the fit, carried over to the step that is
asked for. Form: neighbours that err alike show that the curve is not of this form; that part of
the error does not average out, and is carried to the end in full. Drift: what half of the points
would have said, where that differs by more than chance explains, is expected to go on at every
doubling. A loss that follows another law in silence can still fool it, which is why what was
foretold is scored when the job is over.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from weft.perf.total import NORMAL_QUANTILE, Source, Total

Floats = npt.NDArray[np.float64]

MOST_POINTS = 100
FEWEST_POINTS = 12
LATE = (1.0, math.sqrt(2.0), 2.0)
FAR_OFF = 2.5
WIDEST = 50.0
"""No interval is wider than e to this power: the rest is infinity."""

BENDS = np.geomspace(0.05, 2000.0, 24)
"""Values of c that are tried first, for steps counted in parts of those taken."""

FINE = 11


@dataclass(frozen=True, slots=True)
class Target:
    """The job ends when its loss has come down to this."""

    loss: float


@dataclass(frozen=True, slots=True)
class Flat:
    """The job ends when its loss has fallen by less than `change` within `window_steps`."""

    window_steps: float
    change: float


Goal = Target | Flat


@dataclass(frozen=True, slots=True)
class Losses:
    """What has been seen of a job's loss: means of `stride` sightings each, at most a hundred.

    Where a step is taken again, after a crash, what was seen from there on is forgotten.
    """

    steps: tuple[float, ...] = ()
    losses: tuple[float, ...] = ()
    stride: int = 1
    latest: tuple[tuple[float, float], ...] = ()

    def with_one(self, step: float, loss: float) -> "Losses":
        """And this one; a loss that is no number tells nothing."""
        if not math.isfinite(loss):
            return self
        kept = bisect_left(self.steps, step)
        steps, losses = self.steps[:kept], self.losses[:kept]
        latest = (*(seen for seen in self.latest if seen[0] < step), (step, loss))
        if len(latest) < self.stride:
            return Losses(steps, losses, self.stride, latest)
        steps = (*steps, sum(step for step, _ in latest) / len(latest))
        losses = (*losses, sum(loss for _, loss in latest) / len(latest))
        if len(steps) < MOST_POINTS:
            return Losses(steps, losses, self.stride)
        return Losses(_in_pairs(steps), _in_pairs(losses), 2 * self.stride)


NO_LOSSES = Losses()


def total_steps(seen: Losses, goal: Goal) -> Total | None:
    """Steps from the first to the last, with an interval; None where the curve never gets there."""
    steps, losses = np.array(seen.steps), np.array(seen.losses)
    if len(steps) < FEWEST_POINTS or losses.min() <= 0.0:
        return None
    now = _foreseen(steps, losses, goal)
    if now is None:
        return None
    half = len(steps) // 2
    drift = _drift(now, _foreseen(steps[:half], losses[:half], goal), float(steps[-1]))
    low = now.end * math.exp(min(-NORMAL_QUANTILE * now.error, drift))
    high = now.end * math.exp(max(NORMAL_QUANTILE * now.error, drift))
    return Total(low, now.end, high, Source.LOSS)


@dataclass(frozen=True, slots=True)
class _Foreseen:
    """The step at which it ends, and the relative error of that."""

    end: float
    error: float


@dataclass(frozen=True, slots=True)
class _Fit:
    """a / (1 + c k) + b2, with k in parts of `unit` steps."""

    unit: float
    a: float
    b2: float
    c: float
    weights: Floats
    fair_weights: Floats


def _foreseen(steps: Floats, losses: Floats, goal: Goal) -> _Foreseen | None:
    fit = _fitted(steps, losses)
    end, gradient = _end(fit, goal)
    if not (math.isfinite(end) and end > 0.0):
        return None
    parts = steps / fit.unit
    decay = 1.0 / (1.0 + fit.c * parts)
    off = (losses - fit.a * decay - fit.b2) / losses
    alike = _alike(off)
    trust = np.minimum(fit.weights / fit.fair_weights, 1.0)
    spread = float(trust @ (off * off)) / max(len(off) - 3, 1)
    variance = _carried(fit, parts, losses, gradient) * spread * (1.0 + alike) / (1.0 - alike)
    slope = fit.a * fit.c / (1.0 + fit.c * end) ** 2
    level = fit.a / (1.0 + fit.c * end) + fit.b2
    form = math.sqrt(spread * alike) * level / slope
    error = math.hypot(math.sqrt(max(variance, 0.0)), form) / end
    return _Foreseen(end * fit.unit, error) if error < WIDEST else None


def _fitted(steps: Floats, losses: Floats) -> _Fit:
    unit = float(steps[-1])
    parts = steps / unit
    fair = (_lateness(len(steps)) / losses) ** 2
    a, b2, squares = _projected(parts, losses, fair, BENDS)
    best = int(np.argmin(squares))
    off = np.abs(losses - a[best] / (1.0 + BENDS[best] * parts) - b2[best]) * np.sqrt(fair)
    usual = 1.4826 * float(np.median(off))
    weights = fair * np.minimum(FAR_OFF * usual / np.maximum(off, 1e-12), 1.0) if usual else fair
    around = BENDS[max(best - 1, 0)], BENDS[min(best + 1, len(BENDS) - 1)]
    bends = np.geomspace(*around, FINE)
    c = _bottom(bends, _projected(parts, losses, weights, bends)[2])
    a, b2, _ = _projected(parts, losses, weights, np.array([c]))
    return _Fit(unit, float(a[0]), float(b2[0]), c, weights, fair)


def _projected(
    parts: Floats, losses: Floats, weights: Floats, bends: Floats
) -> tuple[Floats, Floats, Floats]:
    """The best a and b2 for each bend, neither negative, and the weighted squares that are left."""
    decay = 1.0 / (1.0 + bends[:, None] * parts)
    weighted = weights * losses
    total, level, power = weights.sum(), weighted.sum(), float(weighted @ losses)
    once, twice, both = decay @ weights, (decay * decay) @ weights, decay @ weighted
    a = (both * total - once * level) / (twice * total - once * once)
    b2 = (level - a * once) / total
    a, b2 = np.where(b2 < 0.0, both / twice, a), np.maximum(b2, 0.0)
    a, b2 = np.maximum(a, 0.0), np.where(a < 0.0, level / total, b2)
    fitted = a * a * twice + 2.0 * a * b2 * once + b2 * b2 * total
    return a, b2, power - 2.0 * (a * both + b2 * level) + fitted


def _bottom(bends: Floats, squares: Floats) -> float:
    """Where a parabola through the lowest three has its lowest point."""
    best = int(np.argmin(squares))
    if not 0 < best < len(bends) - 1:
        return float(bends[best])
    left, middle, right = squares[best - 1 : best + 2].tolist()
    curvature = left - 2.0 * middle + right
    shift = 0.5 * (left - right) / curvature if curvature > 0.0 else 0.0
    return float(bends[best] * (bends[1] / bends[0]) ** shift)


def _lateness(points: int) -> Floats:
    thirds = [points // 3, 2 * points // 3 - points // 3, points - 2 * points // 3]
    return np.repeat(LATE, thirds)


def _end(fit: _Fit, goal: Goal) -> tuple[float, Floats]:
    """In parts of the unit, and how it changes with a, b2 and c."""
    if isinstance(goal, Target):
        gap = goal.loss - fit.b2
        if gap <= 0.0 or fit.a <= 0.0:
            return math.inf, np.zeros(3)
        end = (fit.a / gap - 1.0) / fit.c
        return end, np.array([1.0 / (gap * fit.c), fit.a / (gap * gap * fit.c), -end / fit.c])
    return _flat_end(fit, goal)


def _flat_end(fit: _Fit, goal: Flat) -> tuple[float, Floats]:
    """a/(x − h) − a/x = change, with x = 1 + c k and h = c window: a quadratic in x."""
    window = goal.window_steps / fit.unit
    h, tall = fit.c * window, fit.a / goal.change
    root = math.sqrt(h * h + 4.0 * h * tall)
    end = (0.5 * (h + root) - 1.0) / fit.c
    by_a = h / (root * goal.change * fit.c) if root else 0.0
    by_h = 0.5 * (1.0 + (h + 2.0 * tall) / root) if root else 0.0
    return end, np.array([by_a, 0.0, (by_h * window - end) / fit.c])


def _carried(fit: _Fit, parts: Floats, losses: Floats, gradient: Floats) -> float:
    """Variance of the end for noise of one, relative to the loss: weights are not its inverse."""
    decay = 1.0 / (1.0 + fit.c * parts)
    columns = np.stack([decay, np.ones(len(parts)), -fit.a * decay * decay * parts])
    if fit.b2 <= 0.0:
        columns, gradient = columns[[0, 2]], gradient[[0, 2]]
    weighted = columns * fit.weights
    try:
        pull = np.linalg.solve(weighted @ columns.T, gradient) @ (weighted * losses)
    except np.linalg.LinAlgError:
        return math.inf
    return float(pull @ pull)


def _alike(off: Floats) -> float:
    """How much neighbours err alike, beyond what chance would show."""
    power = float(off @ off)
    if power <= 0.0:
        return 0.0
    found = float(off[1:] @ off[:-1]) / power - NORMAL_QUANTILE / math.sqrt(len(off))
    return min(max(found, 0.0), 0.99)


def _drift(now: _Foreseen, before: _Foreseen | None, taken: float) -> float:
    """By which power of e the end is going to move, if it goes on as it did."""
    if before is None:
        return 0.0
    moved = math.log(now.end / before.end)
    chance = NORMAL_QUANTILE * math.hypot(now.error, before.error)
    doublings = max(math.log2(now.end / taken), 0.0)
    return math.copysign(max(abs(moved) - chance, 0.0) * doublings, moved)


def _in_pairs(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple((one + two) / 2 for one, two in zip(values[::2], values[1::2], strict=True))
