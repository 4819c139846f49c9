"""What a person asks of the cluster: a job, and the end of one. Both are plain API objects."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import orjson

from weft.kube.names import CANCEL_ANNOTATION, FIELD_MANAGER, FINALIZER, jobs_path
from weft.kube.resources.training_job import manifest

if TYPE_CHECKING:
    from weft.kube.client.api import Api


def training_job(spec: Mapping[str, Any], *, namespace: str, name: str) -> dict[str, Any]:
    """The object for a job file.

    The finalizer is there from the beginning, so that an operator which is down when the job is
    deleted can still clean up after it.
    """
    job = manifest(name, spec, namespace=namespace)
    return {**job, "metadata": {**job["metadata"], "finalizers": [FINALIZER]}}


async def submit(api: "Api", job: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
    """The job as the server has it; with `dry_run` as it would have it."""
    path = jobs_path(job["metadata"]["namespace"])
    params = {"fieldValidation": "Strict", "fieldManager": FIELD_MANAGER}
    answer = await api.raw(
        "POST", path, body=orjson.dumps(job), params={**params, **_only_asked(dry_run)}
    )
    made: dict[str, Any] = orjson.loads(answer)
    return made


async def cancel(api: "Api", namespace: str, name: str, *, dry_run: bool = False) -> dict[str, Any]:
    """Ask for the job's end; it stays in the list as Cancelled."""
    wish = {"metadata": {"annotations": {CANCEL_ANNOTATION: "true"}}}
    return await api.patch(jobs_path(namespace, name), wish, params=_only_asked(dry_run))


def _only_asked(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
