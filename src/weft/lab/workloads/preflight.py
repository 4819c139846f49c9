"""A workload against its cluster and recipe, before a minute is spent on them.

Jobs of a queue that the cluster does not have are refused: nothing that they could show would be
meant. Jobs that no part of the cluster can hold are told, because a trace of a larger cluster is
often replayed on a smaller one; only where no job at all can run is there nothing to simulate.
"""

from collections.abc import Iterator, Sequence

from weft.model.cluster import Cluster, Node
from weft.model.errors import SpecError
from weft.model.job import Job
from weft.policy.recipe import Recipe
from weft.trace.clusters import ClusterSetup
from weft.trace.faults import Severity
from weft.trace.workload import Workload

NAMED = 3
NOTHING_TO_DO = "none needed"


def preflight(
    jobs: Sequence[Job], setup: ClusterSetup, recipes: Sequence[Recipe]
) -> tuple[str, ...]:
    """What is odd about running these jobs there; `SpecError` where it would be pointless."""
    _check_queues(jobs, setup)
    held = _Holding(setup.cluster)
    stranded = [job for job in jobs if not held.by_some_domain(job)]
    if jobs and len(stranded) == len(jobs):
        raise SpecError(
            f"no job of this workload can ever run there: {_named(stranded)}",
            hint=f"the cluster has {held.told}"
            f"{held.without_types(stranded) or '; give a larger one, or narrower jobs'}",
        )
    return tuple([*_stranded(stranded, held), *_elasticity(jobs, recipes)])


def remarks(workload: Workload) -> tuple[str, ...]:
    """What the reader of the workload would have its owner know, and how much else it noted."""
    infos = [fault for fault in workload.faults if fault.severity is Severity.INFO]
    told = [fault for fault in infos if not fault.remedy.startswith(NOTHING_TO_DO)]
    others = len(workload.faults) - len(infos)
    more = f"{others:,} {'row has' if others == 1 else 'rows have'} remarks; see weft trace show"
    return (*(f"{fault.text}; {fault.remedy}" for fault in told), *([more] if others else []))


def _check_queues(jobs: Sequence[Job], setup: ClusterSetup) -> None:
    lost: dict[str, int] = {}
    for job in jobs:
        if job.request.queue not in setup.queues:
            lost[str(job.request.queue)] = lost.get(str(job.request.queue), 0) + 1
    if not lost:
        return
    known = ", ".join(sorted(str(queue.id) for queue in setup.queues.queues))
    listed = ", ".join(f"{count:,} of '{name}'" for name, count in sorted(lost.items()))
    count = f"{sum(lost.values()):,} of {len(jobs):,} jobs"
    raise SpecError(
        f"{count} are of queues that the cluster lacks: {listed}",
        hint=f"its queues: {known}; name one of them in the column queue, or add the missing ones "
        "to the cluster's file (jobs that name none are of 'default')",
    )


class _Holding:
    """What a gang may have: GPUs of one type within one pool."""

    def __init__(self, cluster: Cluster) -> None:
        self._domains: dict[tuple[str, str], list[int]] = {}
        for node in cluster.nodes:
            self._domains.setdefault(_domain(node), []).append(node.gpus)
        for gpus in self._domains.values():
            gpus.sort(reverse=True)

    def by_some_domain(self, job: Job) -> bool:
        accepted = {str(one.type) for one in job.request.gpu_types}
        most = job.request.max_nodes
        return any(
            sum(gpus[:most]) >= job.width.min_gpus
            for (_, kind), gpus in self._domains.items()
            if not accepted or kind in accepted
        )

    def without_types(self, jobs: Sequence[Job]) -> str:
        """What to do about GPU types that the jobs request and no node has."""
        present = {kind for _, kind in self._domains}
        accepted = [{str(one.type) for one in job.request.gpu_types} for job in jobs]
        absent = sorted({kind for kinds in accepted if not kinds & present for kind in kinds})
        if not absent:
            return ""
        return (
            f"; no node has the requested GPU type {' or '.join(absent)}: name it as gpu_type in "
            "the cluster's file, spelled the same, or read the job table with --column gpu_types="
        )

    @property
    def told(self) -> str:
        parts = (
            f"{sum(gpus):,} GPUs on {len(gpus):,} nodes of {pool}/{kind}"
            for (pool, kind), gpus in sorted(self._domains.items())
        )
        return ", ".join(parts)


def _domain(node: Node) -> tuple[str, str]:
    return str(node.pool), str(node.gpu.type)


def _stranded(jobs: Sequence[Job], held: _Holding) -> Iterator[str]:
    if jobs:
        yield (
            f"{_counted(jobs)} can never run on this cluster, by width, GPU type or nodes: "
            f"{_named(jobs)}; it has {held.told}{held.without_types(jobs)}"
        )


def _elasticity(jobs: Sequence[Job], recipes: Sequence[Recipe]) -> Iterator[str]:
    elastic = [recipe.name for recipe in recipes if recipe.resizing is not None]
    if elastic and jobs and not any(job.width.elastic for job in jobs):
        yield (
            f"elasticity is not used: {_all(jobs)} for a fixed number of GPUs, so "
            f"{', '.join(elastic)} can resize none; write ranges such as 2..8 in the column gpus"
        )


def _counted(jobs: Sequence[Job]) -> str:
    return "1 job" if len(jobs) == 1 else f"{len(jobs):,} jobs"


def _all(jobs: Sequence[Job]) -> str:
    return "the job asks" if len(jobs) == 1 else f"all {len(jobs):,} jobs ask"


def _named(jobs: Sequence[Job]) -> str:
    told = [
        f"{job.id} ({gpus} {'GPU' if gpus == 1 else 'GPUs'})"
        for job, gpus in ((job, job.width.min_gpus) for job in jobs[:NAMED])
    ]
    return ", ".join(told) + (f" and {len(jobs) - NAMED:,} more" if len(jobs) > NAMED else "")
