"""One run in numbers: how long jobs took, how long they waited and for what, and who got how much.

Slowdown is the time from submission to end over the service a job needs by itself. Jobs shorter
than ten seconds count as ten (the *bounded* slowdown of the scheduling literature), since a
one-second job that waits for a minute would otherwise outweigh a hundred that were served well.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from weft.model.reason import CAUSES
from weft.sim.record import JobRecord, Record

SCHEMA = "weft-summary/1"
SHORTEST_SERVICE_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantSummary:
    """What one tenant got: `share` is its part of all GPU time that was used."""

    tenant: str
    jobs: int
    mean_jct_seconds: float
    mean_slowdown: float
    gpu_hours: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Foretold:
    """How good predictions were: `coverage` is how often an 80 % interval held the truth."""

    what: str
    count: int
    coverage: float
    median_error: float
    p90_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """The numbers that people compare. Times are of jobs that ended; others are `unfinished`."""

    schema: str = SCHEMA
    recipe: str
    workload: str
    cluster: str
    seed: int
    costs: str
    jobs: int
    finished: int
    failed: int
    unfinished: int
    mean_jct_seconds: float
    median_jct_seconds: float
    p95_jct_seconds: float
    p99_jct_seconds: float
    mean_start_delay_seconds: float
    p95_start_delay_seconds: float
    mean_slowdown: float
    makespan_seconds: float
    utilisation: float
    utilisation_while_arriving: float
    preemptions_per_job: float
    resizes_per_job: float
    foretold: tuple[Foretold, ...]
    waits_seconds: dict[str, float]
    tenants: tuple[TenantSummary, ...]
    jain_index: float
    events: int
    rounds: int
    wall_seconds: float
    journal_hash: str

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """What the run was of, in the words of the person who asked for it."""

    recipe: str
    workload: str
    cluster: str
    costs: str


def summarise(record: Record, labels: Labels, *, wall_seconds: float) -> Summary:
    """The whole run as one value."""
    lines = list(record.jobs.values())
    ended = [line for line in lines if line.ended is not None]
    jcts = [line.jct_seconds or 0.0 for line in ended]
    delays = [d for line in lines if (d := line.start_delay_seconds) is not None]
    makespan = _makespan(ended)
    used = sum(line.attained_gpu_seconds for line in lines)
    capacity = record.total_gpus * makespan
    tenants = _tenants(ended, used)
    return Summary(
        recipe=labels.recipe,
        workload=labels.workload,
        cluster=labels.cluster,
        seed=record.seed,
        costs=labels.costs,
        jobs=len(lines),
        finished=sum(line.outcome == "succeeded" for line in lines),
        failed=sum(line.outcome == "failed" for line in lines),
        unfinished=len(lines) - len(ended),
        mean_jct_seconds=_mean(jcts),
        median_jct_seconds=quantile(jcts, 0.5),
        p95_jct_seconds=quantile(jcts, 0.95),
        p99_jct_seconds=quantile(jcts, 0.99),
        mean_start_delay_seconds=_mean(delays),
        p95_start_delay_seconds=quantile(delays, 0.95),
        mean_slowdown=_mean([slowdown(line) for line in ended]),
        makespan_seconds=makespan,
        utilisation=used / capacity if capacity else 0.0,
        utilisation_while_arriving=_while_arriving(record),
        preemptions_per_job=sum(line.preemptions for line in lines) / max(len(lines), 1),
        resizes_per_job=sum(line.resizes for line in lines) / max(len(lines), 1),
        foretold=_foretold(record),
        waits_seconds=total_waits(lines),
        tenants=tenants,
        jain_index=jain([tenant.mean_slowdown for tenant in tenants]),
        events=record.events,
        rounds=record.rounds,
        wall_seconds=wall_seconds,
        journal_hash=record.journal_hash,
    )


def slowdown(line: JobRecord) -> float:
    """Time in the system over service needed, of a job that ended."""
    taken = line.jct_seconds or 0.0
    return max(taken / max(line.service_seconds, SHORTEST_SERVICE_SECONDS), 1.0)


def total_waits(lines: Sequence[JobRecord]) -> dict[str, float]:
    """Seconds waited by cause, over these jobs."""
    booked = [line.waits_seconds for line in lines if line.waits_seconds]
    totals = np.sum(booked, axis=0).tolist() if booked else [0.0] * len(CAUSES)
    return {cause.label: total for cause, total in zip(CAUSES, totals, strict=True)}


def jain(values: Sequence[float]) -> float:
    """Jain's index: 1 where all fare alike, 1/n where one has it all."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else 1.0


def quantile(values: Sequence[float], share: float) -> float:
    return float(np.quantile(values, share)) if values else 0.0


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _makespan(ended: Sequence[JobRecord]) -> float:
    """From the first submission to the last end."""
    if not ended:
        return 0.0
    last = max(line.ended or 0.0 for line in ended)
    return last - min(line.submitted for line in ended)


def _while_arriving(record: Record) -> float:
    """GPUs in use from the first submission to the last, of all.

    Over the whole time a run's last long job, alone on the cluster, would make every recipe look
    idle; people who run clusters want to know how full it is while work keeps coming.
    """
    submits = [line.submitted for line in record.jobs.values()]
    if not record.times or not submits or not record.total_gpus:
        return 0.0
    begin, end = min(submits), max(submits)
    edges = np.clip(np.append(record.times, max(record.times[-1], end)), begin, end)
    used = float((np.diff(edges) * np.array(record.used_gpus)).sum())
    return used / (record.total_gpus * (end - begin)) if end > begin else 0.0


def _foretold(record: Record) -> tuple[Foretold, ...]:
    """Speeds at widths that were measured later, and totals of jobs that ended later."""
    kinds = (("speed at a new width", record.curve_scores), ("total work", record.work_scores))
    return tuple(
        Foretold(
            what=what,
            count=scores.count,
            coverage=scores.coverage or 0.0,
            median_error=scores.median_error or 0.0,
            p90_error=scores.p90_error or 0.0,
        )
        for what, scores in kinds
        if scores.count
    )


def _tenants(ended: Sequence[JobRecord], used: float) -> tuple[TenantSummary, ...]:
    by_tenant: dict[str, list[JobRecord]] = {}
    for line in ended:
        by_tenant.setdefault(line.tenant, []).append(line)
    return tuple(_tenant(name, by_tenant[name], used) for name in sorted(by_tenant))


def _tenant(name: str, lines: Sequence[JobRecord], used: float) -> TenantSummary:
    attained = sum(line.attained_gpu_seconds for line in lines)
    return TenantSummary(
        tenant=name,
        jobs=len(lines),
        mean_jct_seconds=_mean([line.jct_seconds or 0.0 for line in lines]),
        mean_slowdown=_mean([slowdown(line) for line in lines]),
        gpu_hours=attained / 3600.0,
        share=attained / used if used else 0.0,
    )
