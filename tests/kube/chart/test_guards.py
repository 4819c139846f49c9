"""The chart's second guards, in force on a real API server: what they refuse, and to whom."""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from functools import partial
from itertools import product
from typing import Any

import pytest

from tests.kube.chart.objects import (
    TEAM,
    container,
    foreign_pod,
    pod_maker,
    training_job,
    until,
    worker_pod,
)
from tests.kube.installed import (
    NAMESPACE,
    Manifest,
    install_chart,
    path_of,
    render,
    token_of,
)
from tools.testcluster import ControlPlane
from tools.testcluster.rest import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Answer,
    Rest,
)
from weft.kube.claims import claim, claims_path
from weft.kube.names import (
    EPOCH_LABEL,
    JOB_LABEL,
    LEADER_ANNOTATION,
    PLACEHOLDER_LABEL,
    PROBE_LABEL,
    QUEUE_LABEL,
    RANK_LABEL,
    REPORT_CA_ANNOTATION,
    jobs_path,
    pods_path,
)
from weft.kube.pods import owner_of
from weft.kube.resources.training_job import manifest

LABELS = (
    *(JOB_LABEL, EPOCH_LABEL, RANK_LABEL, QUEUE_LABEL, PLACEHOLDER_LABEL, PROBE_LABEL),
    "weft.dev/of-a-later-version",
)
CHANGES = (
    *(("labels", name, "7") for name in LABELS),
    ("labels", JOB_LABEL, None),
    ("annotations", LEADER_ANNOTATION, "7"),
    ("annotations", LEADER_ANNOTATION, None),
    ("annotations", REPORT_CA_ANNOTATION, "mine"),
)
TAKE_METADATA = ("", "/status")
# The last two ignore metadata, and need not do so in another version of the API server.
SUBRESOURCES = (*TAKE_METADATA, "/ephemeralcontainers", "/resize")


@pytest.fixture
def operator(cluster: ControlPlane) -> Iterator[Rest]:
    """A connection with the operator's token, when every guard has said no once."""
    kubeconfig = install_chart(cluster)
    cluster.add_namespace(TEAM, {"pod-security.kubernetes.io/enforce": "restricted"})
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as connection:
        wait_for_guards(cluster, connection)
        yield connection


def test_only_the_operator_gives_the_label(cluster: ControlPlane, operator: Rest) -> None:
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
    for trusted in (EPOCH_LABEL, RANK_LABEL, QUEUE_LABEL):
        assert label(cluster.api, own, {trusted: "7"}).status == 403
    assert label(cluster.api, own, {"note": "x"}).status == 200
    stolen = {"metadata": {"ownerReferences": None}}
    assert cluster.api.send("PATCH", own, stolen, MERGE_PATCH).status == 403
    assert label(cluster.api, path, {"note": "x"}).status == 200


def test_labels_and_annotations_of_a_worker_stay_as_the_operator_wrote_them(
    cluster: ControlPlane, operator: Rest
) -> None:
    worker = operator.must("POST", pods_path(TEAM), worker_pod(cluster))
    path = pods_path(TEAM, worker["metadata"]["name"])
    marks = own_marks(worker)
    assert JOB_LABEL in marks["labels"] and LEADER_ANNOTATION in marks["annotations"]
    for subresource, (kind, name, value) in product(SUBRESOURCES, CHANGES):
        patch = {"metadata": {kind: {name: value}}}
        said = cluster.api.send("PATCH", f"{path}{subresource}", patch, STRATEGIC_PATCH)
        assert own_marks(cluster.api.must("GET", path)) == marks, (subresource, name, said)
        if subresource in TAKE_METADATA:
            assert said.status == 403, (subresource, name, said.message)
            assert "leave them as they are" in said.message
    for subresource in SUBRESOURCES:
        stored = cluster.api.must("GET", path)
        stored["metadata"]["labels"][PLACEHOLDER_LABEL] = "x"
        cluster.api.send("PUT", f"{path}{subresource}", stored)
        assert own_marks(cluster.api.must("GET", path)) == marks, subresource


def test_other_accounts_write_the_rest_of_a_worker(cluster: ControlPlane, operator: Rest) -> None:
    """A kubelet writes the status, people their own labels and annotations."""
    worker = operator.must("POST", pods_path(TEAM), worker_pod(cluster))
    path = pods_path(TEAM, worker["metadata"]["name"])
    status = {"status": {"phase": "Running", "message": "x"}}
    assert cluster.api.send("PATCH", f"{path}/status", status, STRATEGIC_PATCH).status == 200
    own = {"metadata": {"labels": {"note": "x"}, "annotations": {"example.com/a": "y"}}}
    assert cluster.api.send("PATCH", path, own, STRATEGIC_PATCH).status == 200
    assert cluster.api.send("DELETE", path).status == 200


