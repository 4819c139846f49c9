"""Weft on a slice of a real API server's nodes, with devices and taints that a job must fit."""

import asyncio
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.client.api import Api
from weft.kube.names import pods_path
from weft.kube.reading.node_reader import list_nodes
from weft.view.node_page import NodePage

OURS = {"weft.dev/trial": "yes"}
VALUES = {
    "nodes": {"selector": OURS},
    "workers": {"jobTolerations": ["spot"]},
}
OPTIONS = {"node_selector": "weft.dev/trial=yes", "job_toleration": "spot"}


@pytest.fixture
def lab(cluster: ControlPlane, tmp_path: Path) -> Iterator[Lab]:
    """One node of ours, one of ours with network cards and a taint, two of MIG parts, one other."""
    kubeconfig = install_chart(cluster, VALUES)
    cluster.add_nodes(1, gpus=8, prefix="other")
    cluster.add_nodes(1, gpus=4, prefix="plain", labels=OURS)
    cluster.add_nodes(1, gpus=4, prefix="wired", labels=OURS)
    cluster.add_nodes(1, gpus=0, prefix="parts", labels=OURS)
    _offer(cluster, "wired-0", {"rdma/hca": "4"})
    _offer(cluster, "parts-0", {"nvidia.com/mig-1g.5gb": "7"})
    taint = {"spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]}}
    cluster.api.must("PATCH", "/api/v1/nodes/wired-0", taint, MERGE_PATCH)
    with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS):
        yield Lab(cluster)


def _offer(cluster: ControlPlane, node: str, more: dict[str, str]) -> None:
    patch = {"status": {"capacity": more, "allocatable": more}}
    cluster.api.must("PATCH", f"/api/v1/nodes/{node}/status", patch, MERGE_PATCH)


def test_jobs_go_where_they_may_and_nowhere_else(lab: Lab) -> None:
    devices = {"gpus": 2, "devices_per_gpu": {"rdma/hca": 2}}
    lab.submit("greedy", resources=devices, tolerations=["spot"])
    lab.submit("plain", 4)
    lab.await_workers("plain")
    lab.submit("full", 4)
    lab.submit(
        "wired", resources={**devices, "devices_per_gpu": {"rdma/hca": 1}}, tolerations=["spot"]
    )
    lab.submit("parts", resources={"gpus": 3, "gpu_type": ["mig-1g.5gb"]})
    lab.submit("wide", 16)
    for name, node in (("plain", "plain-0"), ("wired", "wired-0"), ("parts", "parts-0")):
        lab.await_workers(name)
        (pod,) = lab.pods(name).values()
        assert pod["spec"]["nodeName"] == node
        assert pod["spec"]["nodeSelector"] == OURS
    assert _limits(lab, "wired") == {"nvidia.com/gpu": "2", "rdma/hca": "2"}
    assert _limits(lab, "parts") == {"nvidia.com/mig-1g.5gb": "3"}
    for name in ("greedy", "wide"):
        wait_until(partial(_is_infeasible, lab, name), f"{name} to be told that it never fits")
    assert lab.pods("full") == {}
    _refused(lab)
    _only_ours_are_listed(lab)


def _refused(lab: Lab) -> None:
    """What no administrator has allowed."""
    lab.submit("pushy", 1, priority_class="training")
    lab.submit("bold", 1, tolerations=["dedicated"])
    for name in ("pushy", "bold"):
        assert "this cluster allows" in lab.wait_for(name, "Failed")["status"]["message"]


def _only_ours_are_listed(lab: Lab) -> None:
    """Nor are the pods of others counted there."""
    resources = {"limits": {"nvidia.com/gpu": "2"}}
    body = {
        "metadata": {"name": "foreign"},
        "spec": {
            "nodeName": "other-0",
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
        },
    }
    lab.cluster.api.must("POST", pods_path("default"), body)
    page = asyncio.run(_listed(lab.cluster))
    assert {node.name: (node.gpus, node.used_gpus) for node in page.nodes} == {
        "plain-0": (4, 4),
        "wired-0": (4, 2),
        "parts-0": (7, 3),
    }
    assert {node.foreign_gpus for node in page.nodes} == {0}
    assert {node.name: node.state for node in page.nodes}["wired-0"] == "Ready"


async def _listed(cluster: ControlPlane) -> NodePage:
    api = await Api.connect(kubeconfig=str(cluster.kubeconfig("admin")))
    try:
        return await list_nodes(api, "lab")
    finally:
        await api.close()


def _limits(lab: Lab, name: str) -> dict[str, str]:
    (pod,) = lab.pods(name).values()
    found: dict[str, str] = pod["spec"]["containers"][0]["resources"]["limits"]
    return found


def _is_infeasible(lab: Lab, name: str) -> bool:
    return bool(lab.job(name).get("status", {}).get("reason") == "Constraint.Infeasible")
