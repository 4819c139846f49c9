"""Kubernetes Events about a job: one for each change that its owner should hear of.

An Event is named after what changed (the job, the version of its object, the reason), so writing it
twice is writing it once, and an operator that crashed between two writes does not repeat itself.
"""

from hashlib import blake2b
from typing import Any

from weft.kube.client.api import Api
from weft.kube.client.errors import AlreadyExists
from weft.kube.names import API_VERSION, GROUP, JOB_KIND
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.status.patches import stamp

MOST_NOTE = 1000
MOST_INSTANCE = 128


async def tell(
    api: Api,
    job: ObservedJob,
    *,
    reason: str,
    note: str,
    now: float,
    instance: str,
    bad: bool = False,
) -> None:
    """Write it, unless it has been written."""
    event = event_of(job, reason=reason, note=note, now=now, instance=instance, bad=bad)
    try:
        await api.create(f"/apis/events.k8s.io/v1/namespaces/{job.namespace}/events", event)
    except AlreadyExists:
        return


def event_of(
    job: ObservedJob, *, reason: str, note: str, now: float, instance: str, bad: bool = False
) -> dict[str, Any]:
    """`reason` in PascalCase, `note` for people; `bad` makes it a warning."""
    changed = blake2b(f"{job.uid}/{job.version}/{reason}".encode(), digest_size=8).hexdigest()
    return {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": f"{job.name}.{changed}", "namespace": job.namespace},
        "eventTime": stamp(now),
        "reportingController": f"{GROUP}/operator",
        "reportingInstance": instance[:MOST_INSTANCE],
        "action": "Scheduling",
        "reason": reason,
        "note": note[:MOST_NOTE],
        "type": "Warning" if bad else "Normal",
        "regarding": {
            "apiVersion": API_VERSION,
            "kind": JOB_KIND,
            "namespace": job.namespace,
            "name": job.name,
            "uid": job.uid,
        },
    }
