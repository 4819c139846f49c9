"""Where the operator may act: everywhere, or in namespaces that an administrator has labelled."""

from collections.abc import Iterator

import pytest

from tests.kube.chart.objects import TEAM, pod_maker, training_job, until, worker_pod
from tests.kube.installed import install_chart, render, token_of
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH, Rest
from weft.kube.names import jobs_path, pods_path
from weft.model.errors import WorldError

LABEL = {"weft.dev/served": "yes", "tier": "train"}
ELSEWHERE = "elsewhere"
POLICIES = "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies"


@pytest.fixture
def operator(cluster: ControlPlane) -> Iterator[Rest]:
    cluster.add_namespace(TEAM, LABEL)
    cluster.add_namespace(ELSEWHERE, {"weft.dev/served": "yes"})
    kubeconfig = install_chart(cluster, {"namespaces": {"selector": LABEL}})
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as connection:
        until(lambda: refuses(cluster.api, ELSEWHERE))
        yield connection


def refuses(api: Rest, namespace: str) -> bool:
    path = f"{jobs_path(namespace)}?dryRun=All"
    return api.send("POST", path, training_job("probe")).status == 403


def test_jobs_are_refused_where_weft_does_not_serve(cluster: ControlPlane, operator: Rest) -> None:
    answer = cluster.api.send("POST", jobs_path(ELSEWHERE), training_job("sft"))
    assert answer.status == 403
    assert "kubectl label namespace NAME tier=train weft.dev/served=yes" in answer.message
    assert cluster.api.send("POST", jobs_path(TEAM), training_job("sft")).status == 201


def test_the_operator_makes_nothing_where_it_does_not_serve(
    cluster: ControlPlane, operator: Rest
) -> None:
    pod = worker_pod(cluster)
    maker = pod_maker()
    things = (
        (pods_path(), pod),
        ("/api/v1/services", maker.service()),
        ("/apis/networking.k8s.io/v1/networkpolicies", maker.network_policy()),
    )
    for namespace, status in ((TEAM, 201), (ELSEWHERE, 403)):
        for path, body in things:
            head, _, plural = path.rpartition("/")
            body["metadata"]["namespace"] = namespace
            answer = operator.send("POST", f"{head}/namespaces/{namespace}/{plural}", body)
            assert answer.status == status, (path, answer.message)


def test_the_operator_deletes_nothing_where_it_does_not_serve(
    cluster: ControlPlane, operator: Rest
) -> None:
    cluster.add_namespace("left", LABEL)
    path = pods_path("left", "sft-1-0")
    pod = worker_pod(cluster, "left")
    operator.must("POST", pods_path("left"), pod)
    unlabelled = {"metadata": {"labels": {"tier": None}}}
    cluster.api.must("PATCH", "/api/v1/namespaces/left", unlabelled, MERGE_PATCH)
    until(lambda: operator.send("DELETE", f"{path}?dryRun=All").status == 403)


def test_a_network_policy_is_for_workers_alone(cluster: ControlPlane) -> None:
    kubeconfig = install_chart(cluster)
    cluster.add_namespace(TEAM)
    path = f"{POLICIES.format(TEAM)}?dryRun=All"
    body = pod_maker().network_policy()
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as operator:
        until(
            lambda: operator.send("POST", path, body | {"spec": {"podSelector": {}}}).status == 403
        )
        assert operator.send("POST", path, body).status == 201
        for change in (
            {"podSelector": {"matchLabels": {"app": "db"}}},
            {"policyTypes": ["Egress"]},
        ):
            wrong = body | {"spec": body["spec"] | change}
            assert operator.send("POST", path, wrong).status == 403


def test_a_selector_without_its_guard_is_refused() -> None:
    with pytest.raises(WorldError, match=r"admissionPolicy\.enabled"):
        render({"namespaces": {"selector": LABEL}, "admissionPolicy": {"enabled": False}})
