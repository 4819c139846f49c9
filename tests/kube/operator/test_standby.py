"""Two replicas: one leads, the other waits for the lease, and neither is ever both."""

from pathlib import Path
from typing import Any

import pytest

from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane

LEASE = "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases/weft-operator"
RENEWALS = 4

BURNING = '''
"""A recipe whose first order computes until a file is there."""

from dataclasses import replace
from pathlib import Path

from weft.policy.order.arrival import by_arrival
from weft.policy.recipes import backfill

FOLDER = Path(__file__).parent
calls = []


def burn(snapshot, slots):
    if not calls and len(slots):
        calls.append(1)
        (FOLDER / "begun").touch()
        while not (FOLDER / "over").exists():
            sum(range(1_000_000))
    return by_arrival(snapshot, slots)


burning = replace(backfill(spacing=0.1), order=burn)
'''


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_standby_takes_over_and_no_worker_notices(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=8)
    lab = Lab(cluster)
    one = OperatorProcess(kubeconfig, tmp_path, name="one")
    two = OperatorProcess(kubeconfig, tmp_path, name="two")
    with one:
        wait_until(lambda: _holder(cluster) == "one", "one to lead")
        with two:
            lab.submit("vit", 8)
            lab.await_workers("vit")
            before = {name: pod["metadata"]["uid"] for name, pod in lab.pods().items()}
            one.kill()
            lab.submit("bert", 8)
            wait_until(lambda: bool(lab.pods("bert")), "the standby to act")
            after = {name: pod["metadata"]["uid"] for name, pod in lab.pods("vit").items()}
    assert after == before
    assert _holder(cluster) in ("two", "")


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_long_solve_does_not_lose_the_lease(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(1, gpus=8)
    lab = Lab(cluster)
    recipe = tmp_path / "slow.py"
    recipe.write_text(BURNING)
    options = {"recipe": f"{recipe}:burning"}
    one = OperatorProcess(kubeconfig, tmp_path, name="one", options=options)
    two = OperatorProcess(kubeconfig, tmp_path, name="two", options=options)
    with one:
        wait_until(lambda: _holder(cluster) == "one", "one to lead")
        with two:
            lab.submit("vit", 8)
            wait_until((tmp_path / "begun").exists, "the long computation to begin")
            renewals = {_lease(cluster)["renewTime"]}

            def is_renewed() -> bool:
                renewals.add(_lease(cluster)["renewTime"])
                return len(renewals) > RENEWALS

            wait_until(is_renewed, "renewals during the computation")
            assert not lab.pods("vit"), "the computation is over"
            (tmp_path / "over").touch()
            wait_until(lambda: bool(lab.pods("vit")), "the job to start")
            lease = _lease(cluster)
            assert (lease["holderIdentity"], lease["leaseTransitions"]) == ("one", 1)


def _lease(cluster: ControlPlane) -> dict[str, Any]:
    answer = cluster.api.send("GET", LEASE)
    found: dict[str, Any] = answer.body.get("spec", {}) if answer.status == 200 else {}
    return found


def _holder(cluster: ControlPlane) -> str:
    return str(_lease(cluster).get("holderIdentity", ""))
