"""Live resizes on a real control plane: what users see, and an operator that dies of each point.

One story grows and shrinks a job: it fills two nodes, gives way to another that needs half of them,
and takes the room back when that one is cancelled. Nobody trains here; the test reports for the
head, as an agent does, that the job can be resized.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.kube.heads import Door, Head, free_port
from tests.kube.installed import install_chart
from tests.kube.operator.auditor import Auditor
from tests.kube.operators import Lab, OperatorProcess, Relief, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.kube.operator.crash import RESIZE_POINTS

RECIPE = "maxmin(hold=0.0, spacing=0.1, min_run=0.0)"
# First the job shrinks, then it grows; only then do workers join. Pods are created four times for
# the first job and once for the second before any comes with a resize.
PASSES = {"joined": (1,), "created": (6, 7), "deleted": (1, 2)}
LABELS = (*RESIZE_POINTS, "created", "deleted")
CRASHES = [(label, time) for label in LABELS for time in PASSES.get(label, (1, 2))]
Outcome = dict[str, tuple[str, int, int]]

EXPECTED: Outcome = {"wide": ("Succeeded", 1, 4), "late": ("Cancelled", 1, 0)}


def test_a_job_gives_way_and_takes_the_room_back_without_a_new_start(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    assert play(cluster, tmp_path, "") == EXPECTED


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("label", "times"), CRASHES, ids=[f"{at}-{n}" for at, n in CRASHES])
def test_a_crash_at_any_point_of_a_resize_changes_nothing_in_the_end(
    cluster: ControlPlane, tmp_path: Path, label: str, times: int
) -> None:
    assert play(cluster, tmp_path, f"{label}#{times}") == EXPECTED


def play(cluster: ControlPlane, folder: Path, crash: str) -> Outcome:
    """The whole story; with `crash`, the first operator must die of it."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=2)
    lab, port = Lab(cluster), free_port()
    options = {"recipe": RECIPE, "reports_port": port}
    dies = {"WEFT_CRASH": crash} if crash else {}
    first = OperatorProcess(kubeconfig, folder, options=options, environment=dies)
    second = OperatorProcess(kubeconfig, folder, options=options)
    with Auditor(cluster) as auditor, first, Relief(first, second, crash):
        lab.submit("wide", "1..4")
        with Head(cluster, "lab", "wide", port):
            await_width(lab, "wide", 4)
            lab.submit("late", 2)
            await_width(lab, "wide", 2)
            lab.await_workers("late")
            lab.cancel("late")
            await_width(lab, "wide", 4)
        lab.finish("wide", epoch=1)
        for name in EXPECTED:
            lab.wait_for(name, "Succeeded", "Cancelled", "Failed")
    assert not auditor.faults
    return {name: _outcome(lab, name) for name in EXPECTED}


def test_a_drained_worker_leaves_its_job_running(cluster: ControlPlane, tmp_path: Path) -> None:
    """As `kubectl drain` does: the node is closed, then its pods are evicted."""
    with elastic(cluster, tmp_path) as lab:
        head = lab.pods("wide")["wide-1-0"]["spec"]["nodeName"]
        other = "node-1" if head == "node-0" else "node-0"
        lab.cluster.kubectl("drain", other, "--delete-emptydir-data", "--timeout=90s")
        await_width(lab, "wide", 2)
        job = lab.job("wide")["status"]
        assert {seat["node"] for seat in job["decision"]["seats"]} == {head}
        assert (job["decision"]["epoch"], job["past"]["failures"]) == (1, 0)
        wait_until(lambda: "Shrunk" in lab.told("wide"), "the Event")
        lab.cluster.kubectl("uncordon", other)
        await_width(lab, "wide", 4)


