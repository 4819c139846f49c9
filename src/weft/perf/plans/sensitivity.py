"""How a job's speed follows what it is given: one form for GPUs, cores, memory and bandwidth.

A sensitivity is a step from one amount of something to another and what it does to the best speed.
Per unit, in speeds of what was asked for, jobs compare (Rubick's slope); as an elasticity,
resources do: 1 is in proportion, 0 is no use. Each amount is judged with the plan that is best
there, so a job that would change its plan is not judged by the one that it has.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.model.shape import MIXED, Precision
from weft.perf.plans.curve import CORES, Allocation, PlanCurve, best_plans
from weft.perf.plans.envelope import envelope
from weft.perf.plans.fit import StepModel
from weft.perf.plans.laws import Bounds

MORE = 1.25
"""Memory and bandwidth are asked about at so many times what there is."""


class Resource(StrEnum):
    """What a job can be given more of."""

    GPUS = "gpus"
    CORES = "cores"
    MEMORY = "memory"
    BANDWIDTH = "bandwidth"


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """From one amount to another, and the speed at both."""

    resource: Resource
    before: float
    after: float
    speed_before: float
    speed_after: float

    def per_unit(self, request_speed: float) -> float:
        """Gain per unit, in speeds of what was asked for."""
        if self.after == self.before:
            return 0.0
        return (self.speed_after - self.speed_before) / request_speed / (self.after - self.before)

    @property
    def elasticity(self) -> float:
        """Relative gain over relative amount; infinite where nothing ran before."""
        if self.after == self.before:
            return 0.0
        if self.speed_before <= 0.0:
            return math.inf if self.speed_after > 0.0 else 0.0
        return math.log(self.speed_after / self.speed_before) / math.log(self.after / self.before)


@dataclass(frozen=True, slots=True)
class Question:
    """A job that is asked about, and the widths that it may have."""

    model: StepModel
    bounds: Bounds
    widths: tuple[int, ...]
    precision: Precision = MIXED

    def curve(self, cores: tuple[float, ...] = CORES) -> PlanCurve:
        found = best_plans(
            self.model, self.bounds, self.widths, cores=cores, precision=self.precision
        )
        return PlanCurve.of(found)

    def speed(self, at: Allocation) -> float:
        """With exactly so many GPUs and no more cores; 0 if no plan fits there."""
        found = best_plans(
            self.model, self.bounds, (at.gpus,), cores=(at.cores,), precision=self.precision
        )
        return max((one.speed for one in found), default=0.0)

    def with_more(self, resource: Resource) -> "Question":
        """The same on nodes with more memory, or with more bandwidth between them."""
        fabric = self.model.fabric
        wider = (
            replace(fabric, gpu_memory_bytes=fabric.gpu_memory_bytes * MORE)
            if resource is Resource.MEMORY
            else replace(fabric, card_bandwidth=fabric.card_bandwidth * MORE)
        )
        return replace(self, model=replace(self.model, fabric=wider))


def sensitivity(resource: Resource, at: Allocation, question: Question) -> Sensitivity:
    """What more of one thing would do for a job that has this."""
    here = question.speed(at)
    if resource is Resource.GPUS:
        return _to_gpus(at, here, question)
    if resource is Resource.CORES:
        more = next((count for count in CORES if count > at.cores), at.cores)
        there = question.speed(Allocation(at.gpus, float(more)))
        return Sensitivity(resource, at.cores, float(more), here, max(here, there))
    fabric = question.model.fabric
    amount = fabric.gpu_memory_bytes if resource is Resource.MEMORY else fabric.card_bandwidth
    there = question.with_more(resource).speed(at)
    return Sensitivity(resource, amount, amount * MORE, here, there)


def _to_gpus(at: Allocation, here: float, question: Question) -> Sensitivity:
    """To the next vertex of the envelope, which may lie behind a cliff."""
    for one in envelope(question.curve(cores=(at.cores,))):
        if one.allocation.gpus > at.gpus and one.speed > here:
            return Sensitivity(Resource.GPUS, at.gpus, one.allocation.gpus, here, one.speed)
    return Sensitivity(Resource.GPUS, at.gpus, at.gpus, here, here)
