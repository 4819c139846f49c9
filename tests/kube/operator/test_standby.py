"""Two replicas: one leads, the other waits for the lease, and neither is ever both."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.calm import calm
from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane
from weft.kube.operator.observation.metadata import parse_time

LEASE = "/apis/coordination.k8s.io/v1/namespaces/weft-system/leases/weft-operator"
TAKEOVER_SECONDS = 20.0

BURNING = '''
"""A recipe whose first order takes half a minute of pure computation."""

import time
from dataclasses import replace

from weft.policy.order.arrival import by_arrival
from weft.policy.recipes import backfill

calls = []


def burn(snapshot, slots):
    if not calls and len(slots):
        calls.append(1)
        until = time.monotonic() + 30.0
        while time.monotonic() < until:
            sum(range(1000))
    return by_arrival(snapshot, slots)


burning = replace(backfill(spacing=0.1), order=burn)
'''


@pytest.mark.alone
@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_standby_takes_over_within_twenty_seconds_and_no_worker_notices(
    cluster: ControlPlane, tmp_path: Path
) -> None:
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
            seconds = wait_until(lambda: bool(lab.pods("bert")), "the standby to act", 60.0)
            after = {name: pod["metadata"]["uid"] for name, pod in lab.pods("vit").items()}
    print(f"the standby acted after {seconds:.1f} s")  # noqa: T201
    assert seconds <= calm(TAKEOVER_SECONDS)
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
            gap = _largest_gap_until(cluster, lambda: bool(lab.pods("vit")))
            assert _holder(cluster) == "one"
    print(f"the lease was renewed at least every {gap:.1f} s")  # noqa: T201
    assert gap < calm(10.0)


def _largest_gap_until(cluster: ControlPlane, over: Callable[[], bool]) -> float:
    """Seconds between two renewals, at worst."""
    stamps: list[float] = []

    def look() -> bool:
        renewed = parse_time(_lease(cluster)["renewTime"])
        if not stamps or renewed != stamps[-1]:
            stamps.append(renewed)
        return over()

    seconds = wait_until(look, "the solve to end", 120.0, 0.2)
    assert seconds > 25.0, "the recipe did not burn"
    return max(b - a for a, b in pairwise(stamps))


def _lease(cluster: ControlPlane) -> dict[str, Any]:
    answer = cluster.api.send("GET", LEASE)
    found: dict[str, Any] = answer.body.get("spec", {}) if answer.status == 200 else {}
    return found


def _holder(cluster: ControlPlane) -> str:
    return str(_lease(cluster).get("holderIdentity", ""))
