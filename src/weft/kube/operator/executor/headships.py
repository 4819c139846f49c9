"""Puts on record who leads the workers of a job, before any of them is told.

An operator that begins to lead finds there what the one before it has promised.
"""

from typing import Any, Final, Protocol

from weft.kube.client.api import Api
from weft.kube.client.errors import ApiError, Conflict
from weft.kube.names import jobs_path
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.status.patches import head_patch
from weft.kube.reports.headship import Headship
from weft.kube.reports.refusal import Refusal
from weft.model.errors import NotLeading

MOST_TRIES: Final = 5
RETRY_SECONDS: Final = 1.0


class Jobs(Protocol):
    """Where jobs are seen, and what was written of them is."""

    def observed(self, key: str) -> ObservedJob | None: ...
    def took_job(self, raw: dict[str, Any]) -> None: ...


async def record(api: Api, jobs: Jobs, key: str, epoch: int, headship: Headship) -> None:
    """Into the job's status, or a `Refusal`: then nobody may rely on it."""
    try:
        for _ in range(MOST_TRIES):
            job = _present(jobs, key, epoch)
            if job.headship == headship:
                return
            await _write(api, jobs, job, headship)
    except (ApiError, NotLeading) as error:
        raise _later(f"it could not be put on record who leads: {error}") from error
    raise _later(
        "it could not be put on record who leads",
        hint="Ask again. If it stays so, apply the resources below charts/weft/crds.",
    )


def _present(jobs: Jobs, key: str, epoch: int) -> ObservedJob:
    job = jobs.observed(key)
    if job is None or job.epoch != epoch:
        raise Refusal(409, "its job has been placed anew", hint="End this worker.")
    return job


async def _write(api: Api, jobs: Jobs, job: ObservedJob, headship: Headship) -> None:
    path = jobs_path(job.namespace, job.name)
    try:
        jobs.took_job(await api.patch(f"{path}/status", head_patch(job, headship)))
    except Conflict:
        jobs.took_job(await api.get(path))


def _later(why: str, hint: str = "Ask again.") -> Refusal:
    return Refusal(503, why, hint=hint, retry_after_seconds=RETRY_SECONDS)
