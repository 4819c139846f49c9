"""What the probes of nodes say: by their pods, and when they are asked."""

from collections.abc import Callable

from weft.kube.operator.checkup import probe_among
from weft.kube.operator.gang_probes import Address, GangProbes, Wires
from weft.kube.operator.observation.pod import Probed
from weft.kube.operator.observation.pod_index import PodIndex


class NodeProbes:
    """Those of the operator's own namespace; `asked` are the answers that gangs wait for."""

    def __init__(
        self,
        pods: PodIndex,
        namespace: str,
        now: Callable[[], float],
        *,
        touch_job: Callable[[str], None],
        touch_node: Callable[[str], None],
    ) -> None:
        self._pods, self._namespace = pods, namespace
        self.asked = GangProbes(Wires(self._address, now, touch_job, touch_node))

    def on(self, node: str) -> Probed | None:
        return probe_among(self._pods.on_node.get(node, {}).values(), self._namespace)

    def unfit(self, node: str) -> str:
        """Why nothing may start there: by its own pod, or by what it answered of late."""
        probed = self.on(node)
        own = probed.unfit if probed is not None else ""
        return own or self.asked.unfit(node)

    def _address(self, node: str) -> Address | None:
        probed = self.on(node)
        return None if probed is None else probed.address