def test_other_accounts_cannot_label_pods_as_the_operator_does(
    cluster: ControlPlane, operator: Rest
) -> None:
    cluster.api.must("POST", pods_path("default"), foreign_pod("mine"))
    for name in LABELS:
        made = foreign_pod("other")
        made["metadata"]["labels"] = {name: "x"}
        said = cluster.api.send("POST", pods_path("default"), made)
        assert said.status == 403 and "submit a TrainingJob instead" in said.message
        refuses_label(cluster.api, pods_path("default", "mine"), name)


def refuses_label(api: Rest, path: str, name: str) -> None:
    """Through every verb and subresource that writes labels of a pod."""
    for change in (
        (f"{path}", {"metadata": {"labels": {name: "x"}}}, MERGE_PATCH),
        (f"{path}/status", {"metadata": {"labels": {name: "x"}}}, STRATEGIC_PATCH),
        (f"{path}?fieldManager=me&force=true", applied(name), APPLY_PATCH),
        (path, [{"op": "add", "path": "/metadata/labels", "value": {name: "x"}}], JSON_PATCH),
    ):
        assert api.send("PATCH", *change).status == 403, change
    stored = api.must("GET", path)
    stored["metadata"]["labels"] = {name: "x"}
    assert api.send("PUT", path, stored).status == 403
    bound = binding("mine", labels={name: "x"})
    for where in (f"{path}/binding", "/api/v1/namespaces/default/bindings"):
        assert api.send("POST", where, bound).status == 403


def test_a_binding_cannot_set_the_annotations_of_a_worker(
    cluster: ControlPlane, operator: Rest
) -> None:
    worker = operator.must("POST", pods_path(TEAM), worker_pod(cluster))
    path = f"{pods_path(TEAM, worker['metadata']['name'])}/binding"
    changed = binding(worker["metadata"]["name"], annotations={REPORT_CA_ANNOTATION: "mine"})
    assert cluster.api.send("POST", path, changed).status == 403
    assert cluster.api.send("POST", path, binding(worker["metadata"]["name"])).status == 201


def test_probe_pods_are_created_in_the_operators_namespace_alone(cluster: ControlPlane) -> None:
    """By the controller of DaemonSets, whatever account it has."""
    cluster.add_nodes(1)
    kubeconfig = install_chart(cluster, {"probes": {"enabled": True}})
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as operator:
        wait_for_guards(cluster, operator)
    probes = f"{pods_path(NAMESPACE)}?labelSelector={PROBE_LABEL}"
    (found,) = until(lambda: cluster.api.must("GET", probes)["items"] or None)
    path = pods_path(NAMESPACE, found["metadata"]["name"])
    assert label(cluster.api, path, {PROBE_LABEL: None}).status == 403
    assert label(cluster.api, path, {PLACEHOLDER_LABEL: "x"}).status == 403
    made = foreign_pod("mine")
    made["metadata"]["labels"] = {PROBE_LABEL: "node", JOB_LABEL: "x"}
    assert cluster.api.send("POST", f"{pods_path(NAMESPACE)}?dryRun=All", made).status == 403


def test_other_accounts_cannot_label_claims_as_the_operator_does(cluster: ControlPlane) -> None:
    driver = "gpu.example.com"
    kubeconfig = install_chart(cluster, {"nodes": {"gpuClass": driver}})
    cluster.add_namespace(TEAM)
    path = claims_path(TEAM)
    job = cluster.api.must("POST", jobs_path(TEAM), training_job("sft"))
    owner = owner_of("sft", job["metadata"]["uid"])
    made = claim(TEAM, "sft-1-0", 1, job="sft", owner=owner, kind=driver)
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as operator:
        wait_for_guards(cluster, operator)
        said = cluster.api.send("POST", path, made)
        assert said.status == 403 and "submit a TrainingJob instead" in said.message
        operator.must("POST", path, made)
    policy = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/weft-worker-origin"
    assert until(partial(type_check, cluster, policy)) == {}
    plain = {**made, "metadata": {"name": "mine"}}
    cluster.api.must("POST", path, plain)
    for name, changed in (
        ("mine", {"labels": {JOB_LABEL: "x"}}),
        ("sft-1-0", {"labels": {JOB_LABEL: None}}),
        ("sft-1-0", {"ownerReferences": None}),
    ):
        body = {"metadata": changed}
        assert cluster.api.send("PATCH", f"{path}/{name}", body, MERGE_PATCH).status == 403
        before = cluster.api.must("GET", f"{path}/{name}")["metadata"]
        cluster.api.send("PATCH", f"{path}/{name}/status", body, MERGE_PATCH)
        after = cluster.api.must("GET", f"{path}/{name}")["metadata"]
        assert own_marks({"metadata": after}) == own_marks({"metadata": before})
    own = {"metadata": {"labels": {"note": "x"}}}
    assert cluster.api.send("PATCH", f"{path}/sft-1-0", own, MERGE_PATCH).status == 200


