"""Live changes of plans on a real control plane: decided, recorded, told to the head, and reached.

Nobody trains here; the test speaks for the head of the job, as its agent does.
"""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.kube.heads import Head, free_port
from tests.kube.installed import install_chart
from tests.kube.operators import Lab, OperatorProcess, Relief, wait_until
from tests.language_model import MODEL
from tools.testcluster import ControlPlane

RECIPE: Final = "rubick(spacing=0.1, budget=1.0, gate=0.5)"
OFFERS: Final = ("data", "fsdp2", "tensor", "pipeline")
CRASHES: Final = ("before-resize", "resize-recorded", "joined", "before-resized", "resized")
PATIENCE_SECONDS: Final = 45.0


@pytest.mark.timeout(150)
def test_a_job_goes_from_plan_to_plan_while_it_trains(
    cluster: ControlPlane, tmp_path: Path
) -> None:
    orders, lab = play(cluster, tmp_path, "")
    assert [(one["plan"], one["width"], one["leaving"]) for one in orders] == [
        ("tensor=2", 2, []),
        ("replicated", 1, [1]),
        ("tensor=2", 2, []),
    ]
    note = lab.told("job")["Resizing"]
    assert note.endswith(("from replicated to tensor=2", "from tensor=2 to replicated")), note


@pytest.mark.slow
@pytest.mark.timeout(150)
@pytest.mark.parametrize("label", CRASHES)
def test_an_operator_that_dies_in_a_switch_changes_nothing_in_the_end(
    cluster: ControlPlane, tmp_path: Path, label: str
) -> None:
    orders, _ = play(cluster, tmp_path, label)
    assert {one["plan"] for one in orders} == {"tensor=2", "replicated"}


def play(cluster: ControlPlane, folder: Path, crash: str) -> tuple[list[dict[str, Any]], Lab]:
    """It grows into what comes free, makes room for another job, and grows again."""
    kubeconfig = install_chart(cluster)
    cluster.add_nodes(2, gpus=2)
    lab, port = Lab(cluster), free_port()
    options = {"recipe": RECIPE, "reports_port": port}
    dies = {"WEFT_CRASH": crash} if crash else {}
    first = OperatorProcess(kubeconfig, folder, options=options, environment=dies)
    second = OperatorProcess(kubeconfig, folder, options=options)
    head = Head(cluster, "lab", "job", port, offers=OFFERS)
    with first, Relief(first, second, crash), head:
        for name, gpus in (("wide", 2), ("beside", 1)):
            lab.submit(name, gpus)
            lab.wait_for(name, "Running")
        about = {"model": MODEL, "duration": "10h", "checkpoint": {"path": "/ckpt"}}
        lab.submit("job", "1..2", **about)
        wait_until(lambda: offers_are_told(lab), "its offers on record", PATIENCE_SECONDS)
        lab.cancel("beside")
        until_under(lab, width=2, tensor=2)
        lab.submit("short", 1)
        lab.wait_for("short", "Running")
        until_under(lab, width=1, tensor=1)
        lab.cancel("short")
        until_under(lab, width=2, tensor=2)
    return head.followed, lab


def offers_are_told(lab: Lab) -> bool:
    decision = lab.job("job").get("status", {}).get("decision", {})
    return tuple(decision.get("offers", ())) == OFFERS


def until_under(lab: Lab, *, width: int, tensor: int) -> None:
    """Without another start."""

    def there() -> bool:
        status = lab.job("job")["status"]
        decision = status["decision"]
        assert decision["epoch"] == 1
        plan = decision.get("plan", {}).get("tensor", 1)
        settled = status["state"] == "Running" and "order" not in decision
        return settled and (decision["width"], plan) == (width, tensor)

    wait_until(there, f"tensor={tensor} on {width}", PATIENCE_SECONDS)
    assert len(lab.pods("job")) == width
