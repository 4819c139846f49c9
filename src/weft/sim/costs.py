"""What changes cost: start, stop, resize and move, drawn from named distributions.

`tacc` follows the restart costs that were measured on a 32-GPU cluster at TACC and published with
Shockwave (101 samples: mean 10.8 s, median 6, 90th percentile 29, largest 60); its quantile
function is linear between these points. `muri` is not a distribution but the rule of Muri's
simulator, kept for conformance: at every event every running job loses its start overhead,
whether it moved or not, and its end is foreseen as if it did not.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.model.errors import UnknownName
from weft.model.ids import JobId
from weft.model.job import Job


@dataclass(frozen=True, slots=True)
class Distribution:
    """A quantile function, linear between its points (probability, seconds)."""

    name: str
    points: tuple[tuple[float, float], ...]

    def at(self, probability: float) -> float:
        """The quantile; a distribution of one point is a constant."""
        if len(self.points) == 1:
            return self.points[0][1]
        index = min(
            max(bisect_right(self.points, (probability, float("inf"))), 1), len(self.points) - 1
        )
        (left, low), (right, high) = self.points[index - 1], self.points[index]
        return low + (high - low) * (probability - left) / (right - left)

    def beyond(self, least: float, probability: float) -> float:
        """The quantile among what lies beyond `least`, or that itself where nothing does."""
        reached = self._share_below(least)
        return max(self.at(reached + (1.0 - reached) * probability), least)

    def _share_below(self, value: float) -> float:
        index = bisect_right([known for _, known in self.points], value)
        if index in (0, len(self.points)):
            return float(index > 0)
        (left, low), (right, high) = self.points[index - 1], self.points[index]
        return left + (right - left) * (value - low) / (high - low)

    @property
    def mean_seconds(self) -> float:
        if len(self.points) == 1:
            return self.points[0][1]
        pairs = zip(self.points, self.points[1:], strict=False)
        return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs)

    def scaled(self, factor: float) -> "Distribution":
        return Distribution(
            f"{self.name}*{factor:g}", tuple((p, seconds * factor) for p, seconds in self.points)
        )


def constant(seconds: float) -> Distribution:
    return Distribution(f"constant({seconds:g})", ((0.0, seconds),))


FREE = constant(0.0)
TACC = Distribution("tacc", ((0.0, 2.0), (0.5, 6.0), (0.75, 7.1), (0.9, 29.0), (1.0, 60.0)))


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that each change takes; `overheads` switches to Muri's rule, by job.

    While a `resize` takes place the job trains on as before; `resize_pause` is what it stands still
    for when the new width begins.
    """

    name: str
    start: Distribution = FREE
    stop: Distribution = FREE
    resize: Distribution = FREE
    resize_pause: Distribution = FREE
    move: Distribution = FREE
    overheads_seconds: Mapping[JobId, float] | None = field(default=None, compare=False)

    def overhead_seconds(self, job: Job) -> float:
        """What Muri's rule takes from this job at every event."""
        return 0.0 if self.overheads_seconds is None else self.overheads_seconds.get(job.id, 10.0)

    @property
    def charged_at_every_event(self) -> bool:
        return self.overheads_seconds is not None


COSTS = {
    "free": Costs("free"),
    "tacc": Costs("tacc", start=TACC, stop=constant(2.0), resize=constant(2.0), move=TACC),
}


def named_costs(name: str, *, scale: float = 1.0) -> Costs:
    """Costs by name, stretched by `scale`."""
    if name not in COSTS:
        raise UnknownName(f"no costs '{name}'", hint=f"costs: {', '.join(COSTS)}")
    costs = COSTS[name]
    if scale == 1.0:
        return costs
    return Costs(
        f"{name}*{scale:g}",
        start=costs.start.scaled(scale),
        stop=costs.stop.scaled(scale),
        resize=costs.resize.scaled(scale),
        resize_pause=costs.resize_pause.scaled(scale),
        move=costs.move.scaled(scale),
    )
