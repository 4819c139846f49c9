"""Jobs that share GPUs through one claim, on a real control plane: API server, controllers, DRA."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from weft.kube.client.api import Api
from weft.kube.devices import read_claim
from weft.kube.reading.node_reader import list_nodes
from weft.view.node_page import NodeLine, NodePage

DRIVER: Final = "gpu.weft.test"
API: Final = "/apis/resource.k8s.io/v1"
LOADS: Final = {"storage_seconds": 0.08, "gpu_seconds": 0.02}
COMPUTES: Final = {"storage_seconds": 0.01, "gpu_seconds": 0.08}
OPTIONS: Final = {
    "recipe": "fifo(spacing=0.1, interleave=true)",
    "gpu_class": DRIVER,
    "backoff_seconds": 1.0,
    "fence_seconds": 3.0,
}


@pytest.fixture
def kubeconfig(cluster: ControlPlane) -> Path:
    return install_chart(cluster, {"nodes": {"gpuClass": DRIVER}})


@pytest.fixture
def lab(cluster: ControlPlane, kubeconfig: Path) -> Lab:
    """One node with one GPU, which a driver publishes."""
    cluster.add_nodes(1, gpus=0)
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    body = {"metadata": {"name": DRIVER}, "spec": {"selectors": [selector]}}
    cluster.api.must("POST", f"{API}/deviceclasses", body)
    cluster.api.must("POST", f"{API}/resourceslices", a_slice("node-0", 1))
    return Lab(cluster)


@pytest.fixture
def operator(lab: Lab, kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS) as operator:
        yield operator


def a_slice(node: str, gpus: int) -> dict[str, Any]:
    memory = {"memory": {"value": "16Gi"}}
    return {
        "metadata": {"name": f"{node}-gpus"},
        "spec": {
            "driver": DRIVER,
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": f"gpu-{n}", "capacity": memory} for n in range(gpus)],
        },
    }


def submit(lab: Lab, name: str, stages: dict[str, float], gib: int = 4) -> None:
    lab.submit(name, 1, shareable=True, stages={**stages, "gpu_memory": f"{gib}GiB"})


def claims(lab: Lab) -> dict[str, dict[str, Any]]:
    path = f"{API}/namespaces/{lab.namespace}/resourceclaims"
    return {one["metadata"]["name"]: one for one in lab.cluster.api.must("GET", path)["items"]}


def others(lab: Lab, name: str) -> list[str]:
    company = lab.job(name).get("status", {}).get("company") or {}
    return list(company.get("others") or [])


def listed_nodes(lab: Lab) -> tuple[NodeLine, ...]:
    """As `weft nodes` shows them."""
    return page_of(lab).nodes


def page_of(lab: Lab) -> NodePage:
    async def asked() -> NodePage:
        api = await Api.connect(kubeconfig=str(lab.cluster.kubeconfig("admin")))
        try:
            return await list_nodes(api, lab.namespace)
        finally:
            await api.close()

    return asyncio.run(asked())


def in_company(lab: Lab, *names: str) -> None:
    for name in names:
        lab.await_workers(name)
    wait_until(lambda: all(others(lab, name) for name in names), f"{names} in company")


def test_members_share_one_claim_that_goes_with_the_last(
    lab: Lab, operator: OperatorProcess
) -> None:
    submit(lab, "loads", LOADS)
    lab.await_workers("loads")
    submit(lab, "computes", COMPUTES)
    in_company(lab, "loads", "computes")
    (claim,) = claims(lab).values()
    assert claim["metadata"]["name"] == "loads-1-0"
    assert {one["name"] for one in claim["metadata"]["ownerReferences"]} == {"loads", "computes"}
    used_by = {one["name"] for one in claim["status"]["reservedFor"]}
    assert used_by == {"loads-1-0", "computes-1-0"}
    told = lab.job("computes")["status"]
    assert told["company"]["others"] == ["lab/loads"]
    assert told["company"]["memoryGib"] == 8.0
    assert 1.5 < told["company"]["aggregate"] < 2.0
    assert [one["job"] for one in told["company"]["members"]] == ["lab/loads", "lab/computes"]
    assert told["decision"]["party"] == "lab/loads/1"
    (node,) = listed_nodes(lab)
    assert (node.gpus, node.used_gpus, node.jobs) == (1, 1, ("lab/computes", "lab/loads"))
    lab.finish("loads", 1)
    lab.wait_for("loads", "Succeeded")
    wait_until(lambda: not others(lab, "computes"), "the other to be alone")
    assert "loads-1-0" in claims(lab), "it is still in use"
    submit(lab, "third", LOADS)
    in_company(lab, "computes", "third")
    assert set(claims(lab)) == {"loads-1-0"}
    for name in ("computes", "third"):
        lab.finish(name, 1)
        lab.wait_for(name, "Succeeded")
    wait_until(lambda: not claims(lab), "the claim to go with the last one")


def test_an_operator_that_is_killed_finds_them_as_they_are(
    lab: Lab, operator: OperatorProcess, kubeconfig: Path, tmp_path: Path
) -> None:
    submit(lab, "loads", LOADS)
    lab.await_workers("loads")
    submit(lab, "computes", COMPUTES)
    in_company(lab, "loads", "computes")
    before = {name: pod["metadata"]["uid"] for name, pod in lab.pods().items()}
    operator.kill()
    with OperatorProcess(kubeconfig, tmp_path, name="two", options=OPTIONS):
        submit(lab, "third", COMPUTES)  # by its reason it is seen that somebody decides again
        wait_until(lambda: bool(lab.state("third")), "the next operator")
        assert {name: pod["metadata"]["uid"] for name, pod in lab.pods().items()} == before
        lab.finish("loads", 1)
        lab.wait_for("loads", "Succeeded")
        in_company(lab, "computes", "third")
        assert set(claims(lab)) == {"loads-1-0"}


def test_who_does_not_fit_or_is_of_another_namespace_waits(
    lab: Lab, operator: OperatorProcess
) -> None:
    """Memory of the GPUs comes from what the driver publishes."""
    submit(lab, "loads", LOADS, gib=10)
    lab.await_workers("loads")
    submit(lab, "large", COMPUTES, gib=10)
    other = Lab(lab.cluster, "elsewhere")
    submit(other, "computes", COMPUTES)
    for where, name in ((lab, "large"), (other, "computes")):
        where.wait_for(name, "Queued")
    wait_until(lambda: "noCompany" in lab.job("large")["status"], "a word on what kept it out")
    told = lab.job("large")["status"]["noCompany"]
    assert (told["closest"], told["guard"]) == (["lab/loads"], "memory")
    submit(lab, "small", COMPUTES)
    in_company(lab, "loads", "small")
    assert (lab.state("large"), other.state("computes")) == ("Queued", "Queued")
    assert "loads" not in str(other.job("computes")["status"]), "nothing is said of others' jobs"


def test_a_job_that_does_not_share_has_a_claim_of_its_own(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("alone", 1)
    lab.await_workers("alone")
    (pod,) = lab.pods("alone").values()
    (container,) = pod["spec"]["containers"]
    assert container["resources"]["claims"] == [{"name": "gpus"}]
    assert "nvidia.com/gpu" not in container["resources"].get("requests", {})
    assert pod["spec"]["resourceClaims"] == [{"name": "gpus", "resourceClaimName": "alone-1-0"}]
    lab.cancel("alone")
    lab.wait_for("alone", "Cancelled")
    wait_until(lambda: not claims(lab), "its claim to go")


def test_a_claim_that_somebody_else_made_is_left_alone(lab: Lab, operator: OperatorProcess) -> None:
    lab.cluster.api.must("POST", f"{API}/namespaces/lab/resourceclaims", a_claim("vit-1-0"))
    lab.submit("vit", 1)
    wait_until(lambda: bool(lab.job("vit").get("status", {}).get("past", {}).get("refusals")), "no")
    wait_until(lambda: "vit-2-0" in claims(lab), "another epoch, with a claim of its own")
    assert "vit-1-0" in claims(lab)


def test_a_node_grows_with_what_its_driver_publishes(lab: Lab, operator: OperatorProcess) -> None:
    lab.submit("wide", 2)
    lab.wait_for("wide", "Queued")
    path = f"{API}/resourceslices/node-0-gpus"
    known = lab.cluster.api.must("GET", path)
    known["spec"] = {**a_slice("node-0", 2)["spec"]}
    known["spec"]["pool"]["generation"] = 2
    lab.cluster.api.must("PUT", path, known)
    lab.await_workers("wide")


def test_devices_that_others_have_claimed_are_theirs(lab: Lab, operator: OperatorProcess) -> None:
    """Nobody but the claim says so: the pod that uses it asks for no resource by count."""
    path = f"{API}/namespaces/{lab.namespace}/resourceclaims"
    foreign = lab.cluster.api.must("POST", path, a_claim("theirs"))
    foreign["status"] = {"allocation": {"devices": {"results": [given("gpu-0")]}}}
    lab.cluster.api.must("PUT", f"{path}/theirs/status", foreign)
    wait_until(lambda: listed_nodes(lab)[0].foreign_gpus == 1, "the claim counts")
    lab.submit("vit", 1)
    lab.wait_for("vit", "Queued")
    assert "vit-1-0" not in claims(lab)
    lab.cluster.api.must("DELETE", f"{path}/theirs")
    lab.await_workers("vit")


def test_who_only_looks_on_holds_no_device() -> None:
    raw = a_claim("monitor") | {"metadata": {"uid": "u", "resourceVersion": "1"}}
    raw["status"] = {"allocation": {"devices": {"results": [given("gpu-0", adminAccess=True)]}}}
    assert not read_claim(raw).devices


def a_claim(name: str) -> dict[str, Any]:
    request = {"name": "x", "exactly": {"deviceClassName": DRIVER}}
    return {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}


def given(device: str, **more: Any) -> dict[str, Any]:
    return {"request": "x", "driver": DRIVER, "pool": "node-0", "device": device, **more}


def test_a_device_that_its_driver_taints_is_not_given_out(
    lab: Lab, operator: OperatorProcess
) -> None:
    path = f"{API}/resourceslices/node-0-gpus"

    def publish(*taints: dict[str, str]) -> None:
        known = lab.cluster.api.must("GET", path)
        generation = known["spec"]["pool"]["generation"] + 1
        known["spec"] = {**a_slice("node-0", 2)["spec"]}
        known["spec"]["pool"]["generation"] = generation
        known["spec"]["devices"][1]["taints"] = list(taints)
        lab.cluster.api.must("PUT", path, known)

    publish({"key": f"{DRIVER}/xid", "value": "79", "effect": "NoSchedule"})
    lab.submit("wide", 2)
    wait_until(lambda: lab.job("wide").get("status", {}).get("reason") == INFEASIBLE, "it to wait")
    (node,) = listed_nodes(lab)
    assert (node.gpus, node.tainted_gpus) == (1, 1)
    assert any("gpu-1 has the taint" in taint for taint in node.taints)
    publish()
    lab.await_workers("wide")


def test_a_device_that_a_rule_taints_is_not_given_out(lab: Lab, operator: OperatorProcess) -> None:
    rules = "/apis/resource.k8s.io/v1alpha3/devicetaintrules"
    taint = {"key": "example.com/broken", "value": "fan", "effect": "NoSchedule"}
    selected = {"driver": DRIVER, "pool": "node-0", "device": "gpu-0"}
    body = {"metadata": {"name": "fan"}, "spec": {"deviceSelector": selected, "taint": taint}}
    lab.cluster.api.must("POST", rules, body)
    seen = lambda: operator.log.exists() and "device_tainted" in operator.log.read_text()  # noqa: E731
    wait_until(seen, "the rule to be seen")
    lab.submit("vit", 1)
    wait_until(lambda: lab.job("vit").get("status", {}).get("reason") == INFEASIBLE, "it to wait")
    (node,) = listed_nodes(lab)
    assert (node.gpus, node.tainted_gpus, node.free_gpus) == (0, 1, 0)
    assert node.taints == ("gpu-0 has the taint example.com/broken=fan",)
    lab.cluster.api.must("DELETE", f"{rules}/fan")
    lab.await_workers("vit")


INFEASIBLE: Final = "Constraint.Infeasible"
