"""The chart on a real API server: it is taken, it gives what it should, and that suffices."""

import http.client
import ssl
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.chart.objects import SEATS, TEAM, pod_maker, training_job, until
from tests.kube.installed import (
    CHART,
    NAMESPACE,
    OPERATOR,
    Manifest,
    helm,
    install_chart,
    path_of,
    render,
    token_of,
)
from tools.testcluster import ControlPlane
from tools.testcluster.rest import APPLY_PATCH, MERGE_PATCH, Answer, Rest
from weft.kube.names import FINALIZER, LEASE, jobs_path, pods_path, queues_path

GOLDEN = Path(__file__).with_name("golden") / "rbac.yaml"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
SPECIAL = ("bind", "escalate", "impersonate", "use", "approve", "sign")
OPERATOR_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")

Right = tuple[str, str, str]


VALUES = {"nodes": {"gpuClass": "gpu.example.com"}, "failures": {"trialMinutes": 10}}
"""With which the operator has every right that it ever has."""


@pytest.fixture
def operator(cluster: ControlPlane) -> Iterator[Rest]:
    """A connection with the rights that the chart gives the operator."""
    kubeconfig = install_chart(cluster, VALUES)
    cluster.add_namespace(TEAM, RESTRICTED)
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as connection:
        yield connection


# ------------------------------------------------------------------------------ installation


def test_everything_is_taken_and_taken_again(cluster: ControlPlane) -> None:
    install_chart(cluster)
    kinds = [m for m in render() if m["kind"] != "Deployment"]
    before = {path_of(m): version_of(cluster, m) for m in kinds}
    install_chart(cluster)
    assert {path_of(m): version_of(cluster, m) for m in kinds} == before


def test_the_operators_pods_are_let_into_a_restricted_namespace(cluster: ControlPlane) -> None:
    install_chart(cluster)
    (deployment,) = [m for m in render() if m["kind"] == "Deployment"]
    strict = "?fieldManager=chart&dryRun=All&fieldValidation=Strict"
    cluster.api.must("PATCH", path_of(deployment) + strict, deployment, APPLY_PATCH)
    template = deployment["spec"]["template"]
    pod = {"metadata": {"name": "operator", **template["metadata"]}, "spec": template["spec"]}
    assert cluster.api.send("POST", f"{pods_path(NAMESPACE)}?dryRun=All", pod).status == 201


@pytest.mark.slow
def test_helm_installs_upgrades_and_uninstalls(cluster: ControlPlane) -> None:
    where = ["--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE]
    said = helm("install", "weft", str(CHART), *where, "--create-namespace")
    assert "weft submit job.yaml" in said
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{OPERATOR}"
    assert cluster.api.must("GET", deployment)["spec"]["replicas"] == 2
    assert cluster.api.must("GET", queues_path("default"))["spec"]["borrowing"] is True
    secret = f"/api/v1/namespaces/{NAMESPACE}/secrets/{OPERATOR}-reports"
    certificate = cluster.api.must("GET", secret)["data"]
    changes = ["--reset-then-reuse-values", "--set", "replicas=3,defaultQueue.spec.limit=8"]
    helm("upgrade", "weft", str(CHART), *where, *changes)
    assert cluster.api.must("GET", deployment)["spec"]["replicas"] == 3
    assert cluster.api.must("GET", secret)["data"] == certificate, "workers know its authority"
    assert cluster.api.must("GET", queues_path("default"))["spec"]["limit"] == 8
    cluster.api.must("POST", jobs_path("default"), training_job("kept"))
    helm("uninstall", "weft", *where)
    assert cluster.api.send("GET", deployment).status == 404
    assert cluster.api.send("GET", f"{RBAC}/clusterroles/{OPERATOR}").status == 404
    assert cluster.api.send("GET", jobs_path("default", "kept")).status == 200


RBAC = "/apis/rbac.authorization.k8s.io/v1"


# ------------------------------------------------------------------------------ who may do what


def test_the_operator_may_do_what_the_golden_file_says_and_nothing_else(
    cluster: ControlPlane, operator: Rest
) -> None:
    roles = {role["role"]: role for role in yaml.safe_load(GOLDEN.read_text())}
    everywhere = set(granted(roles[f"ClusterRole {OPERATOR}"]))
    review = Reviews(cluster, f"system:serviceaccount:{NAMESPACE}:{OPERATOR}", OPERATOR_GROUPS)
    asked = {(*right, verb) for right in resources(cluster) for verb in READ + WRITE + SPECIAL}
    assert {right for right in asked if review.may(right, TEAM)} == everywhere | EVERYBODY
    leases = {right for right in asked if right[1] == "leases"}
    create = ("coordination.k8s.io", "leases", "create")
    assert {right for right in leases if review.may(right, NAMESPACE)} == {create}
    named = {right[2] for right in leases if review.may(right, NAMESPACE, LEASE)}
    assert named == {"create", "get", "update"}
    slices = {right for right in asked if right[1] == "endpointslices"}
    assert not {right for right in slices if review.may(right, NAMESPACE)}
    named = {right[2] for right in slices if review.may(right, NAMESPACE, OPERATOR)}
    assert named == {"create", "patch"}


# Whoever is logged in may ask about themselves.
EVERYBODY: set[Right] = {
    ("authentication.k8s.io", "selfsubjectreviews", "create"),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "create"),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "create"),
}


