"""Workloads for elastic schedulers: recorded or generated jobs, each with a curve over widths.

A recorded job tells how long it ran on how many GPUs and nothing of how it scales. The AFS authors
therefore gave every traced job one of nine measured models whose largest useful width holds the
traced one, and as much work as makes it last as long as recorded at the recorded width. Here the
model follows from a checksum of the job's name, so that everybody gets the same jobs.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from zlib import crc32

from benchmarks.elastic.scaling import invented_curves
from weft.model.cluster import Cluster
from weft.model.curve import Curve
from weft.model.job import Job
from weft.model.request import INDIFFERENT, Locality, Width, WorkUnit
from weft.model.truth import Work
from weft.trace.generator import generate
from weft.trace.readers import read

NODE_GPUS = 8
PHILLY_JOBS = Path("jobs", "philly_pollux.csv.gz")
AFS_CURVES = Path("afs", "curves.csv")


@dataclass(frozen=True, slots=True)
class Given:
    """Jobs and the machines for them."""

    cluster: Cluster
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class VirtualCluster:
    """A tenant of Philly with the GPUs that the reference replay gives it, and its job count."""

    tenant: str
    gpus: int
    jobs: int


VIRTUAL_CLUSTERS = (
    VirtualCluster("0e4a51", 100, 1435),
    VirtualCluster("ed69ec", 60, 1137),
    VirtualCluster("103959", 60, 1934),
    VirtualCluster("ee9e8c", 128, 1502),
    VirtualCluster("7f04ca", 64, 723),
)


SHORT_TENANTS = ("ed69ec", "7f04ca")
"""The two that take least time."""


def virtual_clusters(*, short: bool = False) -> tuple[VirtualCluster, ...]:
    """All five, or those of a short run."""
    return tuple(c for c in VIRTUAL_CLUSTERS if not short or c.tenant in SHORT_TENANTS)


def on_one_node(seed: int, *, traces: Path, cluster: VirtualCluster) -> Given:
    """The reference replay: no placement effects. Seed 0 deals the models as it does."""
    jobs = virtual_cluster(traces, cluster.tenant, salt=str(seed or ""))
    return Given(Cluster.uniform(1, cluster.gpus), jobs)


def on_nodes(
    seed: int, *, traces: Path, cluster: VirtualCluster, node_gpus: int = NODE_GPUS
) -> Given:
    """The same jobs on whole nodes, where being spread costs what it costs in Philly."""
    jobs = virtual_cluster(traces, cluster.tenant, salt=str(seed or ""), locality=Locality())
    return Given(nodes_of(cluster.gpus, node_gpus), jobs)


def generated(seed: int, *, load: float, jobs: int, gpus: int, node_gpus: int = NODE_GPUS) -> Given:
    """Jobs like Philly's at that load, with invented models; needs no traces."""
    drawn = generate(jobs=jobs, seed=seed, load=load, gpus=gpus)
    dealt = with_curves(drawn.jobs, invented_curves(), salt=str(seed), locality=Locality())
    return Given(nodes_of(gpus, node_gpus), dealt)


def virtual_cluster(
    traces: Path, tenant: str, *, salt: str = "", locality: Locality = INDIFFERENT
) -> tuple[Job, ...]:
    """One tenant's jobs with curves; another `salt` deals the models anew."""
    jobs = [job for job in philly(traces) if job.tenant == tenant]
    return with_curves(jobs, afs_curves(traces), salt=salt, locality=locality)


def with_curves(
    jobs: Iterable[Job],
    curves: Mapping[str, Curve],
    *,
    salt: str = "",
    locality: Locality = INDIFFERENT,
    leave_out: bool = True,
) -> tuple[Job, ...]:
    """Every job as one of the models that are useful at its width.

    Jobs without one are left out, or keep their width and are as they were.
    """
    models = sorted(curves)
    dealt = []
    for job in jobs:
        fitting = [name for name in models if widest(curves[name]) >= job.width.asked_gpus]
        if fitting:
            name = fitting[crc32(f"{salt}{job.id}".encode()) % len(fitting)]
            dealt.append(_as_model(job, name, curves[name], locality))
        elif not leave_out:
            dealt.append(_minding(job, locality))
    return tuple(dealt)


def widest(curve: Curve) -> int:
    return curve.points[-1][0]


@cache
def afs_curves(traces: Path) -> Mapping[str, Curve]:
    """Iterations per second by width of the nine models; between two widths, linear in time."""
    seconds: dict[str, list[tuple[int, float]]] = {}
    with (traces / AFS_CURVES).open() as lines:
        for row in csv.DictReader(lines):
            point = int(row["gpus"]), float(row["iteration_seconds"])
            seconds.setdefault(row["model"], []).append(point)
    return {name: _dense(sorted(points)) for name, points in seconds.items()}


def nodes_of(gpus: int, node_gpus: int) -> Cluster:
    """As many whole nodes as hold these GPUs."""
    return Cluster.uniform(-(-gpus // node_gpus), node_gpus)


@cache
def philly(traces: Path) -> tuple[Job, ...]:
    """The whole list, as recorded."""
    return read(str(traces / PHILLY_JOBS)).jobs


def _as_model(job: Job, name: str, curve: Curve, locality: Locality) -> Job:
    asked = job.width.asked_gpus
    return Job.told(
        id=job.id,
        tenant=job.tenant,
        submit_seconds=job.submit_seconds,
        width=Width(1, widest(curve), asked),
        work=Work(job.work.amount * curve.at(asked), WorkUnit.SAMPLES),
        curve=curve,
        locality=locality,
        saves_on_demand=True,  # whoever can be resized at all is saved when it is stopped
        model=name,
    )


def _minding(job: Job, locality: Locality) -> Job:
    """As it is, but that being spread costs it so much, and it says so."""
    return Job(replace(job.request, locality=locality), replace(job.truth, locality=locality))


def _dense(points: Sequence[tuple[int, float]]) -> Curve:
    """A speed for every width up to the last, from seconds per iteration at some of them."""
    (first, seconds), rest = points[0], points[1:]
    times = [(first, seconds)]
    for (left, low), (right, high) in zip(points, rest, strict=False):
        slope = (high - low) / (right - left)
        times += [(width, low + slope * (width - left)) for width in range(left + 1, right)]
        times.append((right, high))
    return Curve(tuple((width, 1.0 / seconds) for width, seconds in times))
