"""The chart on a real API server: what is let in, who may do what, and whom it leaves alone."""

import http.client
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

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
from weft.kube.names import FINALIZER, JOB_LABEL, LEASE, jobs_path, pods_path, queues_path
from weft.kube.pods import PodMaker, WorkerSettings
from weft.model.ids import NodeId
from weft.model.placement import Seat
from weft.spec.job_file import JobSpec

pytestmark = pytest.mark.cluster

GOLDEN = Path(__file__).with_name("golden") / "rbac.yaml"
TEAM = "team-a"
RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
READ = ("get", "list", "watch")
WRITE = ("create", "update", "patch", "delete", "deletecollection")
SPECIAL = ("bind", "escalate", "impersonate", "use", "approve", "sign")
OPERATOR_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")

Right = tuple[str, str, str]


@pytest.fixture
def operator(cluster: ControlPlane) -> Iterator[Rest]:
    """A connection with the rights that the chart gives the operator."""
    kubeconfig = install_chart(cluster)
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


def test_helm_installs_upgrades_and_uninstalls(cluster: ControlPlane) -> None:
    where = ["--kubeconfig", str(cluster.kubeconfig()), "--namespace", NAMESPACE]
    helm("install", "weft", str(CHART), *where, "--create-namespace")
    deployment = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{OPERATOR}"
    assert cluster.api.must("GET", deployment)["spec"]["replicas"] == 2
    assert cluster.api.must("GET", queues_path("default"))["spec"]["borrowing"] is True
    helm("upgrade", "weft", str(CHART), *where, "--set", "replicas=3,defaultQueue.spec.limit=8")
    assert cluster.api.must("GET", deployment)["spec"]["replicas"] == 3
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
    may_create_leases = ("coordination.k8s.io", "leases", "create")
    assert {right for right in asked if review.may(right, NAMESPACE)} == {
        *everywhere,
        *EVERYBODY,
        may_create_leases,
    }
    lease = {right for right in asked if review.may(right, NAMESPACE, LEASE)}
    assert lease - everywhere - EVERYBODY == {
        may_create_leases,
        ("coordination.k8s.io", "leases", "get"),
        ("coordination.k8s.io", "leases", "update"),
    }


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
    status = {"metadata": {"resourceVersion": None}, "status": {"state": "Queued"}}
    maker = pod_maker(uid=job["metadata"]["uid"])
    pod = maker.pod(epoch=1, seats=SEATS, rank=0, leader=1)
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


# ------------------------------------------------------------------------------ guards


def test_only_the_operator_gives_the_label(cluster: ControlPlane, operator: Rest) -> None:
    wait_for_guards(cluster, operator)
    worker = worker_pod(cluster)
    said = cluster.api.send("POST", pods_path(TEAM), worker)
    assert said.status == 403
    assert "submit a TrainingJob instead" in said.message
    assert operator.send("POST", pods_path(TEAM), worker).status == 201
    cluster.api.must("POST", pods_path("default"), foreign_pod("mine"))
    path, own = pods_path("default", "mine"), pods_path(TEAM, worker["metadata"]["name"])
    assert label(cluster.api, path, {JOB_LABEL: "sft"}).status == 403
    assert label(cluster.api, own, {JOB_LABEL: "other"}).status == 403
    assert label(cluster.api, own, {JOB_LABEL: None}).status == 403
    assert label(cluster.api, own, {"note": "x"}).status == 200
    assert label(cluster.api, path, {"note": "x"}).status == 200


def test_the_operator_creates_workers_and_nothing_that_leads_further(
    cluster: ControlPlane, operator: Rest
) -> None:
    """In a namespace without PodSecurity, so that nothing but the guard says no."""
    wait_for_guards(cluster, operator)
    cluster.add_namespace("open")
    account = {"metadata": {"name": "strong"}}
    cluster.api.must("POST", "/api/v1/namespaces/open/serviceaccounts", account)
    path = f"{pods_path('open')}?dryRun=All"
    worker = worker_pod(cluster, namespace="open")
    assert operator.send("POST", path, worker).status == 201
    let_in = {}
    for name, spoil in SPOILS.items():
        pod = deepcopy(worker)
        spoil(pod)
        said = operator.send("POST", path, pod)
        if said.status != 422 or "weft-worker-shape" not in said.message:
            let_in[name] = (said.status, said.message)
    assert let_in == {}


def container(pod: Manifest) -> Manifest:
    first: Manifest = pod["spec"]["containers"][0]
    return first


def add_volume(**source: Any) -> Callable[[Manifest], None]:
    return lambda pod: pod["spec"]["volumes"].append({"name": "more", **source})


def secure(**settings: Any) -> Callable[[Manifest], None]:
    return lambda pod: container(pod)["securityContext"].update(settings)


