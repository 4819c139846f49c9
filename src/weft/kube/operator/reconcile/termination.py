"""Workers that were asked to leave and are still there: who holds what others wait for, and why.

A seat is free when its pod is gone. Two things keep a pod from going: a kubelet that does not get
rid of it, and a node that is out of reach. For the first nobody but the node's keeper can do
anything. The second is given up after a while, but only where a process that may still run there
can do no harm beside its successor: the node is known to be off, nobody comes after it, it has no
volume to write to, or its checkpoints are fenced. Else the job waits, and everybody is told.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from weft.kube.names import JOB_LABEL
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.node import OUT_OF_SERVICE
from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.reconcile.step import DeletePods, Look, RecordHeldUp, Step
from weft.kube.operator.status.patches import Standing, stamp
from weft.model.reason import Cause
from weft.model.state import State

OVERDUE_SECONDS: Final = 60.0
LOOK_AGAIN_SECONDS: Final = 10.0
WAITING: Final = (State.QUEUED, State.ADMITTED)
HELD_CAUSES: Final = (Cause.CAPACITY, Cause.FRAGMENTATION)


@dataclass(frozen=True, slots=True)
class HeldUp:
    """A pod that does not go, and since when it should have."""

    pod: ObservedPod
    since: float
    out_of_reach: bool


def held_up(
    pods: Iterable[ObservedPod], lost: Mapping[str, float], fence_seconds: float, now: float
) -> list[HeldUp]:
    """Those that should be gone by now, the longest first."""
    leaving = ((pod, _due(pod, lost, fence_seconds)) for pod in pods if pod.live and pod.deleting)
    found = [
        HeldUp(pod, lost.get(pod.node, pod.leaves_by or due), out_of_reach=pod.node in lost)
        for pod, due in leaving
        if due is not None and due <= now
    ]
    return sorted(found, key=lambda one: (one.since, one.pod.name))


def _due(pod: ObservedPod, lost: Mapping[str, float], fence_seconds: float) -> float | None:
    """When it is waited for no longer without a word; None where nobody knows."""
    if pod.node in lost:
        return lost[pod.node] + fence_seconds
    return None if pod.leaves_by is None else pod.leaves_by + OVERDUE_SECONDS


def fenced(look: Look, live: Collection[ObservedPod]) -> Step:
    """Wait until they are gone, or give those up that nobody can reach and nobody has to fear."""
    fence = look.rules.fence_seconds
    held = held_up(live, look.lost, fence, look.now)
    given_up = [one.pod for one in held if one.out_of_reach and ground(look, one.pod)]
    if given_up:
        why = f"{given_up[0].node} is out of reach, and {ground(look, given_up[0])}"
        return look.actions(DeletePods(tuple(given_up), now=True, why=why))
    told = told_owner(held)
    if told and look.job is not None and look.job.held_up != told:
        return look.actions(RecordHeldUp(told))
    dues = [_due(pod, look.lost, fence) for pod in live]
    later = [due for due in dues if due is not None and due > look.now]
    again = [look.now + LOOK_AGAIN_SECONDS] if held else []
    return look.waiting(min([*later, *again], default=None))


def ground(look: Look, pod: ObservedPod) -> str:
    """Why what may still run there does no harm to what comes after it; empty where it may."""
    if pod.node in look.dead:
        return "it is known to be off"
    if look.job is None or look.belief.cancelling:
        return "nobody comes after its worker"
    if look.job.is_live:
        return "the job's checkpoints are fenced"
    if look.job.spec is not None and all(one.read_only for one in look.job.spec.volumes):
        return "the job has no volume to write to"
    return ""


def told_owner(held: list[HeldUp]) -> str:
    """What keeps a job from being over; the same words until something changes."""
    if not held:
        return ""
    pod, since = held[0].pod, stamp(held[0].since)
    if held[0].out_of_reach:
        return (
            f"{pod.name} is on {pod.node}, which has been out of reach since {since}, and may "
            f"still write to the job's volumes. Remedy: bring the node back; once it is off, "
            f"kubectl taint nodes {pod.node} {OUT_OF_SERVICE}=off:NoExecute"
        )
    return (
        f"{pod.name} on {pod.node} was to be gone by {since}, is still there and holds its "
        f"{pod.gpus} GPUs. Remedy: look at the kubelet and the processes of {pod.node}; once they "
        f"are gone, kubectl delete pod -n {pod.namespace} {pod.name} --force"
    )


def former_workers(look: Look, job: ObservedJob) -> list[ObservedPod]:
    """Workers of the job that lost their label or their owner and still run.

    They are not deleted: the operator deletes only what is certainly its own.
    """
    found = [pod for pod in look.name_conflicts if pod.was_worker_of(job.uid)]
    return sorted(found, key=lambda pod: pod.name)


def describe_former_worker(pod: ObservedPod) -> str:
    """What the owner of the job, and an administrator, can do about a former worker."""
    return (
        f"Worker {pod.name} left the watch and still runs on {pod.node}, where it holds "
        f"{pod.gpus} GPUs: its label {JOB_LABEL} or its owner changed. The job starts again when "
        f"that pod is gone: kubectl delete pod -n {pod.namespace} {pod.name}"
    )


def wait_for_former_worker(look: Look, job: ObservedJob, pod: ObservedPod) -> Step:
    """Stay stopping while a former worker runs, so that the job does not run twice."""
    why = describe_former_worker(pod)
    if job.held_up != why:
        return look.actions(RecordHeldUp(why))
    return look.waiting(look.now + LOOK_AGAIN_SECONDS)


def with_held_up(standing: Standing, job: str, held: list[HeldUp]) -> Standing:
    """The same, with what those are told who wait for seats, or who do not get rid of theirs."""
    if standing.state in WAITING:
        note = told_others(held, job.partition("/")[0])
        reasons = [
            replace(one, note=note) if one.cause in HELD_CAUSES else one for one in standing.reasons
        ]
        return replace(standing, reasons=reasons)
    told = told_owner([one for one in held if one.pod.key == job])
    return replace(standing, message=standing.message or told, held_up=told)


def told_others(held: list[HeldUp], namespace: str) -> str:
    """What those who wait for the seats are told: of another namespace no names."""
    if not held:
        return ""
    first, gpus = held[0], sum(one.pod.gpus for one in held)
    mine = first.pod.namespace == namespace
    who = first.pod.name if mine else "a pod of another namespace"
    why = "which is out of reach" if first.out_of_reach else "where it does not end"
    return (
        f"{gpus} GPUs are held by workers that should be gone: {who} on {first.pod.node}, {why}, "
        f"since {stamp(first.since)}; whoever keeps that node can help."
    )
