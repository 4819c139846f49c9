"""The operator dies at every labelled point; whoever comes after finishes as if it had not.

One story passes all points: a gang starts, a shorter one preempts it, a third job is cancelled
while it runs, and all end. After each death a new process continues under the same name, so it
need not wait for the lease; the test of the standby waits for it.
"""

from pathlib import Path

import pytest

from tests.kube.installed import install_chart
from tests.kube.operator.auditor import Auditor
from tests.kube.operators import Lab, OperatorProcess, Relief, wait_until
from tools.testcluster import ControlPlane
from weft.kube.operator.crash import POINTS

RECIPE = {"recipe": "srtf(spacing=0.1, min_run=0.0)"}
#: Each point once; a gang's second pod and a preemption's decision are other situations.
OCCURRENCES = {"created": (1, 2), "decided": (1, 2)}
CRASHES = [(label, time) for label in POINTS for time in OCCURRENCES.get(label, (1,))]
Outcome = dict[str, tuple[str, int, str]]

EXPECTED: Outcome = {
    "long": ("Succeeded", 2, "Succeeded Succeeded"),
    "short": ("Succeeded", 1, "Succeeded Succeeded"),
    "unwanted": ("Cancelled", 1, ""),
}


def test_the_story_without_any_crash(cluster: ControlPlane, tmp_path: Path) -> None:
    assert play(cluster, tmp_path, "") == EXPECTED


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize(("label", "times"), CRASHES, ids=[f"{at}-{n}" for at, n in CRASHES])
def test_a_crash_at_any_point_changes_nothing_in_the_end(
    cluster: ControlPlane, tmp_path: Path, label: str, times: int
) -> None:
    assert play(cluster, tmp_path, f"{label}#{times}") == EXPECTED


def play(cluster: ControlPlane, folder: Path, crash: str) -> Outcome:
    """The whole story; with `crash`, the first operator must die of it."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(3, gpus=8)
    lab = Lab(cluster)
    first = OperatorProcess(
        kubeconfig, folder, options=RECIPE, environment={"WEFT_CRASH": crash} if crash else {}
    )
    second = OperatorProcess(kubeconfig, folder, options=RECIPE)
    with Auditor(cluster) as auditor, first, Relief(first, second, crash):
        lab.submit("long", 16, nodes=2, duration="2h")
        wait_until(lambda: _is_decided(lab, "long"), "long to start")
        lab.submit("unwanted", 8, duration="3h")
        wait_until(lambda: _is_decided(lab, "unwanted"), "unwanted to start")
        lab.submit("short", 16, nodes=2, duration="1m")
        lab.finish("short", epoch=1)
        lab.cancel("unwanted")
        lab.finish("long", epoch=2)
        for name in EXPECTED:
            lab.wait_for(name, "Succeeded", "Cancelled", "Failed")
    assert not auditor.faults
    assert auditor.looks > 10
    return {name: _outcome(lab, name) for name in EXPECTED}


def _is_decided(lab: Lab, name: str) -> bool:
    return "decision" in lab.job(name).get("status", {})


def _outcome(lab: Lab, name: str) -> tuple[str, int, str]:
    status = lab.job(name)["status"]
    phases = [pod["status"]["phase"] for pod in lab.pods(name).values()]
    return status["state"], status["decision"]["epoch"], " ".join(sorted(phases))