def test_a_job_whose_head_is_drained_starts_again_if_no_other_leads(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with elastic(cluster, tmp_path) as lab:
        lab.evict("wide-1-0")
        wait_until(lambda: lab.job("wide")["status"]["decision"]["epoch"] == 2, "a new start", 90.0)
        lab.wait_for("wide", "Running")
        assert lab.job("wide")["status"]["past"]["failures"] == 0


def test_a_job_whose_head_is_drained_trains_on_if_another_leads(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Another seat says so at the operator's door; the others' pods stay as they are."""
    port = free_port()
    with elastic(cluster, tmp_path, port) as lab:
        before = {name: pod["metadata"]["uid"] for name, pod in lab.pods("wide").items()}
        door = Door(lab.cluster, "lab", "wide", port)
        assert door.lead("wide-1-0", 1) == 200
        lab.evict("wide-1-0")
        assert door.lead("wide-1-1", 2) == 200
        assert door.lead("wide-1-2", 2) == 410
        wait_until(lambda: 0 not in _seats(lab, "wide"), "the seat to be let go")
        job = lab.job("wide")["status"]
        assert (job["decision"]["epoch"], job["past"]["failures"]) == (1, 0)
        after = {name: pod["metadata"]["uid"] for name, pod in lab.pods("wide").items()}
        stayed = {name: uid for name, uid in before.items() if name != "wide-1-0"}
        assert stayed.items() <= after.items()


def test_a_disruption_budget_keeps_workers_where_they_are(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with elastic(cluster, tmp_path) as lab:
        path = "/apis/policy/v1/namespaces/lab/poddisruptionbudgets"
        selector = {"matchLabels": {"weft.dev/job": "wide"}}
        spec = {"minAvailable": 4, "selector": selector}
        lab.cluster.api.must("POST", path, {"metadata": {"name": "keep"}, "spec": spec})
        wait_until(lambda: lab.evict("wide-1-3") == 429, "the budget to hold")
        lab.cluster.api.must("PATCH", f"{path}/keep", {"spec": {"minAvailable": 3}}, MERGE_PATCH)
        wait_until(lambda: lab.evict("wide-1-3") == 201, "the budget to allow it")
        wait_until(lambda: 3 not in _seats(lab, "wide"), "the seat to be let go")
        await_width(lab, "wide", 4)
        assert lab.job("wide")["status"]["decision"]["epoch"] == 1


def test_a_growth_that_the_namespace_forbids_is_refused_and_the_job_trains_on(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    with elastic(cluster, tmp_path) as lab:
        lab.submit("late", 2)
        await_width(lab, "wide", 2)
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "3"}}}
        lab.cluster.api.must("POST", "/api/v1/namespaces/lab/resourcequotas", quota)
        wait_until(lambda: _is_enforced(lab), "the quota")
        lab.cancel("late")
        wait_until(lambda: "exceeded quota" in str(lab.told("wide")), "the Event")
        lab.wait_for("wide", "Running")
        assert {"wide-1-0", "wide-1-1"} <= set(lab.pods("wide"))
        assert lab.job("wide")["status"]["decision"]["epoch"] == 1


@contextmanager
def elastic(cluster: ControlPlane, folder: Path, port: int | None = None) -> Iterator[Lab]:
    """A job that has filled two nodes and can be resized."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=2)
    lab, port = Lab(cluster), port or free_port()
    options = {"recipe": RECIPE, "reports_port": port, "backoff_seconds": 1.0}
    with (
        OperatorProcess(kubeconfig, folder, options=options),
        Head(cluster, "lab", "wide", port),
    ):
        lab.submit("wide", "1..4")
        await_width(lab, "wide", 4)
        wait_until(lambda: lab.job("wide")["status"]["decision"].get("live"), "its word")
        yield lab


def await_width(lab: Lab, name: str, width: int) -> None:
    """Until so many workers run, and no change is under way any more."""
    wait_until(lambda: _width(lab, name) == width, f"{name} to have {width} workers")


def _width(lab: Lab, name: str) -> int:
    status = lab.job(name).get("status", {})
    seats = status.get("decision", {}).get("seats", ())
    pods = [pod for pod in lab.pods(name).values() if _runs(pod)]
    settled = status.get("state") != "Resizing" and len(pods) == len(seats)
    return len(pods) if settled else -1


def _seats(lab: Lab, name: str) -> set[int]:
    return {seat["number"] for seat in lab.job(name)["status"]["decision"]["seats"]}


def _runs(pod: dict[str, Any]) -> bool:
    return pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]


def _is_enforced(lab: Lab) -> bool:
    quota = lab.cluster.api.must("GET", "/api/v1/namespaces/lab/resourcequotas/few")
    return "hard" in quota.get("status", {})


def _outcome(lab: Lab, name: str) -> tuple[str, int, int]:
    status = lab.job(name)["status"]
    return status["state"], status["decision"]["epoch"], len(lab.pods(name))
