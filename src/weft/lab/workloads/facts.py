"""What a workload holds, in the numbers that studies of clusters give."""

from dataclasses import asdict, dataclass

import numpy as np

from weft.lab.workloads.size_class import NAMES, size_class
from weft.model.job import Job
from weft.trace.workload import Workload

SCHEMA = "weft-workload/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeFacts:
    """Jobs of one class of width."""

    gpus: str
    jobs: int
    jobs_share: float
    gpu_time_share: float
    median_seconds: float
    p90_seconds: float
    longest_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFacts:
    """What a history holds of the real cluster; a simulation does not follow it."""

    users: int
    partitions: tuple[str, ...]
    gpu_types: tuple[str, ...]
    waits: int
    median_wait_seconds: float | None
    p90_wait_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The whole workload."""

    schema: str = SCHEMA
    name: str
    source: str
    jobs: int
    tenants: int
    span_seconds: float
    gpu_hours: float
    sizes: tuple[SizeFacts, ...]
    recorded: RecordedFacts
    notes: tuple[str, ...]
    faults: dict[str, int]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


def facts_of(workload: Workload) -> Facts:
    """Counted over all jobs."""
    by_class: dict[str, list[Job]] = {}
    for job in workload.jobs:
        by_class.setdefault(size_class(job.width.asked_gpus), []).append(job)
    total = sum(_gpu_seconds(job) for job in workload.jobs)
    faults: dict[str, int] = {}
    for fault in workload.faults:
        faults[fault.severity.value] = faults.get(fault.severity.value, 0) + 1
    return Facts(
        name=workload.name,
        source=workload.source,
        jobs=len(workload.jobs),
        tenants=len({job.tenant for job in workload.jobs}),
        span_seconds=workload.span_seconds,
        gpu_hours=total / 3600.0,
        sizes=tuple(
            _size_facts(name, by_class[name], len(workload.jobs), total)
            for name in NAMES
            if name in by_class
        ),
        recorded=_recorded_facts(workload),
        notes=workload.notes,
        faults=faults,
    )


def _size_facts(name: str, jobs: list[Job], all_jobs: int, total: float) -> SizeFacts:
    seconds = [job.truth.seconds_as_asked for job in jobs]
    own = sum(_gpu_seconds(job) for job in jobs)
    median, p90, longest = np.quantile(seconds, [0.5, 0.9, 1.0]).tolist()
    return SizeFacts(
        gpus=name,
        jobs=len(jobs),
        jobs_share=len(jobs) / all_jobs,
        gpu_time_share=own / total if total else 0.0,
        median_seconds=median,
        p90_seconds=p90,
        longest_seconds=longest,
    )


def _recorded_facts(workload: Workload) -> RecordedFacts:
    told = workload.recorded.values()
    waits = [one.queue_seconds for one in told if one.queue_seconds is not None]
    median, p90 = np.quantile(waits, [0.5, 0.9]).tolist() if waits else (None, None)
    types = {kind for one in told for kind in one.allocated_gpu_types.split("|")}
    return RecordedFacts(
        users=len({one.user for one in told} - {""}),
        partitions=tuple(sorted({one.partition for one in told} - {""})),
        gpu_types=tuple(sorted(types - {""})),
        waits=len(waits),
        median_wait_seconds=median,
        p90_wait_seconds=p90,
    )


def _gpu_seconds(job: Job) -> float:
    return job.truth.seconds_as_asked * job.width.asked_gpus
