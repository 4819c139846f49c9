"""Pods and services that are in the way, and labels that change: the operator on a real cluster.

Without the chart's admission policies any account may create a pod with any label. What the
policies refuse is in `tests/kube/chart/test_guards`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.names import JOB_LABEL, PLACEHOLDER_LABEL, PROBE_LABEL, pods_path

OPTIONS = {"backoff_seconds": 1.0, "fence_seconds": 3.0}
EPOCHS = range(1, 21)
SERVICE = "/api/v1/namespaces/lab/services"


@pytest.fixture(params=[True, False], ids=["with-policies", "without-policies"])
def guarded(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
def lab(cluster: ControlPlane) -> Lab:
    cluster.add_nodes(2, gpus=8)
    return Lab(cluster)


@pytest.fixture
def operator(lab: Lab, guarded: bool, tmp_path: Path) -> Iterator[OperatorProcess]:
    kubeconfig = install_chart(lab.cluster, {"admissionPolicy": {"enabled": guarded}})
    with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS) as operator:
        yield operator


WITHOUT_POLICIES = pytest.mark.parametrize("guarded", [False], ids=["without-policies"])
WITH_POLICIES = pytest.mark.parametrize("guarded", [True], ids=["with-policies"])


def add_pod(lab: Lab, name: str, gpus: int = 0, **about: Any) -> dict[str, Any]:
    """A pod of a user's own."""
    asked = {"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}} if gpus else {}
    container = {"name": "main", "image": "busybox", **asked}
    body = {"metadata": {"name": name, **about}, "spec": {"containers": [container]}}
    return lab.cluster.api.must("POST", pods_path("lab"), body)


def pod(lab: Lab, name: str) -> dict[str, Any]:
    return lab.cluster.api.must("GET", pods_path("lab", name))


def remove(lab: Lab, name: str) -> None:
    lab.cluster.api.must("DELETE", pods_path("lab", name))


def relabel(lab: Lab, name: str, labels: dict[str, str | None]) -> None:
    body = {"metadata": {"labels": labels}}
    lab.cluster.api.must("PATCH", pods_path("lab", name), body, MERGE_PATCH)


def message(lab: Lab, job: str) -> str:
    return str(lab.job(job).get("status", {}).get("message", ""))


def held_up(lab: Lab, job: str) -> str:
    conditions = lab.job(job).get("status", {}).get("conditions") or ()
    return next((str(one["message"]) for one in conditions if one["type"] == "HeldUp"), "")


# --- names that are taken -------------------------------------------------------------------------


def test_pods_with_the_names_of_workers_are_reported_and_left_alone(
    lab: Lab, operator: OperatorProcess
) -> None:
    """One taken name costs one start; here those of the next 20 starts are taken."""
    names = [f"squat-{epoch}-0" for epoch in EPOCHS]
    before = {name: add_pod(lab, name)["metadata"]["uid"] for name in names}
    lab.submit("squat", 1)
    lab.submit("other", 1)
    said = "in namespace lab has the name of a worker of this job and is not Weft's. Remove it"
    wait_until(lambda: said in message(lab, "squat"), "the status to say why")
    lab.await_workers("other")
    note = lab.told("squat")["NotStarted"]
    assert said in note and "kubectl delete pod -n lab squat-" in note
    after = {name: pod(lab, name)["metadata"] for name in names}
    assert {name: about["uid"] for name, about in after.items()} == before
    assert not any("deletionTimestamp" in about for about in after.values())
    log = operator.log.read_text()
    assert "start_refused" in log and "call_failed" not in log
    for name in names:
        remove(lab, name)
    lab.wait_for("squat", "Running")
    wait_until(lambda: not message(lab, "squat"), "the status to say it no more")


@WITH_POLICIES
def test_a_service_with_the_name_of_the_jobs_is_reported_and_left_alone(
    lab: Lab, operator: OperatorProcess, guarded: bool
) -> None:
    spec = {"clusterIP": "None", "selector": {"a": "b"}}
    before = lab.cluster.api.must("POST", SERVICE, {"metadata": {"name": "weft-sv"}, "spec": spec})
    lab.submit("sv", "1..2")
    said = "Service weft-sv in namespace lab has the name of the Service of this job"
    wait_until(lambda: said in message(lab, "sv"), "the status to say why")
    assert said in lab.told("sv")["NotStarted"]
    after = lab.cluster.api.must("GET", f"{SERVICE}/weft-sv")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    lab.cluster.api.must("DELETE", f"{SERVICE}/weft-sv")
    lab.wait_for("sv", "Running")


# --- labels that change ---------------------------------------------------------------------------


@WITHOUT_POLICIES
def test_a_worker_that_is_labeled_a_placeholder_keeps_its_gpus(
    lab: Lab, operator: OperatorProcess, guarded: bool
) -> None:
    lab.submit("hide", 8)
    lab.wait_for("hide", "Running")
    relabel(lab, "hide-1-0", {PLACEHOLDER_LABEL: "x", PROBE_LABEL: "x"})
    lab.submit("fits", 8)
    lab.await_workers("fits")
    lab.submit("victim", 1)
    wait_until(lambda: "0 of 16" in message(lab, "victim"), "it to find no GPU")
    assert lab.state("hide") == "Running"
    assert set(lab.pods("hide")) == {"hide-1-0"}
    lab.delete("hide")
    lab.await_workers("victim")


@WITHOUT_POLICIES
def test_a_job_whose_worker_loses_its_label_does_not_run_twice(
    lab: Lab, operator: OperatorProcess, guarded: bool
) -> None:
    lab.submit("hide", 8)
    lab.wait_for("hide", "Running")
    relabel(lab, "hide-1-0", {JOB_LABEL: None})
    said = "Worker hide-1-0 left the watch and still runs on"
    wait_until(lambda: said in held_up(lab, "hide"), "the job to say what holds it up")
    assert said in message(lab, "hide")
    assert said in lab.told("hide")["WorkersStay"]
    lab.submit("fits", 8)
    lab.await_workers("fits")
    lab.submit("victim", 8)
    lab.wait_for("victim", "Queued")
    assert lab.pods("hide") == {}, "no second worker"
    remove(lab, "hide-1-0")
    both = ["hide", "victim"]
    wait_until(lambda: "Running" in [lab.state(name) for name in both], "one of them to run")
    assert not held_up(lab, "hide")


@WITHOUT_POLICIES
def test_a_labeled_pod_of_another_account_is_counted_and_never_deleted(
    lab: Lab, operator: OperatorProcess, guarded: bool
) -> None:
    labels = {JOB_LABEL: "vit", PLACEHOLDER_LABEL: "true", "weft.dev/epoch": "1"}
    names = ("vit-1-0", "free")
    for name in names:
        add_pod(lab, name, gpus=8, labels=labels)
    wait_until(lambda: all("nodeName" in pod(lab, name)["spec"] for name in names), "both bound")
    lab.submit("vit", 1)
    lab.wait_for("vit", "Queued")
    remove(lab, "free")
    wait_until(lambda: "vit-1-0 left the watch" in message(lab, "vit"), "the status to say why")
    assert "deletionTimestamp" not in pod(lab, "vit-1-0")["metadata"]
    remove(lab, "vit-1-0")
    lab.wait_for("vit", "Running")