def test_an_editor_of_a_namespace_may_use_it_and_no_other(
    cluster: ControlPlane, operator: Rest
) -> None:
    grant(cluster, "edit", "alice")
    alice = Reviews(cluster, "alice")
    until(lambda: alice.may(("weft.dev", "trainingjobs", "create"), TEAM))
    verbs = READ + WRITE
    names = ("trainingjobs", "trainingjobs/status", "queues", "queues/status")
    asked = [("weft.dev", name, verb) for name in names for verb in verbs]
    allowed = {right for right in asked if alice.may(right, TEAM)}
    assert allowed == {("weft.dev", "trainingjobs", verb) for verb in verbs}
    assert not [right for right in asked if alice.may(right, "team-b")]
    assert not [right for right in asked if alice.may(right)]


def test_an_editor_works_with_jobs_and_not_with_what_weft_says_about_them(
    cluster: ControlPlane, operator: Rest
) -> None:
    grant(cluster, "edit", "alice")
    until(lambda: Reviews(cluster, "alice").may(("weft.dev", "trainingjobs", "create"), TEAM))
    cancel = {"metadata": {"annotations": {"weft.dev/cancel": "true"}}}
    state = {"status": {"state": "Succeeded"}}
    queue = {"apiVersion": "weft.dev/v1alpha1", "kind": "Queue", "metadata": {"name": "mine"}}
    with cluster.connect("alice") as alice:
        assert alice.send("POST", jobs_path(TEAM), training_job("sft")).status == 201
        assert alice.send("PATCH", jobs_path(TEAM, "sft"), cancel, MERGE_PATCH).status == 200
        path = f"{jobs_path(TEAM, 'sft')}/status"
        assert alice.send("PATCH", path, state, MERGE_PATCH).status == 403
        assert alice.send("POST", jobs_path("default"), training_job("sft")).status == 403
        assert alice.send("POST", queues_path(), {**queue, "spec": {}}).status == 403
        assert alice.send("GET", queues_path()).status == 403
        assert alice.send("DELETE", jobs_path(TEAM, "sft")).status == 200


def test_a_viewer_of_a_namespace_reads_its_jobs(cluster: ControlPlane, operator: Rest) -> None:
    grant(cluster, "view", "bob")
    bob = Reviews(cluster, "bob")
    until(lambda: bob.may(("weft.dev", "trainingjobs", "list"), TEAM))
    asked = [("weft.dev", "trainingjobs", verb) for verb in READ + WRITE]
    assert [verb for *_, verb in (right for right in asked if bob.may(right, TEAM))] == [*READ]


def test_named_groups_read_queues_nodes_and_who_leads(cluster: ControlPlane) -> None:
    install_chart(cluster, {"access": {"clusterViewers": ["researchers"]}})
    inside, outside = Reviews(cluster, "carol", ["researchers"]), Reviews(cluster, "carol")
    until(lambda: inside.may(("", "nodes", "list")))
    for verb in READ:
        assert inside.may(("weft.dev", "queues", verb))
        assert inside.may(("", "nodes", verb))
        assert not outside.may(("weft.dev", "queues", verb))
    assert inside.may(("coordination.k8s.io", "leases", "list"), NAMESPACE, LEASE)
    assert not inside.may(("coordination.k8s.io", "leases", "list"), NAMESPACE)
    assert not any(inside.may(("weft.dev", "queues", verb)) for verb in WRITE)
    assert not any(inside.may(("", "nodes", verb)) for verb in WRITE)


# ------------------------------------------------------------------------------ a job's life


def test_the_rights_suffice_for_a_jobs_life(cluster: ControlPlane, operator: Rest) -> None:
    """Each call that the operator makes, once, with its own token."""
    job = cluster.api.must("POST", jobs_path(TEAM), training_job("sft"))
    path = jobs_path(TEAM, "sft")
    finalizers = {"metadata": {"finalizers": [FINALIZER]}}
    status = {"status": {"state": "Queued"}}
    maker = pod_maker(uid=job["metadata"]["uid"])
    pod = maker.pod(epoch=1, seats=SEATS, number=0, leader=1)
    calls: list[tuple[str, str, object]] = [
        ("GET", jobs_path(), None),
        ("GET", queues_path(), None),
        ("GET", pods_path(), None),
        ("GET", "/api/v1/nodes", None),
        ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}}),
        ("POST", LEASES, lease()),
        ("GET", f"{LEASES}/{LEASE}", None),
        ("PATCH", path, finalizers),
        ("PATCH", f"{path}/status", status),
        ("PATCH", f"{queues_path('default')}/status", {"status": {"used": 0}}),
        ("POST", f"/api/v1/namespaces/{TEAM}/services", maker.service()),
        ("POST", pods_path(TEAM), pod),
        ("GET", pods_path(TEAM, "sft-1-0"), None),
        ("POST", f"/apis/events.k8s.io/v1/namespaces/{TEAM}/events", event()),
        ("DELETE", pods_path(TEAM, "sft-1-0"), {"gracePeriodSeconds": 0}),
        ("PATCH", path, {"metadata": {"finalizers": None}}),
        ("DELETE", path, None),
    ]
    answers = {f"{verb} {where}": call(operator, verb, where, body) for verb, where, body in calls}
    assert {name: a.message for name, a in answers.items() if a.status >= 300} == {}
    held = operator.must("GET", f"{LEASES}/{LEASE}")
    assert operator.send("PUT", f"{LEASES}/{LEASE}", held).status == 200


