"""Rubick's workloads as jobs: requests with a claimed shape and seven points, and their truths.

Others of the same models are drawn from them for choosing parameters: the same jobs in another
order, each with a length drawn from those of its model.
"""

import csv
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.plans.steps import MeasuredSteps, table
from benchmarks.plans.tables import CORES, WORKS, plan_of
from benchmarks.plans.time import foretold
from weft.model.capability import Capability
from weft.model.claim import ClaimSource, PlanClaim, StepPoint
from weft.model.cluster import Cluster, Gpu, Node
from weft.model.ids import GpuType, JobId, NodeId, TenantId
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Width, WorkUnit
from weft.model.truth import Work
from weft.perf.plans.options import counted

GPUS, NODE_GPUS = 64, 8
OFFERED = (
    *(Capability.DATA, Capability.ZERO2, Capability.RECOMPUTE, Capability.OFFLOAD),
    *(Capability.TENSOR, Capability.PIPELINE),
)


@dataclass(frozen=True, slots=True)
class Line:
    """One job of a workload file."""

    name: str
    submit_seconds: float
    model: str
    gpus: int
    plan: str
    steps: int
    guaranteed: bool

    @property
    def tenant(self) -> TenantId:
        return TenantId("guaranteed" if self.guaranteed else "best-effort")


def lines(traces: Path, name: str) -> list[Line]:
    """`base`, `bp` or `mt`."""
    with (traces / "rubick" / "workloads" / f"workload-{name}.csv").open() as rows:
        return [
            Line(
                row["name"],
                float(row["submission_time"]),
                row["application"],
                int(row["num_gpus"]),
                row["exec_plan"],
                int(row["steps"]),
                row["is_sla"] == "1",
            )
            for row in csv.DictReader(rows)
        ]


def drawn(traces: Path, name: str, seed: int) -> list[Line]:
    """Another workload of the same kind: jobs, gaps and lengths each in another order."""
    given, chance = lines(traces, name), np.random.default_rng(seed)
    gaps = np.diff([0.0, *(line.submit_seconds for line in given)])
    at = np.cumsum(chance.permutation(gaps))
    seconds = defaultdict(list)
    for line in given:
        seconds[line.model].append(line.steps / speed(traces, line))
    return [
        replace(
            line,
            name=f"{line.model}-{number}",
            submit_seconds=float(at[number]),
            steps=max(1, int(chance.choice(seconds[line.model]) * speed(traces, line))),
        )
        for number, line in enumerate(given[row] for row in chance.permutation(len(given)))
    ]


def speed(traces: Path, line: Line) -> float:
    """Steps per second of what was asked for."""
    own = table(traces, line.model)
    return MeasuredSteps(own, plan_of(line.plan)).as_asked(line.gpus) / own.batch


def jobs(traces: Path, given: list[Line], *, tell_work: bool = False) -> list[Job]:
    return [_job(traces, line, tell_work) for line in given]


def cluster() -> Cluster:
    """Eight nodes of eight A800."""
    return Cluster(nodes(GPUS))


def nodes(gpus: int) -> tuple[Node, ...]:
    """So many GPUs on nodes of eight."""
    return tuple(
        Node(
            id=NodeId(f"n{number}"),
            gpus=NODE_GPUS,
            gpu=Gpu(GpuType("A800"), memory_gib=80.0),
            cpus=96.0,
            memory_gib=1600.0,
        )
        for number in range(gpus // NODE_GPUS)
    )


def _job(traces: Path, line: Line, tell_work: bool) -> Job:
    own, submitted = table(traces, line.model), plan_of(line.plan)
    first = counted(submitted, line.gpus)
    return Job.told(
        id=JobId(line.name),
        width=Width(1, GPUS, line.gpus),
        work=Work(line.steps * own.batch, WorkUnit.SAMPLES),
        steps=MeasuredSteps(own, submitted),
        tell_work=tell_work,
        submit_seconds=line.submit_seconds,
        tenant=line.tenant,
        cpus_per_gpu=CORES,
        locality=INDIFFERENT,
        plans=(first, *(plan for plan in own.plans if plan != first)),
        splits=claim(traces, line.model),
        guaranteed=line.guaranteed,
        model=line.model,
    )


@lru_cache(maxsize=16)
def claim(traces: Path, model: str) -> PlanClaim:
    """The shape, and the seven steps that were measured beforehand."""
    known, work = foretold(traces, model), WORKS[model]
    points = (known.rows[row] for row in known.chosen)
    return PlanClaim(
        work.shape,
        work.batch,
        OFFERED,
        tuple(
            StepPoint(counted(row.plan, row.gpus), row.counts, CORES, row.seconds) for row in points
        ),
        ClaimSource.TRACE,
    )
