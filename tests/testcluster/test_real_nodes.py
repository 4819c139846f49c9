"""Real nodes keep their promises, so that a test that fails on them tells of Weft."""

import json
import urllib.request
from typing import Any

import pytest

from tests.testcluster.restricted_pods import (
    PODS,
    SERVICES,
    TEAM,
    Real,
    begin,
    ended,
    phase,
    pod,
    running,
    until,
)
from tools.testcluster import ControlPlane, network
from tools.testcluster.machine import CGROUPS
from tools.testcluster.real_nodes import GPU, TRAIN_IMAGE
from tools.testcluster.volumes import add_shared_volume
from weft.model.errors import WorldError

SERVE = """
import http.server
http.server.test(http.server.SimpleHTTPRequestHandler, port=8080)
"""
FETCH = """
import sys, urllib.request
for url in sys.argv[1:]:
    print(urllib.request.urlopen(url, timeout=10).status)
"""
ASK_API = """
import asyncio, ssl
from kubernetes_asyncio import client, config
async def ask():
    config.load_incluster_config()
    async with client.ApiClient() as api:
        await client.CoreV1Api(api).list_namespaced_pod("team-a")
try:
    asyncio.run(ask())
except client.ApiException as refused:
    print(refused.status, "system:serviceaccount:team-a:default" in refused.body)
"""
TRAIN = """
import torch
import torch.distributed as group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

group.init_process_group("gloo", init_method="tcp://127.0.0.1:29500", rank=0, world_size=1)
model = torch.nn.Linear(4, 4)
fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
model(torch.ones(2, 4)).sum().backward()
torch.optim.AdamW(model.parameters()).step()
print("trained with torch", torch.__version__)
"""


# ------------------------------------------------------------------ what runs on them


def test_they_show_gpus_and_go_on_showing_them(real: Real) -> None:
    nodes = {each["metadata"]["name"]: each for each in _nodes(real.plane)}
    assert set(nodes) == {"node-0", "node-1"}

    def spoken() -> str:
        ready = _node(real.plane, "node-0")["status"]["conditions"][-1]
        assert (ready["type"], ready["status"]) == ("Ready", "True")
        return str(ready["lastHeartbeatTime"])

    first = spoken()
    until(lambda: spoken() > first, what="a heartbeat")
    for name in nodes:
        status = _node(real.plane, name)["status"]
        assert status["capacity"][GPU] == status["allocatable"][GPU] == "2"


