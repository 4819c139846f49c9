"""Clusters and their nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node
from weft.model.cluster import Cluster, Gpu, Links, Node, Pool
from weft.model.errors import SpecError
from weft.model.ids import NodeId


@given(st.integers(1, 40), st.integers(0, 16), st.integers(1, 5))
def test_a_uniform_cluster_has_what_was_asked_for(nodes: int, gpus: int, racks: int) -> None:
    cluster = Cluster.uniform(nodes, gpus, racks=racks)
    assert cluster.gpus == nodes * gpus
    assert len({node.id for node in cluster.nodes}) == nodes
    named = [node.id for node in cluster.nodes]
    assert named == sorted(named), "names sort as they count"
    order = [node.rack for node in cluster.nodes]
    assert 1 <= len(set(order)) <= racks
    assert order == sorted(order, key=order.index), "racks are dealt in blocks"


def test_a_node_is_listed_once() -> None:
    with pytest.raises(SpecError, match="n0 is listed twice"):
        a_cluster(a_node("n0"), a_node("n0"))


def test_a_node_has_no_fewer_than_no_gpus() -> None:
    with pytest.raises(SpecError, match="has -1 GPUs"):
        Node(id=NodeId("n0"), gpus=-1)
    assert Node(id=NodeId("cpu"), gpus=0).gpus == 0


def test_a_cordon_makes_another_node() -> None:
    node = a_node("n0")
    assert node.with_cordon(True).cordoned and not node.cordoned
    assert node.with_cordon(True).with_cordon(False) == node


def test_nobody_has_to_know_memory_or_links() -> None:
    assert Gpu().memory_gib is None
    assert Pool().links == Links(None, None, None)