def in_spec(**settings: Any) -> Callable[[Manifest], None]:
    return lambda pod: pod["spec"].update(settings)


def add_env(**source: Any) -> Callable[[Manifest], None]:
    return lambda pod: container(pod)["env"].append({"name": "MORE", "valueFrom": source})


ALL_DROPPED = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
SPOILS: Mapping[str, Callable[[Manifest], None]] = {
    "no label": lambda pod: pod["metadata"]["labels"].pop(JOB_LABEL),
    "no labels": lambda pod: pod["metadata"].pop("labels"),
    "no owner": lambda pod: pod["metadata"].pop("ownerReferences"),
    "another owner": lambda pod: pod["metadata"]["ownerReferences"][0].update(kind="Job"),
    "another account": in_spec(serviceAccountName="strong"),
    "a token": lambda pod: pod["spec"].pop("automountServiceAccountToken"),
    "a node": in_spec(nodeName="node-0"),
    "host network": in_spec(hostNetwork=True),
    "host processes": in_spec(hostPID=True),
    "host memory": in_spec(hostIPC=True),
    "host path": add_volume(hostPath={"path": "/"}),
    "a secret": add_volume(secret={"secretName": "x"}),
    "a config map": add_volume(configMap={"name": "x"}),
    "a projected secret": add_volume(projected={"sources": [{"secret": {"name": "x"}}]}),
    "a token for the API server": add_volume(
        projected={"sources": [{"serviceAccountToken": {"path": "token"}}]}
    ),
    "another token": add_volume(
        projected={"sources": [{"serviceAccountToken": {"path": "t", "audience": "vault"}}]}
    ),
    "secrets in the environment": lambda pod: container(pod).update(
        envFrom=[{"secretRef": {"name": "x"}}]
    ),
    "a secret in the environment": add_env(secretKeyRef={"name": "x", "key": "y"}),
    "a setting in the environment": add_env(configMapKeyRef={"name": "x", "key": "y"}),
    "root": lambda pod: pod["spec"]["securityContext"].update(runAsUser=0),
    "perhaps root": lambda pod: pod["spec"]["securityContext"].pop("runAsNonRoot"),
    "a container as root": secure(runAsUser=0),
    "a container perhaps as root": secure(runAsNonRoot=False),
    "privileged": secure(privileged=True, allowPrivilegeEscalation=True),
    "escalation": secure(allowPrivilegeEscalation=None),
    "a capability": secure(capabilities={"drop": ["ALL"], "add": ["NET_ADMIN"]}),
    "an init container": in_spec(
        initContainers=[{"name": "first", "image": "x", "securityContext": {}}]
    ),
    "an init container with a secret": in_spec(
        initContainers=[
            {
                "name": "first",
                "image": "x",
                "securityContext": ALL_DROPPED,
                "envFrom": [{"secretRef": {"name": "x"}}],
            }
        ]
    ),
}


def test_the_operator_deletes_workers_only(cluster: ControlPlane, operator: Rest) -> None:
    wait_for_guards(cluster, operator)
    cluster.api.must("POST", pods_path("default"), foreign_pod("mine"))
    said = operator.send("DELETE", pods_path("default", "mine"))
    assert said.status == 403
    assert "deletes pods with the label" in said.message
    worker = worker_pod(cluster)
    operator.must("POST", pods_path(TEAM), worker)
    assert operator.send("DELETE", pods_path(TEAM, worker["metadata"]["name"])).status == 200


def test_the_operator_makes_services_that_only_give_names(
    cluster: ControlPlane, operator: Rest
) -> None:
    wait_for_guards(cluster, operator)
    path = f"/api/v1/namespaces/{TEAM}/services?dryRun=All"
    service = pod_maker().service()
    assert operator.send("POST", path, service).status == 201
    for spec in (
        {"clusterIP": ""},
        {"clusterIP": "", "type": "LoadBalancer"},
        {"clusterIP": "", "type": "NodePort"},
        {"externalIPs": ["10.1.2.3"]},
    ):
        changed = {**service, "spec": {**service["spec"], **spec}}
        assert operator.send("POST", path, changed).status == 403


def test_the_guards_have_no_fault_that_the_server_knows(
    cluster: ControlPlane, operator: Rest
) -> None:
    policies = [m for m in render() if m["kind"] == "ValidatingAdmissionPolicy"]
    assert len(policies) == 4
    for policy in policies:
        until(lambda path=path_of(policy): "status" in cluster.api.must("GET", path))  # type: ignore[misc]
        status = cluster.api.must("GET", path_of(policy))["status"]
        assert not status["typeChecking"].get("expressionWarnings")


