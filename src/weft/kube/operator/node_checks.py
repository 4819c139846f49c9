"""Nodes that are set aside are checked: when the brain asks, and as soon as anybody can tell.

The brain asks at once, when nobody can tell yet, and again after ten minutes and more. So that a
node which is well is not missed for as long, its probe is asked a minute after it was set aside:
who passes comes back then. Who does not is judged when the brain asks, so that nothing is held
against it twice.
"""

from collections.abc import Callable, Mapping

from weft.failure.health import Health, SetAside
from weft.kube.logs import Log
from weft.kube.operator.checkup import LOOKED_AGAIN_SECONDS, Checkup, checkup
from weft.kube.operator.node_probes import NodeProbes
from weft.kube.operator.observation.node import ObservedNode
from weft.model.ids import NodeId

log = Log("term")


class NodeChecks:
    """Tells how nodes stand, as far as anybody knows."""

    def __init__(
        self,
        nodes: Mapping[str, ObservedNode],
        probes: NodeProbes,
        now: Callable[[], float],
        *,
        tell: Callable[[NodeId, Checkup], None],
    ) -> None:
        self._nodes, self._probes, self._now, self._tell = nodes, probes, now, tell

    def check(self, health: Health, node: NodeId) -> None:
        """The brain has asked."""
        for one in health.aside:
            if one.node == node and (found := self._found(one)) is not None:
                self._say(node, found)

    def look(self, health: Health) -> None:
        """Every few seconds: whoever passes by now, or was repaired, need not wait any longer."""
        for one in health.aside:
            found = self._found(one)
            waits = one.asked and not one.lemon
            if found is not None and found.passed and (waits or found.repaired):
                self._say(one.node, found)
            elif found is None and waits and self._may_pass(one):
                self._probes.asked.inquire(one.node)

    def _found(self, one: SetAside) -> Checkup | None:
        node, probed = self._nodes.get(one.node), self._probes.on(one.node)
        answer = self._probes.asked.known().get(one.node)
        return checkup(node, probed, one.since_seconds, self._now(), answer)

    def _may_pass(self, one: SetAside) -> bool:
        """Whether its probe is all that is waited for, and would look anew."""
        node, probed = self._nodes.get(one.node), self._probes.on(one.node)
        if node is None or not node.ready or node.troubles or probed is None or not probed.ready:
            return False
        return self._now() >= one.since_seconds + LOOKED_AGAIN_SECONDS

    def _say(self, node: NodeId, found: Checkup) -> None:
        log.info("node_checked", node=node, passed=found.passed, evidence=found.evidence)
        self._tell(node, found)
