"""A generator of workloads that are like a given mix: sizes, durations, tenants and bursts.

Everything is drawn from one seeded generator in a fixed order, so a seed names a workload: same
seed, same bytes. Times and durations are whole seconds, as in the traces. What it leaves out: jobs
of one sweep last independently of each other (in Philly they are alike), and nothing fails.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from weft.model.errors import SpecError
from weft.model.ids import JobId, TenantId
from weft.model.job import Job
from weft.model.request import Width
from weft.model.truth import Work
from weft.trace.mix import Mix, SizeClass, TenantMix
from weft.trace.philly_mix import PHILLY
from weft.trace.workload import Workload

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HOUR = 3600.0
DAY = 86_400.0
# The surge of the rate keeps nine tenths of itself from one hour to the next.
SURGE_MEMORY = 0.9


def generate(
    *,
    jobs: int,
    seed: int | np.random.Generator,
    mix: Mix = PHILLY,
    days: float | None = None,
    load: float | None = None,
    gpus: int | None = None,
) -> Workload:
    """`jobs` jobs like the mix, spread over `days`, or so that they are `load` on `gpus` GPUs.

    Without either they come at the mix's own rate. No job is wider than `gpus` where given. A
    sweep that begins before the end runs on beyond it.
    """
    _check(jobs, days=days, load=load, gpus=gpus)
    fitting = _up_to(mix, gpus) if gpus is not None else mix
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(jobs, _shares([tenant.share for tenant in fitting.tenants]))
    widths, seconds = _bodies(fitting, counts, rng)
    span = _span(fitting, widths * seconds, days=days, capacity=(load or 0.0) * (gpus or 0))
    submits = draw_submits(fitting, counts, span, rng)
    tenants = np.repeat([tenant.name for tenant in fitting.tenants], counts)
    return Workload(
        name=f"{mix.name}-{jobs}" + (f"-seed{seed}" if isinstance(seed, int) else ""),
        jobs=_jobs(tenants, widths, seconds, submits),
        source="generated",
        notes=(f"{jobs} jobs like '{mix.name}' over {span / DAY:.2f} days",),
    )


def draw_submits(mix: Mix, counts: Ints, span: float, rng: np.random.Generator) -> Floats:
    """When every job comes, tenant after tenant: sweeps begin where the rate is high."""
    edges = np.minimum(np.arange(int(np.ceil(span / HOUR)) + 1) * HOUR, span)
    mass = np.concatenate([[0.0], np.cumsum(_rates(mix, len(edges) - 1, rng) * np.diff(edges))])
    submits = []
    for tenant, count in zip(mix.tenants, counts, strict=True):
        sizes = _sweep_sizes(tenant, int(count), rng)
        starts = np.interp(rng.random(len(sizes)) * mass[-1], mass, edges)
        gaps = rng.standard_exponential(int(count)) * tenant.gap_seconds
        submits.append(np.floor(np.repeat(starts, sizes) + _since_first(gaps, sizes)))
    return np.concatenate(submits)


def draw_seconds(
    size_class: SizeClass, count: int, longest_seconds: float, rng: np.random.Generator
) -> Floats:
    """Durations of a class in whole seconds of at least 1; those too long are drawn again."""
    shares = np.array([hump.share for hump in size_class.durations])
    medians = np.array([hump.median_seconds for hump in size_class.durations])
    sigmas = np.array([hump.sigma for hump in size_class.durations])
    seconds = np.full(count, np.inf)
    while (undrawn := np.flatnonzero(seconds > longest_seconds)).size:
        hump = rng.choice(len(shares), size=undrawn.size, p=shares / shares.sum())
        draws = rng.standard_normal(undrawn.size)
        seconds[undrawn] = np.maximum(np.rint(medians[hump] * np.exp(sigmas[hump] * draws)), 1.0)
    return seconds


def _check(jobs: int, *, days: float | None, load: float | None, gpus: int | None) -> None:
    if jobs < 1:
        raise SpecError(f"{jobs} jobs are no workload", hint="ask for at least one")
    if days is not None and load is not None:
        raise SpecError("days and load say two things about one rate", hint="give one of them")
    if load is not None and gpus is None:
        raise SpecError("a load needs GPUs to be a load on", hint="give gpus as well")
    for name, value in (("days", days), ("load", load), ("gpus", gpus)):
        if value is not None and not 0 < value < float("inf"):
            raise SpecError(f"{name} is {value}", hint="give a number above 0")


def _up_to(mix: Mix, gpus: int) -> Mix:
    """The mix without what is wider than `gpus`; other shares keep their proportions."""
    kept = [index for index, size in enumerate(mix.classes) if size.least_gpus <= gpus]
    tenants = tuple(
        replace(tenant, class_shares=tuple(tenant.class_shares[index] for index in kept))
        for tenant in mix.tenants
        if any(tenant.class_shares[index] > 0 for index in kept)
    )
    if not tenants:
        raise SpecError(f"no job of '{mix.name}' fits {gpus} GPUs", hint="give more GPUs")
    classes = tuple(
        replace(size, widths=tuple(width for width in size.widths if width[0] <= gpus))
        for size in (mix.classes[index] for index in kept)
    )
    return replace(mix, classes=classes, tenants=tenants)


def _shares(weights: Sequence[float]) -> Floats:
    shares: Floats = np.array(weights, dtype=np.float64)
    shares /= shares.sum()
    return shares


def _bodies(mix: Mix, counts: Ints, rng: np.random.Generator) -> tuple[Ints, Floats]:
    """Width and duration of every job, tenant after tenant."""
    chosen = [
        rng.choice(len(mix.classes), size=count, p=_shares(tenant.class_shares))
        for tenant, count in zip(mix.tenants, counts, strict=True)
    ]
    size_of = np.concatenate(chosen)
    widths = np.zeros(len(size_of), dtype=np.int64)
    seconds = np.zeros(len(size_of))
    for index, size in enumerate(mix.classes):
        mine = np.flatnonzero(size_of == index)
        shares = _shares([share for _, share in size.widths])
        widths[mine] = rng.choice([gpus for gpus, _ in size.widths], size=mine.size, p=shares)
        seconds[mine] = draw_seconds(size, mine.size, mix.longest_seconds, rng)
    return widths, seconds


def _span(mix: Mix, gpu_seconds: Floats, *, days: float | None, capacity: float) -> float:
    if days is not None:
        return days * DAY
    if capacity > 0:
        return float(gpu_seconds.sum()) / capacity
    return len(gpu_seconds) / mix.jobs_per_hour * HOUR


def _rates(mix: Mix, hours: int, rng: np.random.Generator) -> Floats:
    """Relative rate of every hour: the day's swing times the surge."""
    swing = 1 + mix.daily_swing * np.cos(
        2 * np.pi * (np.arange(hours) + 0.5 - mix.peak_hour) * HOUR / DAY
    )
    fresh = rng.standard_normal(hours)
    fresh[1:] *= np.sqrt(1 - SURGE_MEMORY**2)
    surge = fresh.copy()
    for hour in range(1, hours):
        surge[hour] += SURGE_MEMORY * surge[hour - 1]
    rates: Floats = swing * np.exp(mix.surge_sigma * surge)
    return rates


