"""Nodes that are set aside carry Weft's taint for others, and lose it when they come back."""

import asyncio
from typing import Any

from tests import virtual_time
from tests.virtual_time import pass_time
from weft.failure.blame import Blame
from weft.failure.classes import NodeAction
from weft.failure.health import WELL, Health, blame, checked
from weft.kube.client.errors import Conflict
from weft.kube.operator import quarantine
from weft.kube.operator.observation.node import SET_ASIDE, ObservedNode, read_node
from weft.kube.operator.quarantine import Quarantine, changed
from weft.model.ids import JobId, NodeId, TenantId

POOL = [NodeId(f"n{number}") for number in range(40)]
OTHERS = {"key": "dedicated", "value": "x", "effect": "NoSchedule"}


def set_aside(action: NodeAction = NodeAction.CORDON) -> Health:
    one = Blame(
        node=POOL[0],
        at_seconds=1.0,
        job=JobId("lab/a"),
        user=TenantId("lab"),
        fingerprint="f",
        action=action,
    )
    return blame(WELL, [one], POOL, 1.0)


class Cluster:
    """Nodes by name; a patch from an old version is refused."""

    def __init__(self, conflicts: int = 0) -> None:
        self.raw: dict[str, dict[str, Any]] = {
            name: {
                "metadata": {"uid": name, "name": name, "resourceVersion": "1"},
                "spec": {"taints": [OTHERS]},
            }
            for name in POOL[:2]
        }
        self.conflicts, self.patches = conflicts, 0

    @property
    def nodes(self) -> dict[str, ObservedNode]:
        return {name: read_node(raw) for name, raw in self.raw.items()}

    async def get(self, path: str) -> dict[str, Any]:
        return self.raw[path.rpartition("/")[2]]

    async def patch(self, path: str, body: dict[str, Any]) -> None:
        self.patches += 1
        if self.patches <= self.conflicts:
            raise Conflict("older")
        self.raw[path.rpartition("/")[2]]["spec"]["taints"] = body["spec"]["taints"] or []

    def keep(self, health: Health) -> None:
        async def work() -> None:
            keeping = Quarantine(self, self.nodes).keep(lambda: health)  # type: ignore[arg-type]
            task = asyncio.create_task(keeping)
            await pass_time(10 * quarantine.LOOK_SECONDS)
            task.cancel()

        virtual_time.run(work())

    def keys(self, name: str) -> list[str]:
        return [taint["key"] for taint in self.raw[name]["spec"]["taints"]]


def test_a_taint_comes_and_goes_and_those_of_others_stay() -> None:
    cluster, health = Cluster(conflicts=1), set_aside()
    cluster.keep(health)
    assert cluster.keys("n0") == ["dedicated", SET_ASIDE] and cluster.keys("n1") == ["dedicated"]
    cluster.keep(checked(health, POOL[0], 2.0, passed=True))
    assert cluster.keys("n0") == ["dedicated"]


def test_what_has_to_be_repaired_says_so() -> None:
    assert changed([], "repair")[0]["value"] == "repair"
    assert changed([OTHERS], None) == [OTHERS]
    assert changed([OTHERS, *changed([], "check")], "repair") == [OTHERS, *changed([], "repair")]


def test_wefts_own_taint_does_not_close_a_node_for_its_brain() -> None:
    raw = {
        "metadata": {"uid": "n", "name": "n", "resourceVersion": "1"},
        "spec": {"taints": changed([], "check")},
    }
    node = read_node(raw)
    assert (node.set_aside, node.closed) == (True, False)
    assert read_node(raw | {"spec": {"taints": [OTHERS]}}).closed
