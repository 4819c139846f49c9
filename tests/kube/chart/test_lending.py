"""Who names secrets, ConfigMaps and service accounts in a job must be allowed to use them."""

from collections.abc import Iterator
from copy import deepcopy
from functools import partial
from typing import Any

import pytest

from tests.kube.chart.objects import TEAM, until, worker_pod
from tests.kube.installed import install_chart, token_of
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH, Answer, Rest
from weft.kube.names import GROUP, jobs_path, pods_path
from weft.kube.resources.training_job import manifest

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MINE = {"name": "TOKEN", "secret": "mine", "key": "k"}
THEIRS = {"name": "OTHER", "secret": "theirs", "key": "k"}
SETTING = {"name": "LR", "config_map": "theirs", "key": "k"}
LENDING_LABEL = f"{GROUP}/lending"


class Tenant:
    """Somebody with few rights in one namespace."""

    def __init__(self, connection: Rest) -> None:
        self._connection = connection

    def submit(self, **spec: Any) -> Answer:
        job = manifest("borrower", {"run": "train", **spec}, namespace=TEAM)
        return self._connection.send("POST", f"{jobs_path(TEAM)}?dryRun=All", job)


@pytest.fixture
def operator(cluster: ControlPlane) -> Iterator[Rest]:
    kubeconfig = install_chart(cluster)
    cluster.add_namespace(TEAM)
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as connection:
        yield connection


@pytest.fixture
def tenant(cluster: ControlPlane, operator: Rest) -> Iterator[Tenant]:
    account = {"metadata": {"name": "ada"}}
    cluster.api.must("POST", f"/api/v1/namespaces/{TEAM}/serviceaccounts", account)
    kubeconfig = cluster.service_account_kubeconfig(TEAM, "ada")
    rules = [
        {"apiGroups": ["weft.dev"], "resources": ["trainingjobs"], "verbs": ["create"]},
        {"apiGroups": [""], "resources": ["secrets"], "resourceNames": MAY_READ, "verbs": ["get"]},
        {
            "apiGroups": [""],
            "resources": ["serviceaccounts"],
            "resourceNames": ["trainer"],
            "verbs": ["impersonate"],
        },
    ]
    path = f"{RBAC}/namespaces/{TEAM}"
    cluster.api.must("POST", f"{path}/roles", {"metadata": {"name": "few"}, "rules": rules})
    binding = {
        "metadata": {"name": "few"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "few"},
        "subjects": [{"kind": "ServiceAccount", "name": "ada", "namespace": TEAM}],
    }
    cluster.api.must("POST", f"{path}/rolebindings", binding)
    with Rest(cluster.layout.api_port, cluster.ca, token_of(kubeconfig)) as connection:
        found = Tenant(connection)
        until(lambda: found.submit().status == 201)
        until(lambda: found.submit(service_account="x").status == 403)
        yield found


MAY_READ = ["mine", *(f"mine-{number}" for number in range(8))]


def lend(cluster: ControlPlane, tenant: Tenant) -> None:
    labels = {"metadata": {"labels": {LENDING_LABEL: "allowed"}}}
    cluster.api.must("PATCH", f"/api/v1/namespaces/{TEAM}", labels, MERGE_PATCH)
    until(lambda: tenant.submit(env_from=[MINE]).status == 201)


def test_a_namespace_lends_nothing_unless_it_says_so(tenant: Tenant) -> None:
    for spec in ({"env_from": [MINE]}, {"service_account": "trainer"}):
        said = tenant.submit(**spec)
        assert said.status == 403
        assert f"{LENDING_LABEL}=allowed" in said.message


def test_who_may_not_read_a_secret_has_no_job_that_does(
    cluster: ControlPlane, tenant: Tenant
) -> None:
    lend(cluster, tenant)
    eight = [{"secret": f"mine-{n}", "path": f"/etc/s{n}"} for n in range(8)]
    taken: list[dict[str, Any]] = [
        {"env_from": [MINE, {**MINE, "name": "AGAIN"}]},
        {"volumes": eight},
        {"service_account": "trainer"},
        {"volumes": [{"claim": "theirs", "path": "/data"}]},
    ]
    for spec in taken:
        assert tenant.submit(**spec).status == 201, spec
    refused: list[tuple[dict[str, Any], str]] = [
        ({"env_from": [THEIRS]}, "you may not read secrets/theirs"),
        ({"env_from": [MINE, THEIRS]}, "secrets/theirs"),
        ({"env_from": [SETTING]}, "you may not read configmaps/theirs"),
        ({"volumes": [{"secret": "theirs", "path": "/etc/s"}]}, "secrets/theirs"),
        ({"volumes": [{"config_map": "theirs", "path": "/etc/s"}]}, "configmaps/theirs"),
        ({"volumes": [*eight[:7], {"secret": "theirs", "path": "/a"}]}, "secrets/theirs"),
        ({"service_account": "other"}, "impersonate the service account other"),
        ({"service_account": "default"}, "impersonate the service account default"),
    ]
    for spec, why in refused:
        said = tenant.submit(**spec)
        assert (said.status, why in said.message) == (403, True), (spec, said)
    said = tenant.submit(volumes=eight, env_from=[MINE])
    assert said.status == 422 and "at most 8 secrets" in said.message


def test_the_operator_reaches_what_is_lent_and_no_further(
    cluster: ControlPlane, operator: Rest, tenant: Tenant
) -> None:
    path = f"{pods_path(TEAM)}?dryRun=All"
    cluster.api.must("POST", f"/api/v1/namespaces/{TEAM}/serviceaccounts", TRAINER)
    worker = worker_pod(cluster)
    pods = [deepcopy(worker) for _ in range(3)]
    pods[0]["spec"]["serviceAccountName"] = "trainer"
    pods[1]["spec"]["volumes"].append({"name": "s", "secret": {"secretName": "mine"}})
    source = {"serviceAccountToken": {"path": "t", "audience": "sts.amazonaws.com"}}
    pods[2]["spec"]["serviceAccountName"] = "trainer"
    pods[2]["spec"]["volumes"].append({"name": "cloud", "projected": {"sources": [source]}})
    for pod in pods:
        until(partial(says, operator, path, pod, 422))
    lend(cluster, tenant)
    for pod in pods:
        until(partial(says, operator, path, pod, 201))
    pods[0]["spec"]["automountServiceAccountToken"] = True
    pods[1]["spec"]["volumes"].append({"name": "h", "hostPath": {"path": "/"}})
    del source["serviceAccountToken"]["audience"]
    for pod in pods:
        assert operator.send("POST", path, pod).status == 422


TRAINER = {"metadata": {"name": "trainer"}}


def says(who: Rest, path: str, pod: dict[str, Any], status: int) -> bool:
    return who.send("POST", path, pod).status == status
