"""GPUs of a node, counted from what a driver publishes and claims hold."""

from typing import Any

import pytest

from weft.kube.claims import claim_name
from weft.kube.devices import NodeDevices, devices_on, read_slice

DRIVER = "gpu.example.com"


def published(node: str, *memory: str | None, driver: str = DRIVER, name: str = "s") -> Any:  # noqa: ANN401
    devices = [
        {"name": f"gpu-{n}", **({"capacity": {"memory": {"value": one}}} if one else {})}
        for n, one in enumerate(memory)
    ]
    return read_slice(
        {
            "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
            "spec": {"driver": driver, "nodeName": node, "devices": devices},
        }
    )


def test_all_slices_of_the_driver_on_a_node_count() -> None:
    slices = [
        published("a", "16Gi", "16Gi"),
        published("a", "8Gi", name="t"),
        published("a", "1Gi", driver="nic.example.com"),
        published("b", "80Gi"),
    ]
    assert devices_on("a", DRIVER, slices) == NodeDevices(3, 8.0), "the smallest has 8 GiB"
    assert devices_on("b", DRIVER, slices) == NodeDevices(1, 80.0)
    assert devices_on("c", DRIVER, slices) == NodeDevices(0, None)


def test_memory_that_one_of_them_does_not_tell_is_not_known() -> None:
    assert devices_on("a", DRIVER, [published("a", "16Gi", None)]) == NodeDevices(2, None)
    both = [published("a", "16Gi"), published("a", None, name="t")]
    assert devices_on("a", DRIVER, both) == NodeDevices(2, None)


def test_a_slice_of_no_node_is_nobodys() -> None:
    bare = read_slice({"metadata": {"uid": "u", "resourceVersion": "1"}, "spec": {}})
    assert (bare.node, bare.devices, bare.memory_gib) == ("", 0, None)


@pytest.mark.parametrize(
    ("party", "name"),
    [
        ("", "vit-3-1"),
        ("team/loads/2", "loads-2-0"),
        ("team/a-1/14", "a-1-14-0"),
    ],
)
def test_a_claim_is_called_as_the_pod_that_it_was_made_for(party: str, name: str) -> None:
    assert claim_name("vit", 3, 1, party) == name