def test_a_restricted_pod_trains_with_torch_on_its_gpu(real: Real) -> None:
    body = pod("trains", "python", "-c", TRAIN, node="node-0", image=TRAIN_IMAGE)
    body["spec"]["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    assert ended(real.plane, body).startswith("trained with torch")


def test_a_pod_that_asks_for_more_than_a_tenant_may_have_is_refused(real: Real) -> None:
    body = pod("greedy", "true", node="node-0")
    body["spec"]["volumes"] = [{"name": "host", "hostPath": {"path": "/"}}]
    answer = real.plane.api.send("POST", PODS, body)
    assert answer.status == 403
    assert "restricted volume types" in answer.message


def test_weft_is_in_both_images(real: Real) -> None:
    script = "id -u; weft --version; python -c 'import weft.kube.operator'"
    said = ended(real.plane, pod("weft", "sh", "-c", script, node="node-1"))
    assert said.startswith("1000\nweft ")


def test_a_container_is_killed_at_its_memory_limit(real: Real) -> None:
    body = pod("fat", "python", "-c", "print(len('x' * 10**9))", node="node-1")
    body["spec"]["containers"][0]["resources"] = {"limits": {"memory": "100Mi"}}
    begin(real.plane, body, "Failed")
    status = real.plane.api.must("GET", f"{PODS}/fat")["status"]["containerStatuses"][0]
    assert status["state"]["terminated"]["reason"] == "OOMKilled"


# ------------------------------------------------------------------ how they reach one another


@pytest.fixture(scope="module")
def web(real: Real) -> None:
    """Two servers on two nodes, each by its own name, and both behind one address."""
    for index, node in enumerate(real.nodes.names):
        body = pod(f"web-{index}", "python", "-c", SERVE, node=node)
        body["metadata"]["labels"]["app"] = "web"
        body["spec"] |= {"hostname": f"web-{index}", "subdomain": "web"}
        body["spec"]["containers"][0]["readinessProbe"] = {
            "tcpSocket": {"port": 8080},
            "periodSeconds": 1,
        }
        running(real.plane, body)
    for name, extra in (("web", {"clusterIP": "None"}), ("front", {})):
        ports = [{"port": 80 if name == "front" else 8080, "targetPort": 8080}]
        spec = {"selector": {"app": "web"}, "ports": ports, **extra}
        real.plane.api.must("POST", SERVICES, {"metadata": {"name": name}, "spec": spec})
    until(lambda: len(_endpoints(real.plane, "front")) == 2, what="two endpoints")


@pytest.mark.parametrize("node", ["node-0", "node-1"])
def test_pods_find_each_other_by_name_on_every_node(real: Real, web: None, node: str) -> None:
    urls = [f"http://web-{index}.web.{TEAM}.svc:8080/" for index in range(2)]
    urls += [f"http://front.{TEAM}.svc/"] * 6  # some of them go to the pod's own node
    said = ended(real.plane, pod(f"client-{node}", "python", "-c", FETCH, *urls, node=node))
    assert said.split() == ["200"] * len(urls)


def test_a_pod_reaches_itself_through_its_service(real: Real, web: None) -> None:
    for _ in range(4):
        exec_in = ("exec", "-n", TEAM, "web-0", "--")
        fetch = ("python", "-c", FETCH, "http://front/")
        assert real.plane.kubectl(*exec_in, *fetch).strip() == "200"


def test_this_machine_reaches_services(real: Real, web: None) -> None:
    address = real.plane.api.must("GET", f"{SERVICES}/front")["spec"]["clusterIP"]
    with urllib.request.urlopen(f"http://{address}/", timeout=10) as answer:
        assert answer.status == 200


def test_a_pod_reaches_the_api_server_as_its_account(real: Real) -> None:
    said = ended(real.plane, pod("asks", "python", "-c", ASK_API, node="node-1"))
    assert said.split() == ["403", "True"]  # it is known, and may do nothing


def test_pods_on_both_nodes_share_a_volume(real: Real) -> None:
    folder = add_shared_volume(real.plane, TEAM, "checkpoints")
    for name, command, node in (
        ("writes", "echo kept > /checkpoints/step", "node-0"),
        ("reads", "cat /checkpoints/step", "node-1"),
    ):
        body = pod(name, "sh", "-c", command, node=node)
        claim = {"claimName": "checkpoints"}
        body["spec"]["volumes"] = [{"name": "shared", "persistentVolumeClaim": claim}]
        mount = {"name": "shared", "mountPath": "/checkpoints"}
        body["spec"]["containers"][0]["volumeMounts"] = [mount]
        said = ended(real.plane, body)
    assert said == "kept\n"
    assert (folder / "step").stat().st_uid == 1000


# ------------------------------------------------------------------ what befalls them


def test_containers_outlive_their_kubelet(real: Real) -> None:
    name = running(real.plane, pod("outlives", "sleep", "1000", node="node-1"))
    real.nodes.kill_kubelet("node-1")
    until(lambda: not real.nodes.is_ready("node-1"), what="silence noticed")
    assert "sleep 1000" in real.nodes.machine("node-1").call(["ps", "ax"])
    real.nodes.start_kubelet("node-1")
    assert phase(real.plane, name) == "Running"
    status = real.plane.api.must("GET", f"{PODS}/{name}")["status"]["containerStatuses"][0]
    assert status["restartCount"] == 0
    assert _node(real.plane, "node-1")["status"]["allocatable"][GPU] == "2"


def test_a_killed_node_is_noticed_and_comes_back_empty(real: Real) -> None:
    body = pod("lost", "sleep", "1000", node="node-1")
    body["spec"]["restartPolicy"] = "Always"
    name = running(real.plane, body)
    pids = _pids_of("node-1")
    real.nodes.kill("node-1")
    assert not _pids_of("node-1")
    assert len(pids) > 5
    until(lambda: not real.nodes.is_ready("node-1"), what="loss noticed")
    assert real.nodes.is_ready("node-0")
    unreachable = "node.kubernetes.io/unreachable"
    until(lambda: unreachable in _taints(real.plane, "node-1"), what="a taint")

    real.nodes.start("node-1")
    assert _node(real.plane, "node-1")["status"]["allocatable"][GPU] == "2"
    until(lambda: _restarts(real.plane, name) > 0, what="the pod started anew")
    assert ended(real.plane, pod("after", "echo", "back", node="node-1")) == "back\n"


def test_a_node_is_drained(real: Real) -> None:
    name = running(real.plane, pod("leaves", "sleep", "1000", node="node-0"))
    flags = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=60s")
    real.plane.kubectl("drain", "node-0", *flags)
    try:
        assert real.plane.api.send("GET", f"{PODS}/{name}").status == 404
    finally:
        real.plane.kubectl("uncordon", "node-0")


def test_a_second_cluster_is_told_to_wait(real: Real, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "_LOCK_SECONDS", 0.0)
    second = ControlPlane(real=True)
    try:
        with pytest.raises(WorldError, match="another cluster of real nodes"):
            second.start()
    finally:
        second.stop()
    assert real.nodes.is_ready("node-0")


def test_a_cluster_of_real_nodes_is_not_emptied_behind_their_backs(real: Real) -> None:
    with pytest.raises(WorldError, match="kubelets would not follow"):
        real.plane.reset()


def _nodes(plane: ControlPlane) -> list[dict[str, Any]]:
    return list(plane.api.must("GET", "/api/v1/nodes")["items"])


def _node(plane: ControlPlane, name: str) -> dict[str, Any]:
    return plane.api.must("GET", f"/api/v1/nodes/{name}")


def _taints(plane: ControlPlane, name: str) -> set[str]:
    return {str(each["key"]) for each in _node(plane, name)["spec"].get("taints", ())}


def _endpoints(plane: ControlPlane, service: str) -> list[str]:
    words = ("get", "endpointslices", "-n", TEAM, "-o", "json")
    label = f"kubernetes.io/service-name={service}"
    slices = json.loads(plane.kubectl(*words, "-l", label))["items"]
    endpoints = [each for part in slices for each in part["endpoints"] or ()]
    return [each["addresses"][0] for each in endpoints if each["conditions"]["ready"]]


def _restarts(plane: ControlPlane, name: str) -> int:
    statuses = plane.api.must("GET", f"{PODS}/{name}")["status"].get("containerStatuses")
    return int(statuses[0]["restartCount"]) if statuses else 0


def _pids_of(node: str) -> set[int]:
    """All processes in the node's cgroups, as this machine sees them."""
    files = (CGROUPS / "pids" / "weft-nodes" / node).rglob("cgroup.procs")
    return {int(pid) for file in files for pid in file.read_text().split()}
