"""What others hold of each node: the part of its capacity that is not Weft's to give.

Counted are pods that exist, bound and not over, until they are gone: those of other people, and
those of our own making that no present decision stands behind (left by a leader that died, or by an
owner who took the finalizer away). What the brain has given out itself is not counted here.
"""

from collections.abc import Callable

from weft.kube.operator.sight import PodSight
from weft.kube.pod_requests import NOTHING, PodRequests


class Ledger:
    """Pods by node; `stands_behind` tells whether a present decision accounts for a pod."""

    def __init__(self, stands_behind: Callable[[PodSight], bool]) -> None:
        self._stands_behind = stands_behind
        self._by_node: dict[str, dict[str, PodSight]] = {}

    def changed(self, old: PodSight | None, new: PodSight | None) -> set[str]:
        """Take in a change; the nodes whose use may be different now."""
        touched = set()
        if old is not None and old.node:
            self._by_node.get(old.node, {}).pop(old.uid, None)
            touched.add(old.node)
        if new is not None and new.node and new.live:
            self._by_node.setdefault(new.node, {})[new.uid] = new
            touched.add(new.node)
        return touched

    def others(self, node: str) -> PodRequests:
        """What is held there by pods that no decision stands behind."""
        held = NOTHING
        for pod in self._by_node.get(node, {}).values():
            if not self._stands_behind(pod):
                held = held.plus(pod.takes)
        return held