LEASES = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"


def test_the_operators_requests_have_a_level_of_their_own(
    cluster: ControlPlane, operator: Rest
) -> None:
    schemas = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas"
    levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"
    own, leading = (
        (uid_of(cluster, f"{schemas}/{schema}"), uid_of(cluster, f"{levels}/{level}"))
        for schema, level in ((OPERATOR, OPERATOR), (f"{OPERATOR}-lease", "leader-election"))
    )
    token = token_of(cluster.service_account_kubeconfig(NAMESPACE, OPERATOR))
    until(lambda: flow(cluster, token, jobs_path()) == own)
    until(lambda: flow(cluster, token, f"{LEASES}/{LEASE}") == leading)


# ------------------------------------------------------------------------------ helpers


class Reviews:
    """`kubectl auth can-i` for one user, over one connection."""

    def __init__(self, cluster: ControlPlane, user: str, groups: Iterable[str] = ()) -> None:
        self._api = cluster.api
        self._who = {"user": user, "groups": [*groups, "system:authenticated"]}

    def may(self, right: Right, namespace: str = "", name: str = "") -> bool:
        group, resource, verb = right
        resource, _, sub = resource.partition("/")
        asked = {"group": group, "resource": resource, "subresource": sub, "verb": verb}
        body = {"resourceAttributes": {**asked, "namespace": namespace, "name": name}, **self._who}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        return bool(self._api.must("POST", path, {"spec": body})["status"]["allowed"])


def resources(cluster: ControlPlane) -> Iterator[tuple[str, str]]:
    """Every resource that the server has, sub-resources included."""
    for resource in cluster.api.must("GET", "/api/v1")["resources"]:
        yield "", resource["name"]
    for group in cluster.api.must("GET", "/apis")["groups"]:
        for version in group["versions"]:
            for resource in cluster.api.must("GET", f"/apis/{version['groupVersion']}")[
                "resources"
            ]:
                yield group["name"], resource["name"]


def granted(role: Mapping[str, Any]) -> Iterator[Right]:
    for rule in role["rules"]:
        for resource in rule["resources"]:
            for verb in rule["verbs"]:
                yield rule["apiGroups"][0], resource, verb


def grant(cluster: ControlPlane, role: str, user: str) -> None:
    subject = {"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "ClusterRole", "name": role, "apiGroup": "rbac.authorization.k8s.io"}
    binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": [subject]}
    cluster.api.must("POST", f"{RBAC}/namespaces/{TEAM}/rolebindings", binding)


def lease() -> Manifest:
    return {"metadata": {"name": LEASE}, "spec": {"holderIdentity": "one"}}


def event() -> Manifest:
    return {
        "metadata": {"name": "sft.1"},
        "regarding": {"kind": "TrainingJob", "name": "sft", "namespace": TEAM},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "weft.dev/operator",
        "reportingInstance": "one",
        "action": "Wait",
        "reason": "CapacityBusy",
        "type": "Normal",
        "note": "waits",
    }


def version_of(cluster: ControlPlane, manifest: Manifest) -> str:
    about = cluster.api.must("GET", path_of(manifest))["metadata"]
    return str(about.get("generation", about["resourceVersion"]))


def uid_of(cluster: ControlPlane, path: str) -> str:
    return str(cluster.api.must("GET", path)["metadata"]["uid"])


def flow(cluster: ControlPlane, token: str, path: str) -> tuple[str | None, str | None]:
    """The flow schema and the priority level that a request fell under."""
    context = ssl.create_default_context(cafile=str(cluster.ca))
    port = cluster.layout.api_port
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=10)
    connection.request("GET", path, headers={"Authorization": f"Bearer {token}"})
    response = connection.getresponse()
    response.read()
    connection.close()
    prefix = "X-Kubernetes-PF"
    schema, level = f"{prefix}-FlowSchema-UID", f"{prefix}-PriorityLevel-UID"
    return response.getheader(schema), response.getheader(level)


def call(who: Rest, verb: str, path: str, body: object) -> Answer:
    if verb == "PATCH":
        return who.send(verb, path, body, MERGE_PATCH)
    return who.send(verb, path, body)
