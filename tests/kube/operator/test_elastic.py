"""Measured speeds on a real control plane: what heads report decides who gets the GPUs.

Nobody trains here; the test reports for the heads, as agents do, how fast their jobs are.
"""

from pathlib import Path

import pytest

from tests.kube.heads import Head, free_port
from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tools.testcluster import ControlPlane

RECIPE = "afs-l(hold=0.0, spacing=0.1, min_run=0.0)"


@pytest.mark.timeout(120)
def test_gpus_go_to_the_job_whose_head_says_that_it_scales(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    """Both ask for the same; one is as fast on one GPU as on four, and nobody starts again."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=2)
    lab, port = Lab(cluster), free_port()
    with OperatorProcess(kubeconfig, tmp_path, options={"recipe": RECIPE, "reports_port": port}):
        lab.submit("scales", "1..4")
        lab.submit("stays", "1..4")
        with (
            Head(cluster, "lab", "scales", port, rate=lambda width: 10.0 * width),
            Head(cluster, "lab", "stays", port, rate=lambda width: 10.0),
        ):
            wait_until(lambda: widths(lab) == (3, 1), "the GPUs to go where they help")
    for name in ("scales", "stays"):
        assert lab.job(name)["status"]["decision"]["epoch"] == 1
        assert lab.job(name)["status"]["work"]["unit"] == "steps"


def widths(lab: Lab) -> tuple[int, ...]:
    found = []
    for name in ("scales", "stays"):
        status = lab.job(name).get("status", {})
        settled = status.get("state") == "Running"
        found.append(len(status["decision"]["seats"]) if settled else 0)
    return tuple(found)
