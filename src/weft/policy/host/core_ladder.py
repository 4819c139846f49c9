"""A ladder: what a job must have of its node beside its GPUs, and what more would bring it.

The floor is the least that trains as fast as the GPU-proportional share does (Synergy's rule:
nobody may be worse off than without the scheduler). Above it stand rungs, each worth less per share
of the node than the one before: the upper hull of the job's curve over what a rung costs, so that a
dip in the curve holds nobody back below a profitable rung.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf
from typing import NamedTuple

from weft.model.host import HostCurve, PerGpu

ROUNDING = 1e-9


class Rung(NamedTuple):
    """So much for each GPU, the speed with it, and what it costs beyond the floor.

    The price is in shares of a node.
    """

    host: PerGpu
    speed: float
    price: float


@dataclass(frozen=True, slots=True)
class Ladder:
    """`rungs` are worth climbing in turn from the `floor`; `others` is all that could be had.

    The others stand fastest first, and none of them takes as much as another that is as fast.
    """

    floor: Rung
    rungs: tuple[Rung, ...]
    others: tuple[Rung, ...]

    @property
    def top(self) -> Rung:
        return self.rungs[-1] if self.rungs else self.floor

    def within(self, host: PerGpu) -> Rung:
        """The fastest that takes no more than that; the cheapest of those."""
        return next((rung for rung in self.others if _holds(host, rung.host)), self.floor)


@lru_cache(maxsize=4096)
def ladder(curve: HostCurve, fair: PerGpu, node: PerGpu) -> Ladder:
    """For a job with that curve; `fair` is a GPU's share of its node, `node` all that there is."""
    owed = curve.at(fair)
    points = [_rung(curve, PerGpu(c, m), node) for c, m in _grid(curve, fair, node)]
    enough = [p for p in points if p.speed >= owed - ROUNDING and _holds(fair, p.host)]
    floor = min(enough, key=lambda p: (p.price, p.host.cores, p.host.memory_gib))
    floor = floor._replace(price=0.0)
    above = [p for p in points if p.speed > floor.speed + ROUNDING]
    above = sorted((_beyond(p, floor, node) for p in above), key=lambda p: (p.price, -p.speed))
    return Ladder(floor, tuple(_hull(floor, above)), tuple(_undominated(above)))


def _grid(curve: HostCurve, fair: PerGpu, node: PerGpu) -> list[tuple[float, float]]:
    """Whole cores, parts of the first one, and the fair share, as far as the node reaches."""
    most = min(node.cores, max(curve.cores[-1], fair.cores))
    cores = {float(c) for c in range(1, ceil(most) + 1)} | {fair.cores}
    cores |= {c for c in curve.cores if c < 1.0}
    memory = {*curve.memory_gib, fair.memory_gib}
    if fair.memory_gib == inf:
        memory = {curve.memory_gib[-1]}
    return [
        (c, m)
        for c in sorted(cores)
        for m in sorted(memory)
        if c <= node.cores + ROUNDING and m <= node.memory_gib + ROUNDING
    ]


def _rung(curve: HostCurve, host: PerGpu, node: PerGpu) -> Rung:
    return Rung(host, curve.at(host), _price(host.cores, host.memory_gib, node))


def _beyond(rung: Rung, floor: Rung, node: PerGpu) -> Rung:
    """The same, priced by what it takes beyond the floor."""
    more_cores = max(rung.host.cores - floor.host.cores, 0.0)
    more_memory = max(rung.host.memory_gib - floor.host.memory_gib, 0.0)
    return rung._replace(price=_price(more_cores, more_memory, node))


def _price(cores: float, memory_gib: float, node: PerGpu) -> float:
    """The dominant share; the other one decides between equals."""
    shares = cores / node.cores, memory_gib / node.memory_gib
    return max(shares) + 1e-6 * min(shares)


def _hull(floor: Rung, above: list[Rung]) -> list[Rung]:
    """Of points by rising price, those on the upper hull that begins at the floor."""
    hull = [floor]
    for point in above:
        if point.speed <= hull[-1].speed + ROUNDING:
            continue
        while len(hull) > 1 and _slope(hull[-2], point) >= _slope(hull[-2], hull[-1]):
            hull.pop()
        hull.append(point)
    return hull[1:]


def _undominated(above: list[Rung]) -> list[Rung]:
    """Without those that take no less than another and are no faster."""
    kept: list[Rung] = []
    for point in sorted(above, key=lambda p: (-p.speed, p.price)):
        if not any(_holds(point.host, other.host) for other in kept):
            kept.append(point)
    return kept


def _slope(one: Rung, other: Rung) -> float:
    return (other.speed - one.speed) / max(other.price - one.price, ROUNDING)


def _holds(host: PerGpu, less: PerGpu) -> bool:
    return less.cores <= host.cores + ROUNDING and less.memory_gib <= host.memory_gib + ROUNDING
