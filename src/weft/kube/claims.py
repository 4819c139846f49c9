"""Claims of GPUs, where a driver hands them out (DRA): one for each seat, and one for a party.

An extended resource is counted and given to one pod. A claim has a name, and several pods may name
it: so jobs that take turns share GPUs, those of the claim that was made for the first of them. It
is called as the pod that it was made for, is owned by every job that uses it, and cannot be named
outside of its namespace.
"""

from typing import Any, Final

from weft.kube.names import HEAD_SEAT, JOB_LABEL, pod_name

Manifest = dict[str, Any]

API: Final = "resource.k8s.io/v1"
SLICES: Final = f"/apis/{API}/resourceslices"
CLAIMED: Final = "gpus"
"""The claim within a pod, and the request within a claim."""


def claim_name(job: str, epoch: int, seat: int, party: str = "") -> str:
    """Of a seat of the job; of one that joined others, theirs."""
    if not party:
        return pod_name(job, epoch, seat)
    lead, _, began = party.rpartition("/")
    return pod_name(lead.rpartition("/")[2], int(began), HEAD_SEAT)


def claims_path(namespace: str | None = None, name: str | None = None) -> str:
    within = f"/namespaces/{namespace}" if namespace else ""
    return f"/apis/{API}{within}/resourceclaims" + (f"/{name}" if name else "")


def claim(
    namespace: str, name: str, gpus: int, *, job: str, owner: Manifest, kind: str
) -> Manifest:
    """So many devices of a class; `job` is for whom it is made first."""
    return {
        "apiVersion": API,
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {JOB_LABEL: job},
            "ownerReferences": [shared(owner)],
        },
        "spec": {
            "devices": {
                "requests": [{"name": CLAIMED, "exactly": {"deviceClassName": kind, "count": gpus}}]
            }
        },
    }


def shared(owner: Manifest) -> Manifest:
    """An owner among several: the object goes with the last of them."""
    return {**owner, "controller": False}


def in_pod(name: str) -> Manifest:
    """What a pod's spec says of its claim."""
    return {"resourceClaims": [{"name": CLAIMED, "resourceClaimName": name}]}
