"""Gangs that wait are tried on one GPU of a real cluster, and no gang that can start is delayed."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, Relief, wait_until
from tools.testcluster import ControlPlane
from tools.testcluster.rest import MERGE_PATCH
from weft.failure.last_words import written
from weft.failure.observed import Output, Where
from weft.failure.rulebook import shipped
from weft.kube.operator.crash import TRIAL_POINTS

OPTIONS: Final = {"trial_minutes": 10.0, "backoff_seconds": 1.0}
VALUES: Final = {"failures": {"trialMinutes": 10}}
NO_PACKAGE: Final = "ModuleNotFoundError: No module named 'nothing'"
NEEDS_OTHERS: Final = "AssertionError: WORLD_SIZE is 1"


@pytest.fixture
def kubeconfig(cluster: ControlPlane) -> Path:
    return install_chart(cluster, VALUES)


@pytest.fixture
def lab(cluster: ControlPlane, kubeconfig: Path) -> Lab:
    cluster.add_nodes(2, gpus=8)
    return Lab(cluster)


@pytest.fixture
def operator(lab: Lab, kubeconfig: Path, tmp_path: Path) -> Iterator[OperatorProcess]:
    with OperatorProcess(kubeconfig, tmp_path, options=OPTIONS) as running:
        lab.submit("holds", 15)
        lab.await_workers("holds")
        yield running


def until(lab: Lab, name: str, state: str) -> None:
    """Of a job that nobody submitted, and that is not there at first."""
    wait_until(lambda: lab.states().get(name, "") == state, f"{name} to be {state or 'gone'}")


def ended(lab: Lab, name: str, line: str) -> None:
    """Its worker ends with an error, and its agent leaves this line to be read."""
    (pod,) = lab.pods(name).values()
    now = datetime.now(UTC).strftime("%FT%TZ")
    words = written("worker 0 ended with 1", [Output(line, Where(rank=0))], shipped())
    about = {"exitCode": 1, "reason": "Error", "startedAt": now, "finishedAt": now}
    container: dict[str, Any] = {
        "name": "worker",
        "image": "busybox",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": about | {"message": words}},
    }
    path = f"/api/v1/namespaces/lab/pods/{pod['metadata']['name']}/status"
    body = {"status": {"phase": "Failed", "containerStatuses": [container]}}
    lab.cluster.api.must("PATCH", path, body, MERGE_PATCH)


def test_a_mistake_is_met_on_one_gpu_and_ends_the_gang(lab: Lab, operator: OperatorProcess) -> None:
    lab.submit("broken", 8, checkpoint={"path": "/ckpt"})
    until(lab, "broken.trial", "Running")
    (pod,) = lab.pods("broken.trial").values()
    (worker,) = pod["spec"]["containers"]
    env = {one["name"]: one.get("value") for one in worker["env"]}
    assert (env["WEFT_TRIAL"], env["WEFT_WIDTH"], env.get("WEFT_CHECKPOINT_PATH")) == (
        "1",
        "1",
        None,
    )
    assert lab.state("broken") == "Queued"
    ended(lab, "broken.trial", NO_PACKAGE)
    gang = lab.wait_for("broken", "Failed")
    assert "decision" not in gang["status"], "no gang of it ever began"
    assert gang["status"]["message"].endswith("(seen on one GPU)")
    (failure,) = gang["status"]["failures"]
    assert (failure["rule"], failure["line"]) == ("import_error", NO_PACKAGE)
    until(lab, "broken.trial", "Failed")
    lab.delete("broken")
    until(lab, "broken.trial", "")


def test_what_only_a_gang_can_know_is_not_held_against_it(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("wide", 8)
    until(lab, "wide.trial", "Running")
    ended(lab, "wide.trial", NEEDS_OTHERS)
    until(lab, "wide.trial", "Succeeded")
    assert lab.state("wide") == "Queued"
    lab.cancel("holds")
    lab.await_workers("wide")


def test_a_trial_ends_when_its_gang_gets_seats_and_leaves_nothing(
    lab: Lab, operator: OperatorProcess
) -> None:
    lab.submit("gang", 16)
    until(lab, "gang.trial", "Running")
    lab.cancel("holds")
    lab.await_workers("gang")
    until(lab, "gang.trial", "")
    assert not lab.pods("gang.trial")
    lab.submit("free", 8)
    lab.cancel("gang")
    lab.await_workers("free")
    assert "free.trial" not in lab.jobs() or lab.state("free.trial") != "Running"


def test_a_trial_that_lasts_has_passed(lab: Lab, kubeconfig: Path, tmp_path: Path) -> None:
    short = OPTIONS | {"trial_minutes": 0.05}
    with OperatorProcess(kubeconfig, tmp_path, options=short):
        lab.submit("holds", 15)
        lab.await_workers("holds")
        lab.submit("gang", 8)
        until(lab, "gang.trial", "Succeeded")
        assert lab.job("gang.trial")["status"]["decision"]["width"] == 1
        assert lab.state("gang") == "Queued" and not lab.pods("gang.trial")


@pytest.mark.parametrize("crash", ["", *(f"{point}#1" for point in TRIAL_POINTS), "acknowledged#2"])
def test_an_operator_that_takes_over_calls_off_what_it_has_not_begun(
    lab: Lab, kubeconfig: Path, tmp_path: Path, crash: str
) -> None:
    first = OperatorProcess(
        kubeconfig, tmp_path, options=OPTIONS, environment={"WEFT_CRASH": crash} if crash else {}
    )
    second = OperatorProcess(kubeconfig, tmp_path, options=OPTIONS)
    with first, Relief(first, second, crash):
        lab.submit("holds", 15)
        lab.await_workers("holds")
        lab.submit("gang", 16)
        wait_until(lambda: "gang.trial" in lab.jobs(), "the trial")
        if crash:
            wait_until(lambda: second.alive, "the second operator")
        lab.cancel("holds")
        lab.await_workers("gang")
        until(lab, "gang.trial", "")
