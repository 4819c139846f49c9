"""Which nodes are Weft's, and what is read from them."""

from typing import Any

import pytest

from tests.kube.looks import a_pod
from weft.brain.event import NodeAdded, NodeChanged
from weft.kube.node_rules import NodeRules
from weft.kube.operator.observation.foreign_use import ForeignUse
from weft.kube.operator.observation.node import ObservedNode, read_node
from weft.kube.operator.observation.node_inventory import NodeInventory
from weft.kube.operator.observation.pod_index import PodIndex
from weft.kube.pod_requests import PodRequests
from weft.model.suit import Demand

PRODUCT = "nvidia.com/gpu.product"
SLICE = NodeRules(selector=(("weft.dev/trial", "yes"),))


def raw(
    room: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    taints: tuple[str, ...] = (),
) -> dict[str, Any]:
    return {
        "metadata": {"uid": "u", "resourceVersion": "1", "name": "n", "labels": labels or {}},
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {
            "allocatable": {"cpu": "8", "memory": "64Gi", **(room or {"nvidia.com/gpu": "8"})},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


@pytest.mark.parametrize(
    ("room", "labels", "found"),
    [
        ({"nvidia.com/gpu": "8"}, {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, ("H100", 8)),
        ({"nvidia.com/gpu": "56"}, {PRODUCT: "NVIDIA-A100-MIG-1g.5gb"}, ("MIG-1g.5gb", 56)),
        ({"nvidia.com/mig-1g.5gb": "7"}, {PRODUCT: "NVIDIA-A100"}, ("MIG-1g.5gb", 7)),
        ({"nvidia.com/gpu": "0", "nvidia.com/mig-3g.20gb": "2"}, {}, ("MIG-3g.20gb", 2)),
        ({"nvidia.com/gpu": "4", "nvidia.com/mig-3g.20gb": "2"}, {}, ("gpu", 4)),
        ({"amd.com/gpu": "8"}, {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}, ("MI300X", 8)),
        ({"amd.com/gpu": "8"}, {}, ("amd.com", 8)),
        ({"cpu": "8"}, {}, ("gpu", 0)),
    ],
)
def test_a_node_counts_with_one_kind_of_gpu(
    room: dict[str, str], labels: dict[str, str], found: tuple[str, int]
) -> None:
    observed = read_node(raw(room, labels))
    assert (observed.gpu_type, observed.gpus) == found


@pytest.mark.parametrize(
    ("room", "labels", "taints"),
    [
        ({"nvidia.com/gpu": "8"}, {PRODUCT: "NVIDIA-H100-80GB-HBM3"}, ()),
        ({"nvidia.com/gpu": "7"}, {PRODUCT: "NVIDIA-A100-MIG-1g.5gb"}, ("gpu-type:MIG-1g.5gb",)),
        ({"nvidia.com/mig-1g.5gb": "7"}, {}, ("gpu-type:MIG-1g.5gb",)),
        ({"amd.com/gpu": "8"}, {}, ("gpu-type:amd.com",)),
        ({"cpu": "4"}, {}, ()),
    ],
)
def test_parts_and_other_makers_gpus_are_for_those_who_name_them(
    room: dict[str, str], labels: dict[str, str], taints: tuple[str, ...]
) -> None:
    assert read_node(raw(room, labels)).taints == taints


def test_other_makers_are_named_by_an_administrator() -> None:
    rules = NodeRules(gpu_resources=("habana.ai/gaudi",))
    observed = read_node(raw({"habana.ai/gaudi": "8", "nvidia.com/gpu": "1"}), rules)
    assert (observed.gpus, observed.gpu_resource) == (8, "habana.ai/gaudi")
    assert not read_node(raw(taints=("habana.ai/gaudi",)), rules).closed


def test_the_first_rack_label_that_a_node_has_is_its_rack() -> None:
    rules = NodeRules(rack_labels=("example.com/block", "topology.kubernetes.io/rack"))
    both = {"topology.kubernetes.io/rack": "r1", "example.com/block": "b7"}
    assert read_node(raw(labels=both), rules).rack == "b7"
    assert read_node(raw(labels={"topology.kubernetes.io/rack": "r1"}), rules).rack == "r1"
    assert read_node(raw(), rules).rack == read_node(raw()).rack


def test_taints_close_a_node_unless_all_or_some_workers_bear_them() -> None:
    rules = NodeRules(tolerations=("dedicated",), job_tolerations=("spot",))
    assert read_node(raw(taints=("dedicated",))).closed
    assert not read_node(raw(taints=("dedicated", "nvidia.com/gpu")), rules).closed
    spot = read_node(raw(taints=("dedicated", "spot")), rules)
    assert (spot.closed, spot.taints) == (False, ("spot",))
    assert read_node(raw(taints=("spot", "other")), rules).closed


def test_devices_are_counted_for_each_gpu_less_what_others_hold() -> None:
    node = read_node(raw({"nvidia.com/gpu": "8", "rdma/hca": "8", "vpc.amazonaws.com/efa": "4"}))
    assert dict(node.beside().offering.devices_per_gpu) == {
        "rdma/hca": 1.0,
        "vpc.amazonaws.com/efa": 0.5,
    }
    proportional = PodRequests(devices=(("nvidia.com/gpu", 4.0), ("rdma/hca", 4.0)))
    assert dict(node.beside(proportional).offering.devices_per_gpu)["rdma/hca"] == 1.0
    greedy = PodRequests(devices=(("nvidia.com/gpu", 1.0), ("rdma/hca", 8.0)))
    assert dict(node.beside(greedy).offering.devices_per_gpu)["rdma/hca"] == 0.0
    modest = PodRequests(devices=(("nvidia.com/gpu", 4.0),))
    assert dict(node.beside(modest).offering.devices_per_gpu)["rdma/hca"] == 1.0


def test_gpus_of_a_kind_that_the_node_does_not_count_take_none_of_it() -> None:
    node = read_node(raw({"nvidia.com/gpu": "4", "nvidia.com/mig-3g.20gb": "2"}))
    assert node.beside(PodRequests(devices=(("nvidia.com/mig-3g.20gb", 2.0),))).gpus == 4
    assert node.beside(PodRequests(devices=(("nvidia.com/gpu", 3.0),))).gpus == 1


def test_a_gpu_is_no_device_beside_itself() -> None:
    offering = read_node(raw()).beside().offering
    assert not Demand(devices_per_gpu=(("nvidia.com/gpu", 1.0),)).is_met_by(offering)


# --- a slice of the cluster -------------------------------------------------------------------


def book_of(observed: ObservedNode) -> tuple[NodeInventory, dict[str, ObservedNode]]:
    nodes = {observed.name: observed}
    index = PodIndex()
    foreign_use = ForeignUse(index, lambda pod: False)
    foreign = a_pod(0, node="n", job="", gpus=2)
    index.changed(None, foreign)
    book = NodeInventory(nodes, foreign_use)
    book.touch("n")
    return book, nodes


def test_a_node_outside_is_not_told_and_its_pods_are_not_counted() -> None:
    book, _ = book_of(read_node(raw(), SLICE))
    assert list(book.news(1.0)) == []
    assert (book.foreign_gpus(), book.lost_gpus()) == (0, 0)
    inside, _ = book_of(read_node(raw(labels={"weft.dev/trial": "yes"}), SLICE))
    (event,) = inside.news(1.0)
    assert isinstance(event, NodeAdded) and event.node.gpus == 6
    assert inside.foreign_gpus() == 2


def test_a_node_that_leaves_the_slice_keeps_its_workers_and_gets_no_more() -> None:
    book, nodes = book_of(read_node(raw(labels={"weft.dev/trial": "yes"}), SLICE))
    assert len(list(book.news(1.0))) == 1
    nodes["n"] = read_node(raw(), SLICE)
    book.touch("n")
    (event,) = book.news(2.0)
    assert isinstance(event, NodeChanged) and event.node.cordoned
    assert book.lost == {}


def test_a_term_that_begins_with_workers_outside_adopts_them() -> None:
    book, _ = book_of(read_node(raw(), SLICE))
    book.seat({"n"})
    (event,) = book.news(1.0)
    assert isinstance(event, NodeAdded) and event.node.cordoned