def test_without_an_operator_everybody_elses_pods_live_as_before(
    cluster: ControlPlane, operator: Rest
) -> None:
    """No operator runs here. Workers that are there go on, and foreign pods notice nothing."""
    wait_for_guards(cluster, operator)
    cluster.add_nodes(1)
    operator.must("POST", pods_path(TEAM), worker_pod(cluster))
    pods = [
        foreign_pod("plain"),
        foreign_pod("strong", hostNetwork=True, volumes=[{"name": "h", "hostPath": {"path": "/"}}]),
        foreign_pod("pinned", nodeName="node-0"),
    ]
    for pod in pods:
        cluster.api.must("POST", pods_path("default"), pod)
    names = [pod["metadata"]["name"] for pod in pods]
    until(lambda: all(phase(cluster, "default", name) == "Running" for name in names))
    until(lambda: phase(cluster, TEAM, "sft-1-0") == "Running")
    for name in names:
        assert label(cluster.api, pods_path("default", name), {"note": "x"}).status == 200
        assert cluster.api.send("DELETE", pods_path("default", name)).status == 200


# ------------------------------------------------------------------------------ helpers

SEATS = (Seat(node=NodeId("node-0"), gpus=1),)


class Reviews:
    """`kubectl auth can-i` for one user, over one connection."""

    def __init__(self, cluster: ControlPlane, user: str, groups: tuple[str, ...] | list[str] = ()):
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
        version = group["preferredVersion"]["groupVersion"]
        for resource in cluster.api.must("GET", f"/apis/{version}")["resources"]:
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


def wait_for_guards(cluster: ControlPlane, operator: Rest) -> None:
    """A policy is in force a moment after it is stored: until each has said no once."""
    cluster.api.must("POST", pods_path("default"), foreign_pod("probe"))
    pod, service = foreign_pod("other"), {"metadata": {"name": "other"}, "spec": {"ports": [PORT]}}
    labelled = {**pod, "metadata": {"name": "other", "labels": {JOB_LABEL: "x"}}}
    dry = "?dryRun=All"
    tries: list[tuple[Rest, str, str, object, int]] = [
        (cluster.api, "POST", pods_path("default") + dry, labelled, 403),
        (operator, "POST", pods_path("default") + dry, pod, 422),
        (operator, "DELETE", pods_path("default", "probe") + dry, None, 403),
        (operator, "POST", f"/api/v1/namespaces/default/services{dry}", service, 403),
    ]
    for who, verb, path, body, refused in tries:
        until(lambda t=(who, verb, path, body, refused): t[0].send(*t[1:4]).status == t[4])  # type: ignore[misc]
    cluster.api.must("DELETE", pods_path("default", "probe"), {"gracePeriodSeconds": 0})


PORT = {"port": 80}


def training_job(name: str) -> Manifest:
    about = {"apiVersion": "weft.dev/v1alpha1", "kind": "TrainingJob", "metadata": {"name": name}}
    return {**about, "spec": {"run": "true", "image": "busybox"}}


def pod_maker(*, namespace: str = TEAM, uid: str = "0" * 8) -> PodMaker:
    spec = JobSpec.model_validate(
        {"run": "true", "image": "busybox", "volumes": [{"claim": "data", "path": "/data"}]}
    )
    settings = WorkerSettings(report_url="http://weft")
    return PodMaker(settings, namespace=namespace, name="sft", uid=uid, spec=spec)


def worker_pod(cluster: ControlPlane, namespace: str = TEAM) -> Manifest:
    """As the operator makes it; without its claim, for which nobody has a volume here."""
    job = cluster.api.must("POST", jobs_path(namespace), training_job("sft"))
    maker = pod_maker(namespace=namespace, uid=job["metadata"]["uid"])
    pod = deepcopy(maker.pod(epoch=1, seats=SEATS, rank=0, leader=1))
    pod["spec"]["volumes"].pop()
    container(pod)["volumeMounts"].pop()
    return pod


def foreign_pod(name: str, **spec: Any) -> Manifest:
    body = {"containers": [{"name": "main", "image": "busybox"}], **spec}
    return {"metadata": {"name": name}, "spec": body}


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


def call(who: Rest, verb: str, path: str, body: object) -> Answer:
    if verb == "PATCH":
        return who.send(verb, path, body, MERGE_PATCH)
    return who.send(verb, path, body)


def label(who: Rest, path: str, labels: Mapping[str, str | None]) -> Answer:
    return who.send("PATCH", path, {"metadata": {"labels": labels}}, MERGE_PATCH)


def phase(cluster: ControlPlane, namespace: str, name: str) -> str:
    return str(cluster.api.must("GET", pods_path(namespace, name))["status"].get("phase"))


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
    return tuple(response.getheader(f"{prefix}-{what}-UID") for what in ("FlowSchema", "PriorityLevel"))  # type: ignore[return-value]


def until(done: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < deadline, f"waited {seconds:.0f} s"
        time.sleep(0.05)
