"""What Weft believes of Kubernetes, asked of a real API server: one test for each belief.

The operator's safety rests on these. When a new version of Kubernetes breaks one of them, it is
this file that must say so, not a cluster. Requests are plain ones, so that nothing of Weft's own
client can hide or invent an answer.

One belief is not here, because kwok accepts every pod: a kubelet that is handed more than fits
fails the pod for good (phase `Failed`, reason `OutOfnvidia.com/gpu`); it does not go back to
waiting. So Weft pins pods and lets the scheduler bind them, and counts such a pod as refused.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.waiting import until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Answer,
    Rest,
)

PODS = "/api/v1/namespaces/default/pods"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
GATES = [{"name": "weft.dev/held"}]


@pytest.fixture
def api(api_server: ControlPlane) -> Rest:
    return api_server.api


# ------------------------------------------------------------------ creating and deleting


def test_a_name_is_taken_once(api: Rest) -> None:
    assert _create(api, "worker").status == 201
    again = _create(api, "worker")
    assert (again.status, again.body["reason"]) == (409, "AlreadyExists")


def test_a_deletion_spares_another_object_of_that_name(api: Rest) -> None:
    uid = _create(api, "worker").body["metadata"]["uid"]
    wrong = api.send("DELETE", f"{PODS}/worker", {"preconditions": {"uid": "0"}})
    assert (wrong.status, wrong.body["reason"]) == (409, "Conflict")
    assert api.send("GET", f"{PODS}/worker").status == 200
    assert api.send("DELETE", f"{PODS}/worker", {"preconditions": {"uid": uid}}).status == 200
    assert api.send("GET", f"{PODS}/worker").status == 404


def test_a_pod_may_be_created_on_a_node(api: Rest) -> None:
    created = _create(api, "worker", nodeName="nowhere")
    assert created.status == 201
    assert created.body["spec"]["nodeName"] == "nowhere"


def test_a_gated_pod_may_not_be_created_on_a_node(api: Rest) -> None:
    refused = _create(api, "worker", nodeName="nowhere", schedulingGates=GATES)
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    assert "spec.nodeName" in refused.message


# ------------------------------------------------------------------ binding


def test_a_binding_holds_for_one_pod_only(api: Rest) -> None:
    uid = _create(api, "worker").body["metadata"]["uid"]
    assert _bind(api, "worker", uid="0").status == 409
    assert _node_of(api, "worker") is None
    assert _bind(api, "worker", uid=uid).status == 201


def test_a_binding_holds_for_one_version_only(api: Rest) -> None:
    old = _create(api, "worker").body["metadata"]["resourceVersion"]
    change = {"metadata": {"labels": {"changed": "true"}}}
    new = api.must("PATCH", f"{PODS}/worker", change, MERGE_PATCH)["metadata"]["resourceVersion"]
    assert _bind(api, "worker", resourceVersion=old).status == 409
    assert _node_of(api, "worker") is None
    assert _bind(api, "worker", resourceVersion=new).status == 201


def test_a_pod_is_bound_once(api: Rest) -> None:
    _create(api, "worker")
    assert _bind(api, "worker", node="first").status == 201
    assert _bind(api, "worker", node="second").status == 409
    assert _bind(api, "worker", node="first").status == 409
    assert _node_of(api, "worker") == "first"


def test_a_gated_pod_is_not_bound(api: Rest) -> None:
    _create(api, "worker", schedulingGates=GATES)
    assert _bind(api, "worker").status == 409
    assert _node_of(api, "worker") is None


def test_the_annotations_of_a_binding_become_the_pods(api: Rest) -> None:
    created = _create(api, "worker").body["metadata"]
    assert _bind(api, "worker", annotations={"weft.dev/plan": "p1"}).status == 201
    pod = api.must("GET", f"{PODS}/worker")
    assert pod["spec"]["nodeName"] == "somewhere"
    assert pod["metadata"]["annotations"] == {"weft.dev/plan": "p1"}
    writes = _versions_since(api, created["resourceVersion"])
    assert writes[0]["spec"]["nodeName"] == "somewhere"
    assert writes[0]["metadata"]["annotations"] == {"weft.dev/plan": "p1"}


def test_a_binding_asks_neither_for_room_nor_for_the_node(api_server: ControlPlane) -> None:
    api = api_server.api
    api_server.add_nodes(1, gpus=8)
    for name in ("one", "two", "three"):
        _create(api, name, gpus=8)
        assert _bind(api, name, node="node-0").status == 201
    _create(api, "lost", gpus=8)
    assert _bind(api, "lost", node="no-such-node").status == 201


# ------------------------------------------------------------------ gated pods


def test_a_gated_pod_may_be_told_more_of_where_to_go(api: Rest) -> None:
    _create(api, "worker", schedulingGates=GATES, nodeSelector={"pool": "a"})
    added = {"spec": {"nodeSelector": {"rack": "r1"}}}
    assert api.send("PATCH", f"{PODS}/worker", added, MERGE_PATCH).status == 200
    for change in ({"pool": "b"}, {"pool": None}):
        refused = api.send(
            "PATCH", f"{PODS}/worker", {"spec": {"nodeSelector": change}}, MERGE_PATCH
        )
        assert (refused.status, refused.body["reason"]) == (422, "Invalid")
    assert _spec(api, "worker")["nodeSelector"] == {"pool": "a", "rack": "r1"}


def test_the_affinity_of_a_gated_pod_may_only_be_narrowed(api: Rest) -> None:
    _create(api, "worker", schedulingGates=GATES)
    pinned = _affinity(_field("node-0"))
    assert _patch_spec(api, "worker", {"affinity": pinned}).status == 200
    narrower = _affinity(_field("node-0"), _label("pool", "a"))
    assert _patch_spec(api, "worker", {"affinity": narrower}).status == 200
    assert _patch_spec(api, "worker", {"affinity": pinned}).status == 422
    assert _patch_spec(api, "worker", {"affinity": _affinity(_field("node-1"))}).status == 422
    assert _patch_spec(api, "worker", {"affinity": None}).status == 422


def test_gates_are_taken_off_and_never_put_on(api: Rest) -> None:
    _create(api, "worker", schedulingGates=[*GATES, {"name": "weft.dev/second"}])
    more = [*GATES, {"name": "weft.dev/second"}, {"name": "weft.dev/third"}]
    assert _patch_spec(api, "worker", {"schedulingGates": more}).status == 422
    assert _patch_spec(api, "worker", {"schedulingGates": GATES}).status == 200
    assert _patch_spec(api, "worker", {"schedulingGates": None}).status == 200
    assert _patch_spec(api, "worker", {"schedulingGates": GATES}).status == 422


@pytest.mark.parametrize(
    "change",
    [
        {"nodeName": "node-0"},
        {"schedulerName": "other"},
        {"terminationGracePeriodSeconds": 5},
        {"containers": [{"name": "worker", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
    ],
    ids=["node", "scheduler", "grace", "GPUs"],
)
def test_nothing_else_of_a_gated_pod_changes(api: Rest, change: dict[str, Any]) -> None:
    _create(api, "worker", schedulingGates=GATES)
    refused = api.send("PATCH", f"{PODS}/worker", {"spec": change}, STRATEGIC_PATCH)
    assert (refused.status, refused.body["reason"]) == (422, "Invalid")


def test_an_open_pod_is_told_no_more_of_where_to_go(api: Rest) -> None:
    _create(api, "worker")
    assert _patch_spec(api, "worker", {"nodeSelector": {"pool": "a"}}).status == 422
    assert _patch_spec(api, "worker", {"affinity": _affinity(_field("node-0"))}).status == 422


# ------------------------------------------------------------------ resizing


def test_a_pod_is_resized_in_cpu_and_memory(api: Rest) -> None:
    _create(api, "worker", cpu="1", memory="1Gi")
    assert _resize(api, "worker", {"cpu": "2", "memory": "2Gi"}).status == 200
    requests = _spec(api, "worker")["containers"][0]["resources"]["requests"]
    assert (requests["cpu"], requests["memory"]) == ("2", "2Gi")


def test_a_pod_is_not_resized_in_gpus(api: Rest) -> None:
    _create(api, "worker", gpus=4, cpu="1", memory="1Gi")
    refused = _resize(api, "worker", {"nvidia.com/gpu": "8"})
    assert refused.status == 422
    assert "only cpu and memory resources are mutable" in refused.message


# ------------------------------------------------------------------ several writers


def test_a_field_of_another_manager_is_taken_by_force_only(api: Rest) -> None:
    assert _apply(api, "first", "1").status == 201
    refused = _apply(api, "second", "2")
    assert (refused.status, refused.body["reason"]) == (409, "Conflict")
    assert 'conflict with "first"' in refused.message
    assert refused.body["details"]["causes"][0]["field"] == ".data.width"
    assert api.must("GET", f"{CONFIG_MAPS}/shared")["data"] == {"width": "1"}

    assert _apply(api, "second", "2", force=True).status == 200
    assert api.must("GET", f"{CONFIG_MAPS}/shared")["data"] == {"width": "2"}


def test_a_lease_is_renewed_by_who_saw_it_last(api: Rest) -> None:
    lease = {"metadata": {"name": "leader"}, "spec": {"holderIdentity": "a"}}
    seen = api.must("POST", LEASES, lease)
    renewed = {**seen, "spec": {"holderIdentity": "b"}}
    assert api.send("PUT", f"{LEASES}/leader", renewed).status == 200
    late = api.send("PUT", f"{LEASES}/leader", {**seen, "spec": {"holderIdentity": "c"}})
    assert (late.status, late.body["reason"]) == (409, "Conflict")
    assert api.must("GET", f"{LEASES}/leader")["spec"]["holderIdentity"] == "b"


# ------------------------------------------------------------------ the stock scheduler


def test_a_pinned_pod_is_bound_to_its_node(cluster: ControlPlane) -> None:
    cluster.add_nodes(4, gpus=8)
    for index in range(4):
        _create_pinned(cluster.api, f"worker-{index}", node=f"node-{index}")
    for index in range(4):
        _wait_for(cluster.api, f"worker-{index}", phase="Running")
        assert _node_of(cluster.api, f"worker-{index}") == f"node-{index}"


def test_a_pod_pinned_to_a_full_node_waits_and_says_why(cluster: ControlPlane) -> None:
    cluster.add_nodes(2, gpus=8)
    _create_pinned(cluster.api, "first", node="node-0")
    _wait_for(cluster.api, "first", phase="Running")

    _create_pinned(cluster.api, "second", node="node-0")

    pod = _wait_for(cluster.api, "second", condition="PodScheduled")
    scheduled = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in scheduled["message"]
    assert pod["status"]["phase"] == "Pending"
    cluster.api.must("DELETE", f"{PODS}/first")
    _wait_for(cluster.api, "second", phase="Running")


# ------------------------------------------------------------------ words of these tests


def _create(
    api: Rest,
    name: str,
    *,
    gpus: int = 0,
    cpu: str = "",
    memory: str = "",
    schedulerName: str = "nobody",  # noqa: N803
    **spec: object,
) -> Answer:
    """Create a pod; without a word on it no scheduler takes it."""
    asked = {"cpu": cpu, "memory": memory, "nvidia.com/gpu": str(gpus or "")}
    amounts = {key: value for key, value in asked.items() if value}
    worker = {
        "name": "worker",
        "image": "none",
        "resources": {"requests": amounts, "limits": amounts},
    }
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [worker], "schedulerName": schedulerName, **spec},
    }
    return api.send("POST", PODS, body)


def _create_pinned(api: Rest, name: str, *, node: str) -> None:
    affinity = _affinity(_field(node))
    created = _create(api, name, gpus=8, affinity=affinity, schedulerName="default-scheduler")
    assert created.status == 201


def _bind(
    api: Rest,
    name: str,
    *,
    node: str = "somewhere",
    annotations: Mapping[str, str] | None = None,
    **precondition: str,
) -> Answer:
    metadata = {"name": name, "annotations": dict(annotations or {}), **precondition}
    body = {"metadata": metadata, "target": {"kind": "Node", "name": node}}
    return api.send("POST", f"{PODS}/{name}/binding", body)


def _affinity(*terms: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    term: dict[str, list[dict[str, Any]]] = {}
    for kind, requirement in terms:
        term.setdefault(kind, []).append(requirement)
    required = {"nodeSelectorTerms": [term]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _field(node: str) -> tuple[str, dict[str, Any]]:
    return "matchFields", {"key": "metadata.name", "operator": "In", "values": [node]}


def _label(key: str, value: str) -> tuple[str, dict[str, Any]]:
    return "matchExpressions", {"key": key, "operator": "In", "values": [value]}


def _patch_spec(api: Rest, name: str, change: Mapping[str, object]) -> Answer:
    """Replace whole fields of the spec; None takes one away."""
    patch: Sequence[Mapping[str, object]] = [
        {"op": "remove", "path": f"/spec/{field}"}
        if value is None
        else {"op": "add", "path": f"/spec/{field}", "value": value}
        for field, value in change.items()
    ]
    return api.send("PATCH", f"{PODS}/{name}", patch, JSON_PATCH)


def _resize(api: Rest, name: str, amounts: Mapping[str, str]) -> Answer:
    worker = {"name": "worker", "resources": {"requests": amounts, "limits": amounts}}
    body = {"spec": {"containers": [worker]}}
    return api.send("PATCH", f"{PODS}/{name}/resize", body, STRATEGIC_PATCH)


def _apply(api: Rest, manager: str, width: str, *, force: bool = False) -> Answer:
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shared"},
        "data": {"width": width},
    }
    query = f"?fieldManager={manager}&force={str(force).lower()}"
    return api.send("PATCH", f"{CONFIG_MAPS}/shared{query}", body, APPLY_PATCH)


def _spec(api: Rest, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = api.must("GET", f"{PODS}/{name}")["spec"]
    return spec


def _node_of(api: Rest, name: str) -> str | None:
    return _spec(api, name).get("nodeName")


def _versions_since(api: Rest, version: str) -> list[dict[str, Any]]:
    """Every state that pods have had after that version."""
    _, raw = api.raw("GET", f"{PODS}?watch=1&resourceVersion={version}&timeoutSeconds=1")
    return [json.loads(line)["object"] for line in raw.splitlines()]


def _wait_for(
    api: Rest, name: str, *, phase: str | None = None, condition: str | None = None
) -> dict[str, Any]:
    def found() -> dict[str, Any] | None:
        pod = api.must("GET", f"{PODS}/{name}")
        conditions = {each["type"] for each in pod["status"].get("conditions", ())}
        there = phase in (None, pod["status"]["phase"]) and condition in (None, *conditions)
        return pod if there else None

    pod = until(
        found, f"{name}: {phase or condition}", state=lambda: api.must("GET", f"{PODS}/{name}")
    )
    assert pod is not None
    return pod
