"""The truth about a simulated job's training loss, which only its world knows.

A `LossCurve` falls as Optimus found the losses of many models to fall, as the inverse of the steps
taken: l(k) = 1 / (b0 k + b1) + b2. An `ErraticLoss` is made of pieces of such curves that have
nothing to do with each other: the learning rate starts anew, a plateau holds, a step comes. What it
has done tells nothing of what it will do.
"""

import math
from bisect import bisect_right
from dataclasses import dataclass
from statistics import NormalDist

from weft.model.errors import SpecError

NORMAL = NormalDist()
LEAST_DRAW = 1e-9


@dataclass(frozen=True, slots=True)
class LossCurve:
    """1 / (b0 k + b1) + b2 at step k; `noise` is the relative spread of what is seen of it.

    `target` is the loss at which the job is to end, where its owner has named one.
    """

    b0: float
    b1: float
    b2: float
    noise: float = 0.0
    target: float | None = None

    def __post_init__(self) -> None:
        if min(self.b0, self.b2, self.noise) < 0 or self.b1 <= 0:
            raise SpecError(
                f"a loss of {self.b0}, {self.b1}, {self.b2} with noise {self.noise} never falls",
                hint="b1 is positive, b0, b2 and the noise are not negative",
            )

    @classmethod
    def through(
        cls, *, first: float, target: float, floor: float, steps: float, noise: float = 0.0
    ) -> "LossCurve":
        """The curve that begins at `first`, nears `floor` and is at `target` after `steps`."""
        b1 = 1.0 / (first - floor)
        return cls((1.0 / (target - floor) - b1) / steps, b1, floor, noise, target)

    def at(self, step: float, draw: float = 0.5) -> float:
        """What is seen at that step; `draw` in [0, 1) is the chance in it, 0.5 none."""
        return _seen(1.0 / (self.b0 * step + self.b1) + self.b2, self.noise, draw)

    @property
    def steps_to_target(self) -> float:
        """Steps until the target, without chance; infinite where it is never reached."""
        if self.target is None or self.target <= self.b2:
            return math.inf
        missing = max(1.0 / (self.target - self.b2) - self.b1, 0.0)
        return math.inf if missing and not self.b0 else missing / (self.b0 or 1.0)


@dataclass(frozen=True, slots=True)
class ErraticLoss:
    """Pieces (first step, curve counted from there), first steps rising from 0."""

    pieces: tuple[tuple[float, LossCurve], ...]
    noise: float = 0.0
    target: float | None = None

    def __post_init__(self) -> None:
        begins = [begin for begin, _ in self.pieces]
        if not begins or begins[0] != 0 or begins != sorted(set(begins)):
            raise SpecError(
                f"pieces of a loss begin at rising steps from 0, got {begins}",
                hint="give each piece once, first to last",
            )

    def at(self, step: float, draw: float = 0.5) -> float:
        """What is seen at that step; `draw` in [0, 1) is the chance in it, 0.5 none."""
        index = max(bisect_right(self.pieces, step, key=lambda piece: piece[0]) - 1, 0)
        begin, curve = self.pieces[index]
        return _seen(curve.at(step - begin), self.noise, draw)


Loss = LossCurve | ErraticLoss


def _seen(loss: float, noise: float, draw: float) -> float:
    if not noise:
        return loss
    certain = min(max(draw, LEAST_DRAW), 1.0 - LEAST_DRAW)
    return max(loss * (1.0 + noise * NORMAL.inv_cdf(certain)), 0.0)
