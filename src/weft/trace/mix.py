"""A mix: what a cluster's jobs are like, in numbers that a generator can draw from.

Jobs fall into classes of size with durations of their own, because that is what decides a
schedule: in Philly 93 % of the jobs have one GPU and 18 % of the GPU time. A tenant is a way of
submitting: how many of the jobs, in which classes, and in sweeps of how many at once.
"""

from dataclasses import dataclass

from weft.model.errors import SpecError


@dataclass(frozen=True, slots=True)
class Lognormal:
    """One hump of durations: its share of the class, its median and its width in log seconds."""

    share: float
    median_seconds: float
    sigma: float


@dataclass(frozen=True, slots=True)
class SizeClass:
    """Jobs alike in size: widths with their shares, and humps that make up their durations."""

    widths: tuple[tuple[int, float], ...]
    durations: tuple[Lognormal, ...]

    @property
    def least_gpus(self) -> int:
        return min(gpus for gpus, _ in self.widths)


@dataclass(frozen=True, slots=True)
class TenantMix:
    """A tenant: its share of all jobs, their shares by class, and its sweeps.

    `sweep_jobs` are sweep sizes that each bring an equal part of the tenant's jobs; within a
    sweep a job follows the last after `gap_seconds` on average.
    """

    name: str
    share: float
    class_shares: tuple[float, ...]
    sweep_jobs: tuple[int, ...] = (1,)
    gap_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Mix:
    """Classes, tenants and arrivals.

    Sweeps arrive at a rate that swings by `daily_swing` around `peak_hour` and drifts by
    `surge_sigma` (log rate, forgotten over ten hours): quiet days and busy ones.
    """

    name: str
    classes: tuple[SizeClass, ...]
    tenants: tuple[TenantMix, ...]
    jobs_per_hour: float
    daily_swing: float = 0.0
    peak_hour: float = 0.0
    surge_sigma: float = 0.0
    longest_seconds: float = 50 * 86_400.0

    def __post_init__(self) -> None:
        for tenant in self.tenants:
            if len(tenant.class_shares) != len(self.classes):
                raise SpecError(
                    f"tenant {tenant.name} has shares in {len(tenant.class_shares)} classes",
                    hint=f"give one share for each of the {len(self.classes)} classes",
                )
        for size in self.classes:
            shortest = min(hump.median_seconds for hump in size.durations)
            if round(shortest) > self.longest_seconds:
                raise SpecError(
                    f"jobs of {size.least_gpus} GPUs last {shortest:.0f} s at the median",
                    hint="raise longest_seconds above every class's shortest median",
                )
