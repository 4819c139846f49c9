"""A monitor reports trouble with a node of a real control plane: who is blamed, what follows."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH, STRATEGIC_PATCH
from weft.kube.operator.observation.node import SET_ASIDE

OPTIONS: Final = {"taint_nodes": True, "backoff_seconds": 1.0}


@pytest.fixture
def lab(cluster: ControlPlane, tmp_path: Path) -> Iterator[Lab]:
    kubeconfig = install_chart(cluster, {"failures": {"taintNodes": True}})
    cluster.add_nodes(2, gpus=1)
    with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS):
        yield Lab(cluster)


def reported(lab: Lab, node: str, status: str) -> None:
    """As the Node Problem Detector does."""
    now = datetime.now(UTC).strftime("%FT%TZ")
    condition = {
        "type": "KernelDeadlock",
        "status": status,
        "reason": "TaskHung",
        "message": "task nvidia-smi:77 blocked for more than 120 seconds",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    body = {"status": {"conditions": [condition]}}
    lab.cluster.api.must("PATCH", f"/api/v1/nodes/{node}/status", body, STRATEGIC_PATCH)


def failed(lab: Lab, pod: dict[str, Any]) -> None:
    now = datetime.now(UTC).strftime("%FT%TZ")
    ended = {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
    container = {
        "name": "worker",
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": ended},
    }
    path = f"/api/v1/namespaces/lab/pods/{pod['metadata']['name']}/status"
    body = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    lab.cluster.api.must("PATCH", path, body, MERGE_PATCH)


def taints(lab: Lab, node: str) -> list[str]:
    spec = lab.cluster.api.must("GET", f"/api/v1/nodes/{node}")["spec"]
    return [taint["key"] for taint in spec.get("taints", ())]


def test_a_monitors_word_sets_a_node_aside_until_it_is_repaired(lab: Lab) -> None:
    lab.submit("vit", 1)
    lab.await_workers("vit")
    (pod,) = lab.pods("vit").values()
    node = pod["spec"]["nodeName"]
    reported(lab, node, "True")
    failed(lab, pod)
    wait_until(lambda: bool(lab.job("vit")["status"].get("failures")), "its failure")
    found = lab.job("vit")["status"]["failures"][0]
    assert (found["rule"], found["class"]) == ("node_condition", "node"), found
    assert "KernelDeadlock: task nvidia-smi:77 blocked" in found["line"]
    wait_until(lambda: SET_ASIDE in taints(lab, node), "the taint")
    lab.await_workers("vit", epoch=2)
    assert {one["spec"]["nodeName"] for one in lab.pods("vit").values()} != {node}
    reported(lab, node, "False")
    told = {"weft.dev/repaired": datetime.now(UTC).strftime("%FT%TZ")}
    body = {"metadata": {"annotations": told}}
    lab.cluster.api.must("PATCH", f"/api/v1/nodes/{node}", body, MERGE_PATCH)
    wait_until(lambda: SET_ASIDE not in taints(lab, node), "the taint to go")
    lab.submit("next", 1)
    lab.await_workers("next")
