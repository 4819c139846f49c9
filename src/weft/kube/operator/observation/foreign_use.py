"""What others hold of each node: the part of its capacity that is not Weft's to give.

Counted are pods that exist, bound and not over, until they are gone: those of other people, and
those of our own making that no present decision stands behind (left by a leader that died, or by an
owner who took the finalizer away). What the brain has given out itself is not counted here.
"""

from collections.abc import Callable

from weft.kube.operator.observation.pod import ObservedPod
from weft.kube.operator.observation.pod_index import PodIndex
from weft.kube.pod_requests import NOTHING, PodRequests


class ForeignUse:
    """Sums over nodes; `stands_behind` tells whether a present decision accounts for a pod."""

    def __init__(self, pods: PodIndex, stands_behind: Callable[[ObservedPod], bool]) -> None:
        self._pods = pods
        self._stands_behind = stands_behind

    def others(self, node: str) -> PodRequests:
        """What is held there by pods that no decision stands behind."""
        held = NOTHING
        for pod in self._pods.on_node.get(node, {}).values():
            if not self._stands_behind(pod):
                held = held.plus(pod.takes)
        return held
