"""What jobs had that are over, for a brain that begins: restarts are paid from all GPU time.

It is read from objects that are still there, so what was deleted meanwhile is forgotten. They may
be tens of thousands, so nothing is read of them but two figures.
"""

from collections.abc import Iterable

from weft.brain.event import PastRecalled
from weft.kube.operator.observation.job import ObservedJob


def recalled(jobs: Iterable[ObservedJob], now: float) -> PastRecalled | None:
    """None where nothing is on record of any."""
    served, restarted = 0.0, 0
    for job in jobs:
        past = job.status.get("past") if job.final else None
        if not past:
            continue
        served += float(past.get("attainedGpuSeconds") or 0.0)
        restarted += int(past.get("preemptions") or 0) * _gpus(job)
    return PastRecalled(now, served, restarted) if served or restarted else None


def _gpus(job: ObservedJob) -> int:
    """That it had in the end, of one whose plan is chosen; restarts of others cost no budget."""
    if job.spec is None or job.spec.model is None:
        return 0
    return int((job.status.get("decision") or {}).get("width") or 0)
