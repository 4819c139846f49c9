"""Pods by the job that they belong to and by the node that they hold something of.

Two watches select every bound pod: one those with the label of a job, one those without. A pod
whose label changes leaves one watch and enters the other, and these events arrive in any order. So
the index keeps the newest version of each pod and drops only what the same watch put there.
"""

from weft.kube.operator.observation.pod import ObservedPod


class PodIndex:
    """Of all pods that are followed; it is kept up whether or not this replica leads."""

    def __init__(self) -> None:
        self.of_job: dict[str, dict[str, ObservedPod]] = {}
        self.on_node: dict[str, dict[str, ObservedPod]] = {}  # bound and not over, by uid
        #: Of those, by job: pods that have the name of one of its workers and are not Weft's.
        self.name_conflicts: dict[str, dict[str, ObservedPod]] = {}
        self.leaving: dict[
            str, ObservedPod
        ] = {}  # workers that were asked to go and are still there

    def worker_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """A pod with the label of a job."""
        if old is not None and old.job and (new is None or new.key != old.key):
            _remove(self.of_job, old.key, old.name)
        self.leaving.pop(key, None)
        if new is not None and new.job:
            self.of_job.setdefault(new.key, {})[new.name] = new
            if new.deleting and new.live:
                self.leaving[key] = new
        self.changed(old, new)

    def changed(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Any pod."""
        if old is not None and self._indexed(old) is old:
            self._drop(old)
        if new is None or not new.node or not new.live:
            return
        other = self._indexed(new)
        if other is None or other.version < new.version:
            if other is not None:
                self._drop(other)
            self._put(new)

    def _indexed(self, pod: ObservedPod) -> ObservedPod | None:
        return self.on_node.get(pod.node, {}).get(pod.uid)

    def _put(self, pod: ObservedPod) -> None:
        self.on_node.setdefault(pod.node, {})[pod.uid] = pod
        if key := conflicting_job(pod):
            self.name_conflicts.setdefault(key, {})[pod.uid] = pod

    def _drop(self, pod: ObservedPod) -> None:
        _remove(self.on_node, pod.node, pod.uid)
        if key := conflicting_job(pod):
            _remove(self.name_conflicts, key, pod.uid)


def conflicting_job(pod: ObservedPod) -> str:
    """The job whose worker's name the pod has though it is not Weft's; empty if there is none."""
    named = None if pod.job else pod.worker_name
    return "" if named is None else f"{pod.namespace}/{named.job}"


def _remove(index: dict[str, dict[str, ObservedPod]], key: str, uid: str) -> None:
    found = index.get(key, {})
    found.pop(uid, None)
    if not found:
        index.pop(key, None)


def nodes_touched(old: ObservedPod | None, new: ObservedPod | None) -> set[str]:
    """Nodes whose use may be different after this change."""
    before = {old.node} if old is not None and old.node else set()
    return before | {new.node} if new is not None and new.node and new.live else before
