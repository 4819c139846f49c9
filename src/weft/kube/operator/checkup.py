"""Whether a node that was set aside may come back: what its probes and its monitors say.

Probes run all the time, on pods whose readiness is their verdict. Asked for a check, a node is
judged as it stands once all of them have run again since it was set aside: as its probe has said
itself, or once there was time enough for it. Somebody who repaired it may say so. Where there are
no probes nobody can tell, and nothing is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.kube.operator.gang_probes import RECENT_SECONDS
from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.pod import ObservedPod, Probed
from weft.kube.operator.reconcile.step import NodeProbe

PROBED_AGAIN_SECONDS: Final = 420.0  # the probes' interval, and what all of them may take
LOOKED_AGAIN_SECONDS: Final = RECENT_SECONDS  # who is asked then has looked since


@dataclass(frozen=True, slots=True)
class Checkup:
    """What came of it."""

    passed: bool
    evidence: str
    repaired: bool = False


def probe_among(pods: Iterable[ObservedPod], namespace: str) -> Probed | None:
    """The probe of a node, by the pods on it: of the operator's own namespace and no other.

    Whoever may make pods elsewhere could otherwise take nodes from everybody.
    """
    mine = (pod.probed for pod in pods if pod.namespace == namespace and not pod.deleting)
    return next((one for one in mine if one is not None), None)


def checkup(
    node: ObservedNode | None,
    probed: Probed | None,
    since: float,
    now: float,
    answer: NodeProbe | None = None,
) -> Checkup | None:
    """Of a node that was set aside then; None where nobody can tell yet."""
    if node is None or not node.ready:
        return None
    if node.repaired_at is not None and since < node.repaired_at <= now:
        return Checkup(True, "it was repaired", repaired=True)
    if probed is None:
        return None
    if not probed.ready:
        return Checkup(False, probed.unfit) if probed.unfit else None
    return _by_its_probes(node, since, now, answer)


def _by_its_probes(
    node: ObservedNode, since: float, now: float, answer: NodeProbe | None
) -> Checkup | None:
    answered = answer if answer is not None and _is_of_now(answer, since) else None
    if answered is None and now < since + PROBED_AGAIN_SECONDS:
        return None
    if answered is not None and answered.unfit:
        return Checkup(False, answered.unfit)
    if node.troubles:
        return Checkup(False, node.troubles[0].kind)
    return Checkup(True, "all probes pass")


def _is_of_now(answer: NodeProbe, since: float) -> bool:
    """Whether it tells of a look after that."""
    told = answer.reached and answer.answered is not None
    return told and answer.since >= since + LOOKED_AGAIN_SECONDS
