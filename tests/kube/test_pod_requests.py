"""What pods take, held against the rule of the stock scheduler's own helper, case by case."""

from typing import Any

import pytest

from weft.kube.pod_requests import PodRequests, pod_requests

Raw = dict[str, Any]


def c(cpu: str = "0", memory: str = "0", gpus: int = 0, **more: object) -> Raw:
    requests: Raw = {"cpu": cpu, "memory": memory}
    if gpus:
        requests["nvidia.com/gpu"] = str(gpus)
    return {"resources": {"requests": requests}, **more}


def sidecar(cpu: str) -> Raw:
    return c(cpu, restartPolicy="Always")


@pytest.mark.parametrize(
    ("spec", "cpus"),
    [
        ({}, 0.0),
        ({"containers": [c("1"), c("500m")]}, 1.5),
        ({"containers": [c("1")], "initContainers": [c("3"), c("2")]}, 3.0),
        ({"containers": [c("4")], "initContainers": [c("3")]}, 4.0),
        ({"containers": [c("1")], "initContainers": [sidecar("2")]}, 3.0),
        ({"containers": [c("1")], "initContainers": [sidecar("2"), c("4")]}, 6.0),
        ({"containers": [c("1")], "initContainers": [c("4"), sidecar("2")]}, 4.0),
        ({"containers": [c("1")], "initContainers": [sidecar("2"), c("4"), sidecar("5")]}, 8.0),
        ({"containers": [c("5")], "initContainers": [sidecar("2"), c("4"), sidecar("5")]}, 12.0),
        ({"containers": [c("1")], "overhead": {"cpu": "250m"}}, 1.25),
        ({"containers": [c("1")], **c("3")}, 3.0),
        ({"containers": [c("4")], **c("3"), "overhead": {"cpu": "1"}}, 4.0),
        ({"containers": [{"resources": {"limits": {"cpu": "2"}}}]}, 2.0),
        ({"containers": [{}], "initContainers": None}, 0.0),
    ],
)
def test_cores(spec: Raw, cpus: float) -> None:
    assert pod_requests(spec).cpus == pytest.approx(cpus)


def test_gpus_and_memory_follow_the_same_rule() -> None:
    spec = {
        "containers": [c("1", "1Gi", 2), c("1", "2Gi", 1)],
        "initContainers": [c("1", "8Gi", 1), c("0", "1Gi", 4)],
        "overhead": {"memory": "512Mi"},
    }
    assert pod_requests(spec) == PodRequests(2.0, 8.5, (("nvidia.com/gpu", 4.0),))


def test_what_a_pod_states_for_all_leaves_gpus_alone() -> None:
    spec = {"containers": [c("1", "1Gi", 2)], "resources": {"requests": {"memory": "4Gi"}}}
    assert pod_requests(spec) == PodRequests(1.0, 4.0, (("nvidia.com/gpu", 2.0),))
