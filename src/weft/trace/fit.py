"""Fitting a mix to a history of jobs, so that its like can be generated in any amount.

Durations of a size class are a mixture of lognormals, found by expectation-maximisation from
equal parts of the sorted durations: the same history gives the same mix. A sweep is a run of one
tenant's submissions no more than two minutes apart. The hourly variance that the fitted sweeps and
days do not make by themselves is booked to the surge of the rate.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import SpecError
from weft.model.job import Job
from weft.model.request import WorkUnit
from weft.trace.generator import draw_submits
from weft.trace.mix import Lognormal, Mix, SizeClass, TenantMix
from weft.trace.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# Philly's classes of size: 1, 2–4, 5–8 and more than 8 GPUs.
PHILLY_EDGES = (1, 2, 5, 9)
HUMPS = 4
ROUNDS = 300
LEAST_SIGMA = 0.1
SWEEP_GAP_SECONDS = 120.0
SWEEP_PARTS = 8
LEAST_JOBS = 30
DRAWS = 8
HOUR = 3600.0
DAY = 86_400.0


def fit(workload: Workload, *, edges: Sequence[int] = PHILLY_EDGES, humps: int = HUMPS) -> Mix:
    """The mix of a history; `edges` are the smallest widths of each class of size."""
    jobs = [job for job in workload.jobs if _usable(job)]
    if len(jobs) < LEAST_JOBS:
        raise SpecError(
            f"{len(jobs)} jobs with GPUs and seconds of work are too few to fit a mix",
            hint=f"give a history of at least {LEAST_JOBS}",
        )
    gpus = np.array([job.width.asked_gpus for job in jobs])
    seconds = np.array([job.work.amount for job in jobs])
    submits = np.array([job.submit_seconds for job in jobs])
    bounds = [*(edge for edge in edges if (gpus >= edge).any()), int(gpus.max()) + 1]
    inside = [(gpus >= low) & (gpus < high) for low, high in pairwise(bounds)]
    inside = [mask for mask in inside if mask.any()]
    swing, peak = _daily(submits)
    hours = max((submits[-1] - submits[0]) / HOUR, 1.0)
    mix = Mix(
        name=workload.name,
        classes=tuple(_size_class(gpus[mask], seconds[mask], humps) for mask in inside),
        tenants=_tenants(jobs, submits, np.array(inside)),
        jobs_per_hour=len(jobs) / hours,
        daily_swing=swing,
        peak_hour=peak,
        longest_seconds=max(float(seconds.max()), 1.0),
    )
    return _with_surge(mix, submits)


def fit_lognormals(seconds: Floats, humps: int = HUMPS) -> tuple[Lognormal, ...]:
    """Expectation-maximisation on log seconds; equal durations are weighted, not repeated."""
    distinct, counts = np.unique(np.maximum(seconds, 1.0), return_counts=True)
    logs, weights = np.log(distinct), counts / counts.sum()
    humps = min(humps, len(distinct))
    part = np.minimum((np.cumsum(weights) * humps).astype(np.int64), humps - 1)
    belongs = (part[:, None] == np.arange(humps)).astype(np.float64)
    belongs = belongs[:, belongs.any(axis=0)]
    shares, means, sigmas = _moments(logs, weights, belongs)
    for _ in range(ROUNDS):
        score = np.log(shares) - np.log(sigmas) - 0.5 * ((logs[:, None] - means) / sigmas) ** 2
        belongs = np.exp(score - score.max(axis=1, keepdims=True))
        belongs /= belongs.sum(axis=1, keepdims=True)
        shares, means, sigmas = _moments(logs, weights, belongs)
    return tuple(
        Lognormal(float(share), float(np.exp(mean)), float(sigma))
        for share, mean, sigma in zip(shares, means, sigmas, strict=True)
    )


def _usable(job: Job) -> bool:
    return job.width.asked_gpus > 0 and job.work.unit is WorkUnit.SECONDS


def _moments(logs: Floats, weights: Floats, belongs: Floats) -> tuple[Floats, Floats, Floats]:
    mass = belongs * weights[:, None]
    shares = np.maximum(mass.sum(axis=0), 1e-12)
    means = (mass * logs[:, None]).sum(axis=0) / shares
    spread = (mass * (logs[:, None] - means) ** 2).sum(axis=0) / shares
    return shares, means, np.maximum(np.sqrt(spread), LEAST_SIGMA)


def _size_class(gpus: Ints, seconds: Floats, humps: int) -> SizeClass:
    widths, counts = np.unique(gpus, return_counts=True)
    shares = counts / counts.sum()
    return SizeClass(
        tuple((int(width), float(share)) for width, share in zip(widths, shares, strict=True)),
        fit_lognormals(seconds, humps),
    )


def _daily(submits: Floats) -> tuple[float, float]:
    """Strength and hour of the daily swing: the first harmonic of the times of day."""
    turn = np.exp(2j * np.pi * (submits % DAY) / DAY).mean()
    return min(2.0 * abs(complex(turn)), 1.0), float(np.angle(turn) / (2 * np.pi) * 24 % 24)


def _tenants(
    jobs: Sequence[Job], submits: Floats, inside: NDArray[np.bool_]
) -> tuple[TenantMix, ...]:
    """Tenants by jobs, without those too small to know; all of them where all are small."""
    names = np.array([job.tenant for job in jobs])
    by_jobs = Counter(names.tolist()).most_common()
    large = [name for name, count in by_jobs if count >= LEAST_JOBS] or [
        name for name, _ in by_jobs
    ]
    total = int(np.isin(names, large).sum())
    return tuple(
        _tenant(name, submits[names == name], inside[:, names == name], total) for name in large
    )


def _tenant(name: str, submits: Floats, inside: NDArray[np.bool_], total: int) -> TenantMix:
    sizes, gaps = _sweeps(submits)
    by_job = np.sort(np.repeat(sizes, sizes))
    parts = np.array_split(by_job, min(SWEEP_PARTS, len(by_job)))
    return TenantMix(
        name=name,
        share=len(submits) / total,
        class_shares=tuple(float(share) for share in inside.mean(axis=1)),
        sweep_jobs=tuple(max(1, round(float(part.mean()))) for part in parts),
        gap_seconds=float(gaps.mean()) if len(gaps) else 0.0,
    )


def _sweeps(submits: Floats) -> tuple[Ints, Floats]:
    """Sizes of the sweeps in a tenant's submissions, and the gaps within them."""
    gaps = np.diff(submits)
    starts = np.flatnonzero(np.concatenate([[True], gaps > SWEEP_GAP_SECONDS]))
    return np.diff(np.append(starts, len(submits))), gaps[gaps <= SWEEP_GAP_SECONDS]


def _with_surge(mix: Mix, submits: Floats) -> Mix:
    """The mix with the surge of the rate that explains what its sweeps and days do not."""
    span = max(float(submits[-1] - submits[0]), HOUR)
    shares = np.array([tenant.share for tenant in mix.tenants])
    counts = np.rint(shares / shares.sum() * len(submits)).astype(np.int64)
    rng = np.random.default_rng(0)
    even = [dispersion(draw_submits(mix, counts, span, rng)) for _ in range(DRAWS)]
    excess = (dispersion(submits) - float(np.mean(even))) / mix.jobs_per_hour
    return replace(mix, surge_sigma=math.sqrt(math.log1p(max(excess, 0.0))))


def dispersion(submits: Floats) -> float:
    """Variance over mean of submissions per hour."""
    counts = np.bincount(((submits - submits.min()) // HOUR).astype(np.int64))
    return float(counts.var() / counts.mean())
