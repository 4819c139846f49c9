"""Pods by the job that they belong to and by the node that they hold something of."""

from weft.kube.operator.observation.pod import ObservedPod


class PodIndex:
    """Of all pods that are followed; it is kept up whether or not this replica leads."""

    def __init__(self) -> None:
        self.of_job: dict[str, dict[str, ObservedPod]] = {}
        self.on_node: dict[str, dict[str, ObservedPod]] = {}  # bound and not over, by uid
        self.leaving: dict[
            str, ObservedPod
        ] = {}  # workers that were asked to go and are still there

    def worker_changed(self, key: str, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """A pod of a job of ours."""
        pod = new or old
        assert pod is not None
        mine = self.of_job.setdefault(pod.key, {})
        if new is not None:
            mine[new.name] = new
        else:
            mine.pop(pod.name, None)
            if not mine:
                del self.of_job[pod.key]
        self.leaving.pop(key, None)
        if new is not None and new.deleting and new.live:
            self.leaving[key] = new
        self.changed(old, new)

    def changed(self, old: ObservedPod | None, new: ObservedPod | None) -> None:
        """Any pod."""
        if old is not None and old.node:
            there = self.on_node.get(old.node, {})
            there.pop(old.uid, None)
            if not there:
                self.on_node.pop(old.node, None)
        if new is not None and new.node and new.live:
            self.on_node.setdefault(new.node, {})[new.uid] = new


def nodes_touched(old: ObservedPod | None, new: ObservedPod | None) -> set[str]:
    """Nodes whose use may be different after this change."""
    before = {old.node} if old is not None and old.node else set()
    return before | {new.node} if new is not None and new.node and new.live else before
