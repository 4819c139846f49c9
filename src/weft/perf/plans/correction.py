"""What forecasts of steps turn out to be off by: learnt online, of a job and of its cluster.

The form is not the truth, and its points were few. So the ratio of measured to foretold steps is
learnt while jobs run. A part of it is the cluster's and common to all jobs with that family of
plans, such as slow links between its nodes; the rest is the job's own. Both are normal amounts of
the logarithm around 0: many looks at one job tell of that job, and only many jobs of the cluster.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType

from weft.model.ids import JobId
from weft.model.plan import ExecutionPlan, Sharding
from weft.perf.plans.fit import StepForecast

LEAST_STEPS = 20
"""Fewer steps of a plan on a placement say nothing yet: kernels and caches are still warming."""

CLUSTER_DOUBT, JOB_DOUBT, NOISE = 0.1, 0.15, 0.05
MOST_RATIO = 10.0
"""A ratio beyond this says something of the measuring, and is taken for the bound."""


class Family(StrEnum):
    """Plans that err together."""

    REPLICATED = "replicated"
    SHARDED = "sharded"
    SPLIT = "split"
    OFFLOADED = "offloaded"


def family_of(plan: ExecutionPlan) -> Family:
    if plan.offload:
        return Family.OFFLOADED
    if plan.gpus_per_replica > 1:
        return Family.SPLIT
    return Family.REPLICATED if plan.sharding is Sharding.NONE else Family.SHARDED


@dataclass(frozen=True, slots=True)
class Seen:
    """Looks at one job: how many, and the mean logarithm of measured over foretold."""

    looks: int = 0
    mean: float = 0.0

    def and_also(self, log_ratio: float) -> "Seen":
        looks = self.looks + 1
        return Seen(looks, self.mean + (log_ratio - self.mean) / looks)

    @property
    def variance(self) -> float:
        """Of the mean around what the cluster has in common: the job's own amount and noise."""
        return JOB_DOUBT**2 + NOISE**2 / self.looks

    @property
    def trust(self) -> float:
        """The share of what the job shows beyond the cluster that is the job's, not noise."""
        return JOB_DOUBT**2 / self.variance


@dataclass(frozen=True, slots=True)
class Common:
    """What all jobs of a cluster tell of a family, as certainty and as certainty times mean."""

    certainty: float = CLUSTER_DOUBT**-2
    weight: float = 0.0

    def with_job(self, before: Seen | None, after: Seen) -> "Common":
        """A job's say is replaced by what it says now."""
        certainty, weight = self.certainty, self.weight
        if before is not None:
            certainty -= 1.0 / before.variance
            weight -= before.mean / before.variance
        return Common(certainty + 1.0 / after.variance, weight + after.mean / after.variance)

    @property
    def mean(self) -> float:
        return self.weight / self.certainty


@dataclass(frozen=True, slots=True)
class Correction:
    """What a forecast is to be multiplied with, and the doubt that is left in its logarithm."""

    factor: float
    doubt: float


def corrected(forecast: StepForecast, by: Correction) -> StepForecast:
    """A forecast as it is believed after what was learnt, its interval around it."""
    return StepForecast(
        forecast.seconds * by.factor, forecast.low * by.factor, forecast.high * by.factor
    )


@dataclass(frozen=True, slots=True)
class Corrections:
    """All that was learnt; a new value after each measurement."""

    cluster: Mapping[Family, Common] = field(default_factory=lambda: MappingProxyType({}))
    jobs: Mapping[tuple[JobId, Family], Seen] = field(default_factory=lambda: MappingProxyType({}))

    def of(self, job: JobId, plan: ExecutionPlan) -> Correction:
        """What is known of this job, or of jobs like it: exact, since all amounts are normal."""
        family = family_of(plan)
        common = self.cluster.get(family, Common())
        seen = self.jobs.get((job, family))
        trust = seen.trust if seen else 0.0
        mean = (1.0 - trust) * common.mean + (trust * seen.mean if seen else 0.0)
        variance = (1.0 - trust) ** 2 / common.certainty + (1.0 - trust) * JOB_DOUBT**2
        return Correction(math.exp(mean), math.sqrt(variance))

    def learnt(
        self,
        job: JobId,
        plan: ExecutionPlan,
        *,
        foretold_seconds: float,
        measured_seconds: float,
        steps: int,
    ) -> "Corrections":
        """After so many steps that took so long each, where so much was foretold uncorrected."""
        if steps < LEAST_STEPS or not 0.0 < measured_seconds < math.inf:
            return self
        family = family_of(plan)
        ratio = min(max(measured_seconds / foretold_seconds, 1.0 / MOST_RATIO), MOST_RATIO)
        before = self.jobs.get((job, family))
        after = (before or Seen()).and_also(math.log(ratio))
        common = self.cluster.get(family, Common()).with_job(before, after)
        return replace(
            self,
            cluster={**self.cluster, family: common},
            jobs={**self.jobs, (job, family): after},
        )

    def without(self, job: JobId) -> "Corrections":
        """When a job is over; what the cluster has learnt of it stays."""
        return replace(self, jobs={key: one for key, one in self.jobs.items() if key[0] != job})