def _sweep_sizes(tenant: TenantMix, jobs: int, rng: np.random.Generator) -> Ints:
    """Sizes that add up to `jobs`; each listed size brings an equal part of them."""
    listed = np.array(tenant.sweep_jobs)
    chance = _shares([1.0 / size for size in tenant.sweep_jobs])
    batch = int(jobs / (chance @ listed)) + len(listed)
    sizes = np.zeros(0, dtype=np.int64)
    while sizes.sum() < jobs:
        sizes = np.concatenate([sizes, rng.choice(listed, size=batch, p=chance)])
    before = np.cumsum(sizes) - sizes
    wanted: Ints = np.minimum(sizes, jobs - before)
    return wanted[before < jobs]


def _since_first(gaps: Floats, sizes: Ints) -> Floats:
    """Time since the first job of the own sweep; a gap lies before each job but the first."""
    run = np.cumsum(gaps)
    firsts = np.cumsum(sizes) - sizes
    since: Floats = run - np.repeat(run[firsts], sizes)
    return since


def _jobs(
    tenants: NDArray[np.str_], widths: Ints, seconds: Floats, submits: Floats
) -> tuple[Job, ...]:
    digits = len(str(len(submits) - 1))
    fixed = {int(gpus): Width.fixed(int(gpus)) for gpus in np.unique(widths)}
    order = np.argsort(submits, kind="stable")
    columns = (tenants[order], widths[order], seconds[order], submits[order])
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(
        Job.told(
            id=JobId(f"job-{number:0{digits}d}"),
            width=fixed[gpus],
            work=Work(duration),
            submit_seconds=submit,
            tenant=TenantId(tenant),
        )
        for number, (tenant, gpus, duration, submit) in enumerate(rows)
    )
