"""The pods of one job as its workers: which are of now, who is to blame, who has to go.

A worker that ends has done so by itself or was taken away. What took it (an eviction, a node, a
preemption, `kubectl drain`) shows in the pod, or in the exit code: 143 is the answer of an agent
that was asked to leave and left, 75 that of one whose surroundings failed. Only the others count as
failures of the job. A program without an agent may end with 143 by itself: then nobody left an
agent's words, and it is a failure too.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from weft.brain.event import JobFailed
from weft.failure.diagnosis import Diagnosis
from weft.failure.evidence import UNEXPLAINED, Failure, FailureClass
from weft.failure.last_words import read
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.operator.observation.pod import OUT_OF_MEMORY, ObservedPod
from weft.kube.operator.reconcile.diagnosing import diagnosis_of, names_a_cause
from weft.kube.operator.reconcile.step import DeletePods, Look, Step
from weft.kube.operator.reconcile.termination import fenced
from weft.model.ids import NodeId

INFRASTRUCTURE: Final = frozenset(
    {
        "Evicted",
        "NodeLost",
        "NodeShutdown",
        "NodeAffinity",
        "Preempting",
        "Shutdown",
        "Terminated",
        "UnexpectedAdmissionError",
    }
)
DRAINED: Final = 143
SURROUNDINGS_FAILED: Final = 75
ASKED_TO_LEAVE: Final = frozenset({130, DRAINED})


def divided(look: Look, job: ObservedJob) -> tuple[dict[int, ObservedPod], list[ObservedPod]]:
    """Pods of the present incarnation by seat, and all others."""
    mine: dict[int, ObservedPod] = {}
    strays = []
    for pod in look.pods:
        if pod.epoch == look.belief.epoch and pod.owner == job.uid:
            mine[pod.seat] = pod
        else:
            strays.append(pod)
    return mine, strays


def to_delete(pods: Iterable[ObservedPod]) -> DeletePods | None:
    """Those that nobody has asked to leave yet."""
    staying = tuple(pod for pod in pods if not pod.deleting)
    return DeletePods(staying) if staying else None


def is_guilty(pod: ObservedPod) -> bool:
    """The program failed by itself; nothing took it away."""
    if not pod.failed or pod.deleting or pod.reason in INFRASTRUCTURE:
        return False
    if pod.reason.startswith("OutOf"):
        return False
    if pod.exit_code == SURROUNDINGS_FAILED:
        return names_a_cause(pod.words)
    if pod.exit_code in ASKED_TO_LEAVE:
        return not read(pod.words).told  # only an agent knows that somebody has asked it
    return pod.exit_code is not None


def asked_to_leave(mine: Mapping[int, ObservedPod]) -> ObservedPod | None:
    """The first that somebody other than the operator takes away, or has taken away."""
    for _, pod in sorted(mine.items()):
        if pod.deleting or (pod.failed and pod.exit_code == DRAINED):
            return pod
    return None


def failed(look: Look, job: ObservedJob, pods: Collection[ObservedPod]) -> Step:
    """A worker failed: the others must go before the brain may hear of it."""
    live = [pod for pod in pods if pod.live]
    if (leaving := to_delete(live)) is not None:
        return look.actions(leaving)
    if live:
        return fenced(look, live)
    kept = work_kept(look, job, drained=False)
    guilty = [pod for pod in pods if is_guilty(pod)]
    found = diagnosis_of(look, guilty)
    failure = failure_of(next(iter(guilty), None)) if found is None else found.failure
    return look.events(JobFailed(look.now, look.id, look.belief.epoch, kept, failure, found))


def loss_of(look: Look, pod: ObservedPod | None) -> Diagnosis | None:
    """Why a worker was lost, where somebody knows; one that was asked to leave has not failed."""
    if pod is None or pod.deleting or pod.exit_code == DRAINED:
        return None
    return diagnosis_of(look, (pod,))


def failure_of(pod: ObservedPod | None) -> Failure:
    """What a pod that ended shows of why."""
    if pod is None:
        return UNEXPLAINED
    kind = FailureClass.UNKNOWN
    if pod.reason == OUT_OF_MEMORY:
        kind = FailureClass.MEMORY
    elif pod.reason in INFRASTRUCTURE or pod.reason.startswith("OutOf"):
        kind = FailureClass.NODE
    elif pod.exit_code == SURROUNDINGS_FAILED:
        kind = FailureClass.SERVICE
    code = "" if pod.exit_code is None else f"exit code {pod.exit_code}"
    shown = ", ".join(part for part in (pod.reason, code) if part)
    evidence = f"{pod.name}: {shown}" if shown else ""
    return Failure(kind, evidence, NodeId(pod.node) if pod.node else None, pod.seat)


def have_finished(seats: Collection[int], mine: Mapping[int, ObservedPod]) -> bool:
    """Whether the workers of all these seats have succeeded."""
    return bool(seats) and all(number in mine and mine[number].succeeded for number in seats)


def work_kept(look: Look, job: ObservedJob, *, drained: bool) -> float:
    """Work that a later incarnation can go on from, as told by the job or else as estimated."""
    spec = job.spec
    if spec is None or spec.checkpoint is None:
        return 0.0
    if job.work_saved > 0.0 or not drained:
        return job.work_saved
    return look.belief.work_done
