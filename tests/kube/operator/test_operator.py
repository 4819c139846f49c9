"""The operator on a real cluster: what users and administrators do to it, and what they see."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH

NODES = "/api/v1/nodes"
QUEUES = "/apis/weft.dev/v1alpha1/queues"


@pytest.fixture
def kubeconfig(cluster: ControlPlane) -> Path:
    return install_chart(cluster)


@pytest.fixture
def lab(cluster: ControlPlane, kubeconfig: Path) -> Lab:
    cluster.add_nodes(2, gpus=8)
    return Lab(cluster)


@pytest.fixture
def operator(lab: Lab, kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    options = {"backoff_seconds": 1.0, "fence_seconds": 3.0}
    with OperatorProcess(kubeconfig, tmp_path, options=options) as operator:
        yield operator


def test_a_job_runs_and_ends_and_its_decision_is_on_record(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("vit", 16, env={"KWOK_SECONDS": "1"})
    job = lab.wait_for("vit", "Succeeded")
    decision = job["status"]["decision"]
    assert (decision["epoch"], decision["width"], decision["leader"]) == (1, 16, 1)
    assert [seat["node"] for seat in decision["seats"]] == ["node-0", "node-1"]
    assert set(lab.pods("vit")) == {"vit-1-0", "vit-1-1"}
    truths = {found["type"]: found["status"] for found in job["status"]["conditions"]}
    assert truths == {"Admitted": "False", "Running": "False", "Finished": "True"}
    assert all(found["observedGeneration"] == 1 for found in job["status"]["conditions"])


def test_a_job_that_fails_is_tried_again_and_then_given_up(
    lab: Lab, operator: OperatorProcess
) -> None:
    env = {"KWOK_SECONDS": "0", "KWOK_EXIT": "1"}
    lab.submit("broken", 1, retry={"limit": 1}, env=env)
    job = lab.wait_for("broken", "Failed")
    assert job["status"]["decision"]["epoch"] == 2
    assert job["status"]["past"]["failures"] == 2


def test_a_worker_that_somebody_deletes_is_lost_and_the_gang_starts_again(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("vit", 16)
    lab.wait_for("vit", "Running")
    lab.cluster.api.must("DELETE", "/api/v1/namespaces/lab/pods/vit-1-0")
    wait_until(lambda: set(lab.pods("vit")) == {"vit-2-0", "vit-2-1"}, "the second incarnation")
    lab.finish("vit", epoch=2)
    assert lab.wait_for("vit", "Succeeded")["status"]["past"]["failures"] == 0


def test_a_job_waits_for_what_foreign_pods_hold_and_says_so(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.cluster.api.must("POST", "/api/v1/namespaces/default/pods", _foreign("node-0", 8))
    wait_until(lambda: _phase(lab, "foreign") == "Running", "the foreign pod")
    lab.submit("wide", 16)
    await_reason(lab, "wide", "Constraint.Infeasible", "Capacity.Busy")
    assert "8" in lab.job("wide")["status"]["message"]
    lab.submit("narrow", 8)
    lab.wait_for("narrow", "Running")
    assert lab.pods("narrow")["narrow-1-0"]["spec"]["nodeName"] == "node-1"
    lab.cluster.api.must("DELETE", "/api/v1/namespaces/default/pods/foreign")
    lab.finish("narrow", epoch=1)
    lab.wait_for("wide", "Running")


def test_a_cordoned_node_keeps_what_runs_and_gets_nothing_new(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("first", 8)
    lab.wait_for("first", "Running")
    where = lab.pods("first")["first-1-0"]["spec"]["nodeName"]
    other = {"node-0": "node-1", "node-1": "node-0"}[where]
    lab.cluster.api.must(
        "PATCH", f"{NODES}/{other}", {"spec": {"unschedulable": True}}, MERGE_PATCH
    )
    lab.submit("second", 8)
    await_reason(lab, "second", "Health.NodesOut")
    assert lab.state("first") == "Running"
    lab.cluster.api.must(
        "PATCH", f"{NODES}/{other}", {"spec": {"unschedulable": None}}, MERGE_PATCH
    )
    lab.wait_for("second", "Running")


def test_deleting_a_job_frees_its_seats_and_its_name(lab: Lab, operator: OperatorProcess) -> None:
    lab.submit("vit", 16)
    lab.wait_for("vit", "Running")
    lab.delete("vit")
    wait_until(lambda: not lab.jobs() and not lab.pods(), "everything to be gone")
    lab.submit("vit", 16)
    assert lab.wait_for("vit", "Running")["status"]["decision"]["epoch"] == 1


def test_a_job_whose_finalizer_was_taken_away_still_holds_its_seats_until_its_pods_are_gone(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("vit", 16, env={"KWOK_GRACE_SECONDS": "2"}, grace="10s")
    lab.wait_for("vit", "Running")
    path = "/apis/weft.dev/v1alpha1/namespaces/lab/trainingjobs/vit"
    lab.cluster.api.must("PATCH", path, {"metadata": {"finalizers": []}}, MERGE_PATCH)
    lab.submit("next", 16)
    lab.delete("vit")
    lab.wait_for("next", "Running")
    assert set(lab.pods()) == {"next-1-0", "next-1-1"}


def test_a_finished_job_goes_when_its_time_has_come(lab: Lab, operator: OperatorProcess) -> None:
    lab.submit("vit", 1, ttl="1s", env={"KWOK_SECONDS": "0"})
    wait_until(lambda: not lab.jobs(), "the job to be deleted")


def test_a_spec_that_only_the_cluster_accepted_cannot_start_pods(
    lab: Lab, operator: OperatorProcess
) -> None:
    """A namespace that forbids the pod: refused three times, then it backs off and others go on."""
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    lab.cluster.api.must("POST", "/api/v1/namespaces/lab/resourcequotas", quota)
    wait_until(lambda: _quota_is_enforced(lab), "the quota")
    lab.submit("vit", 8)
    wait_until(lambda: _past(lab, "vit").get("refusals", 0) >= 3, "three refusals")
    await_reason(lab, "vit", "Backoff.Refused")
    other = Lab(lab.cluster, "other")
    other.submit("bert", 16)
    other.wait_for("bert", "Running")


def test_a_queue_that_is_not_open_to_a_namespace_is_no_queue_for_it(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.cluster.api.must("POST", QUEUES, _queue("prod", namespaces=["prod"]))
    lab.submit("vit", 1, queue="prod")
    await_reason(lab, "vit", "Constraint.NoQueue")


def test_a_limit_holds_and_a_queue_that_grows_lets_its_jobs_in(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.cluster.api.must("POST", QUEUES, _queue("small", limit=4))
    lab.submit("vit", 8, queue="small")
    await_reason(lab, "vit", "Quota.Never")
    assert "small" in lab.job("vit")["status"]["message"]
    patch = {"spec": {"limit": 16}}
    lab.cluster.api.must("PATCH", f"{QUEUES}/small", patch, MERGE_PATCH)
    lab.wait_for("vit", "Running")


def test_a_queue_without_its_parent_says_what_is_wrong(lab: Lab, operator: OperatorProcess) -> None:
    lab.cluster.api.must("POST", QUEUES, _queue("leaf", parent="trunk"))
    wait_until(lambda: _ready(lab, "leaf") == "False", "the queue's condition")
    lab.cluster.api.must("POST", QUEUES, _queue("trunk"))
    wait_until(lambda: _ready(lab, "leaf") == "True", "the queue to be taken in")


def test_a_lost_node_is_given_up_and_its_job_starts_elsewhere(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("vit", 8)
    lab.wait_for("vit", "Running")
    where = lab.pods("vit")["vit-1-0"]["spec"]["nodeName"]
    lab.cluster.set_ready(where, False)
    wait_until(lambda: "vit-2-0" in lab.pods("vit"), "the second incarnation")
    assert lab.pods("vit")["vit-2-0"]["spec"]["nodeName"] != where


def test_reasons_reach_the_status_and_the_report_of_the_namespace(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("first", 16)
    lab.wait_for("first", "Running")
    lab.submit("second", 16)
    await_reason(lab, "second", "Capacity.Busy")
    reports = "/apis/weft.dev/v1alpha1/namespaces/lab/waitreports"

    def reported() -> list[str]:
        listed = [thing["status"] for thing in lab.cluster.api.must("GET", reports)["items"]]
        told = [one for one in listed if "second" in one["queued"]]
        return [one["reasons"][place]["code"] for one in told for place in one["queued"]["second"]]

    wait_until(lambda: reported() == ["Capacity.Busy"], "the report")
    assert lab.told("second") == {}
    told = lab.job("second")["status"]["reasons"][0]
    assert told["text"] == "0 of 16 suitable GPUs are free; this job needs 16."
    assert told["remedy"].startswith("wait for running jobs to end")
    printed = lab.cluster.kubectl("get", "trainingjobs", "-n", "lab", "second")
    assert "Capacity.Busy" in printed
    lab.cancel("second")
    wait_until(lambda: not lab.cluster.api.must("GET", reports)["items"], "the report to go")


def await_reason(lab: Lab, job: str, *reasons: str) -> float:
    """Seconds until it waits for one of these; at first it may be told of a round or a queue."""

    def is_told() -> bool:
        return lab.job(job).get("status", {}).get("reason") in reasons

    return wait_until(is_told, f"{job} to wait for {reasons}")


def _foreign(node: str, gpus: int) -> dict[str, Any]:
    resources = {"requests": {"nvidia.com/gpu": str(gpus)}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {
        "metadata": {"name": "foreign"},
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
            "nodeSelector": {"kubernetes.io/hostname": node},
            "tolerations": [{"operator": "Exists"}],
        },
    }


def _phase(lab: Lab, name: str) -> str:
    pod = lab.cluster.api.must("GET", f"/api/v1/namespaces/default/pods/{name}")
    return str(pod["status"].get("phase"))


def _queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "weft.dev/v1alpha1",
        "kind": "Queue",
        "metadata": {"name": name},
        "spec": spec,
    }


def _ready(lab: Lab, queue: str) -> str:
    found = lab.cluster.api.must("GET", f"{QUEUES}/{queue}").get("status", {}).get("conditions", ())
    return next((condition["status"] for condition in found), "")


def _past(lab: Lab, name: str) -> dict[str, int]:
    past: dict[str, int] = lab.job(name).get("status", {}).get("past", {})
    return past


def _quota_is_enforced(lab: Lab) -> bool:
    quota = lab.cluster.api.must("GET", "/api/v1/namespaces/lab/resourcequotas/none")
    return "hard" in quota.get("status", {})
