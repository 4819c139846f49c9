"""Jobs that lack nodes are stood for by pods that an autoscaler reacts to, and no longer."""

import asyncio
from pathlib import Path
from typing import Any, cast
from unittest.mock import AsyncMock, patch

import pytest

from tests.builders import Scene, a_cluster, a_job, a_node, given
from tests.kube.installed import install_chart
from tests.kube.looks import a_job as a_sight
from tests.kube.operators import Lab, OperatorProcess, wait_until
from tests.kube.restricted import _profile
from tools.testcluster import ControlPlane
from weft.brain.state.brain_state import BrainState
from weft.kube.names import pods_path
from weft.kube.operator.executor import scale_up
from weft.kube.operator.executor.scale_up import Placeholders, ScaleUp
from weft.kube.operator.observation.job import ObservedJob
from weft.kube.placeholders import shapes_of
from weft.kube.pods import WorkerSettings
from weft.kube.reading.paging import Listing
from weft.spec.job_file import JobSpec

SELECTOR = "labelSelector=weft.dev/placeholder"


@pytest.mark.parametrize(
    ("resources", "node_gpus", "gpus"),
    [
        ({"gpus": 20}, 8, [8, 8, 4]),
        ({"gpus": "4..16"}, 8, [4]),
        ({"gpus": 12}, 0, [8, 4]),
        ({"gpus": 0, "cpus": 4}, 8, [0]),
    ],
)
def test_a_job_is_stood_for_at_its_least_width(
    resources: dict[str, Any], node_gpus: int, gpus: list[int]
) -> None:
    spec = JobSpec.model_validate({"run": "x", "resources": resources})
    assert [shape.gpus for shape in shapes_of(spec, node_gpus)] == gpus


class Waiting:
    """Jobs of a brain, as the operator sees them."""

    def __init__(self, scene: Scene, *names: str) -> None:
        self.brain_state: BrainState = scene.brain.state
        gpus = {name: self.brain_state.spec(self.brain_state.slot_of[name]) for name in names}  # type: ignore[index]
        self.observed_jobs: dict[str, ObservedJob] = {
            name: a_sight(name=name, spec={"resources": {"gpus": job.width.min_gpus}})
            for name, job in gpus.items()
        }

    def names(self, most: int) -> list[str]:
        settings = WorkerSettings(default_image="busybox")
        found = Placeholders(cast(Any, None), self, ScaleUp(most, "low"), settings).wanted()
        assert [breach for pod in found for breach in _profile(pod["spec"])] == []
        return [pod["metadata"]["name"] for pod in found]


def test_whole_jobs_in_turn_and_never_more_pods_than_allowed() -> None:
    scene = given(a_cluster(a_node("n", 8))).submit(a_job("runs", 8)).decide()
    jobs = [a_job("gang", 24), a_job("small", 8, priority=1), a_job("next", 8)]
    waiting = Waiting(scene.submit(*jobs).decide(), "gang", "small", "next")
    assert waiting.names(0) == []
    assert waiting.names(1) == ["small-room-0"]
    assert waiting.names(3) == ["small-room-0", "next-room-0"]
    assert waiting.names(4) == ["small-room-0", "gang-room-0", "gang-room-1", "gang-room-2"]


def test_who_waits_for_a_quota_is_not_stood_for() -> None:
    scene = given(a_cluster(a_node("n", 8))).submit(a_job("lost", 1, queue="nowhere")).decide()
    assert Waiting(scene, "lost").names(4) == []


def test_a_pod_that_only_has_the_label_is_never_removed() -> None:
    """Nor does it stand in the way of the placeholders that are wanted."""
    settings = WorkerSettings(default_image="busybox")
    scene = given(a_cluster(a_node("n", 8))).submit(a_job("gang", 16)).decide()
    own = Placeholders(cast(Any, None), Waiting(scene, "gang"), ScaleUp(2, "low"), settings)
    first, second = own.wanted()
    stored = {"uid": "p", "resourceVersion": "1"}
    old = {**first, "metadata": {**first["metadata"], **stored, "name": "gang-room-7"}}
    old["spec"] = {**first["spec"], "priority": -5}
    plain = {**old, "metadata": {**old["metadata"], "name": "mine", "ownerReferences": []}}
    squat = {**old, "metadata": {**second["metadata"], **stored, "ownerReferences": []}}
    worker = {**old, "metadata": {**old["metadata"], "name": "gang-1-0"}}
    api = AsyncMock()
    listing = AsyncMock(return_value=Listing((old, plain, squat, worker), "1"))
    own = Placeholders(api, Waiting(scene, "gang"), ScaleUp(2, "low"), settings)
    with patch.object(scale_up, "list_all", listing):
        asyncio.run(own._look())
    assert [call.args[0] for call in api.delete.await_args_list] == [
        pods_path("lab", "gang-room-7")
    ]
    made = [call.args[1]["metadata"]["name"] for call in api.create.await_args_list]
    assert made == ["gang-room-0", "gang-room-1"]


def test_placeholders_come_are_unschedulable_and_go(cluster: ControlPlane, tmp_path: Path) -> None:
    kubeconfig = install_chart(cluster, {"scaleUp": {"pods": 2}})
    cluster.add_nodes(1, gpus=4)
    lab = Lab(cluster, labels={"pod-security.kubernetes.io/enforce": "restricted"})
    options = {"scale_up_pods": 2, "scale_up_class": "weft-placeholder"}
    with OperatorProcess(kubeconfig, tmp_path, options=options):
        lab.submit("first", 4)
        lab.await_workers("first")
        lab.submit("second", 8)
        wait_until(lambda: _unschedulable(lab) == ["second-room-0", "second-room-1"], "them to ask")
        cluster.add_nodes(2, gpus=4, prefix="new")
        wait_until(lambda: lab.state("second") == "Running", "the job to run on the new nodes")
        wait_until(lambda: _placeholders(lab) == {}, "them to be gone")


def _placeholders(lab: Lab) -> dict[str, Any]:
    listed = lab.cluster.api.must("GET", f"/api/v1/namespaces/lab/pods?{SELECTOR}")["items"]
    return {pod["metadata"]["name"]: pod for pod in listed}


def _unschedulable(lab: Lab) -> list[str]:
    """As an autoscaler finds them."""
    return sorted(
        name
        for name, pod in _placeholders(lab).items()
        for condition in pod["status"].get("conditions", ())
        if (condition["type"], condition.get("reason")) == ("PodScheduled", "Unschedulable")
    )
