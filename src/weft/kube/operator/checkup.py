"""Whether a node that was set aside may come back: what its probes and its monitors say.

Probes run all the time, on pods whose readiness is their verdict. Asked for a check, a node is
judged as it stands once all of them have run again since it was set aside. Somebody who repaired it
may say so. Where there are no probes nobody can tell, and nothing is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from weft.kube.operator.observation.node import ObservedNode
from weft.kube.operator.observation.pod import ObservedPod, Probed

PROBED_AGAIN_SECONDS: Final = 420.0  # the probes' interval, and what all of them may take


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
    node: ObservedNode | None, probed: Probed | None, since: float, now: float
) -> Checkup | None:
    """Of a node that was set aside then; None where nobody can tell yet."""
    if node is None or not node.ready:
        return None
    if node.repaired_at is not None and since < node.repaired_at <= now:
        return Checkup(True, "it was repaired", repaired=True)
    if probed is None or (probed.ready and now < since + PROBED_AGAIN_SECONDS):
        return None
    if probed.unfit:
        return Checkup(False, probed.unfit)
    if node.troubles:
        return Checkup(False, node.troubles[0].kind)
    return Checkup(True, "all probes pass") if probed.ready else None