def own_marks(raw: Manifest) -> dict[str, Manifest]:
    """The labels and annotations of an object that are Weft's, and its owners."""
    meta = raw["metadata"]
    marks = {
        kind: {name: value for name, value in meta.get(kind, {}).items() if "weft.dev/" in name}
        for kind in ("labels", "annotations")
    }
    return {**marks, "ownerReferences": meta.get("ownerReferences", [])}


def applied(name: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine", "labels": {name: "x"}}}


def binding(pod: str, **about: object) -> Manifest:
    target = {"kind": "Node", "name": "node-0"}
    return {"metadata": {"name": pod, **about}, "target": target}


def test_trials_are_the_operators_and_each_of_the_gang_it_is_named_after(
    cluster: ControlPlane,
) -> None:
    kubeconfig = install_chart(cluster, {"failures": {"trialMinutes": 10}})
    cluster.add_namespace(TEAM)
    path = jobs_path(TEAM)
    owned = trial("gang", ownerReferences=[owner_of("gang", "u")])
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as operator:
        wait_for_guards(cluster, operator)
        said = cluster.api.send("POST", path, owned)
        assert said.status == 403 and "a name without a dot" in said.message
        assert operator.send("POST", path, owned).status == 201
        assert operator.send("POST", path, trial("other")).status == 403
        other = trial("other", ownerReferences=[owner_of("gang", "u")])
        assert operator.send("POST", path, other).status == 403
        assert operator.send("POST", path, manifest("mine", {"run": "x"})).status == 403
        assert cluster.api.send("POST", path, manifest("mine", {"run": "x"})).status == 201


def test_the_operator_creates_workers_and_nothing_that_leads_further(
    cluster: ControlPlane, operator: Rest
) -> None:
    """In a namespace without PodSecurity, so that nothing but the guard says no."""
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
    "the system's priority": in_spec(priorityClassName="system-node-critical"),
    "a port of the host": lambda pod: container(pod).update(
        ports=[{"containerPort": 80, "hostPort": 80}]
    ),
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
    "another user": lambda pod: pod["spec"]["securityContext"].update(runAsUser=1001),
    "another user's files": lambda pod: pod["spec"]["securityContext"].update(fsGroup=1001),
    "more groups": lambda pod: pod["spec"]["securityContext"].update(supplementalGroups=[1001]),
    "a container as another user": secure(runAsUser=1001),
    "no seccomp": lambda pod: pod["spec"]["securityContext"].pop("seccompProfile"),
    "a container without seccomp": secure(seccompProfile={"type": "Unconfined"}),
    "every taint": lambda pod: pod["spec"]["tolerations"].append({"operator": "Exists"}),
    "the taint of the control plane": lambda pod: pod["spec"]["tolerations"].append(
        {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}
    ),
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
    assert len(policies) == 9
    for policy in policies:
        assert until(partial(type_check, cluster, path_of(policy))) == {}


def test_without_an_operator_everybody_elses_pods_live_as_before(
    cluster: ControlPlane, operator: Rest
) -> None:
    """No operator runs here. Workers that are there go on, and foreign pods notice nothing."""
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
    tries.append((cluster.api, "POST", jobs_path("default") + dry, trial("a"), 403))
    for who, verb, path, body, refused in tries:
        until(partial(says, who, verb, path, body, refused))
    cluster.api.must("DELETE", pods_path("default", "probe"), {"gracePeriodSeconds": 0})


PORT = {"port": 80}


def trial(gang: str, **more: object) -> Manifest:
    about = {"name": f"{gang}.trial", **more}
    return manifest(gang, {"run": "x"}) | {"metadata": about}


def says(who: Rest, verb: str, path: str, body: object, status: int) -> bool:
    return who.send(verb, path, body).status == status


def label(who: Rest, path: str, labels: Mapping[str, str | None]) -> Answer:
    return who.send("PATCH", path, {"metadata": {"labels": labels}}, MERGE_PATCH)


def phase(cluster: ControlPlane, namespace: str, name: str) -> str:
    return str(cluster.api.must("GET", pods_path(namespace, name))["status"].get("phase"))


def type_check(cluster: ControlPlane, path: str) -> Any:  # noqa: ANN401
    """What the controllers found in a policy's expressions; None before they have looked."""
    return cluster.api.must("GET", path).get("status", {}).get("typeChecking")
