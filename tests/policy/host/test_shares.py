"""The fair share of a GPU's node, where cores or memory are unknown."""

from math import inf

import pytest

from tests.builders import a_cluster, a_node, node_table
from weft.model.cluster import Node
from weft.model.host import PerGpu
from weft.policy.host.shares import Fair, fair_of


def fair(*nodes: Node) -> Fair | None:
    return fair_of(node_table(a_cluster(*nodes)).fabric.nodes)


@pytest.mark.parametrize("memory_gib", [None, 0.0])
def test_unknown_memory_is_not_a_limit(memory_gib: float | None) -> None:
    found = fair(a_node("n0", gpus=4, cpus=32.0, memory_gib=memory_gib))
    assert found == Fair(PerGpu(8.0, inf), PerGpu(32.0, inf))


def test_known_memory_is_shared_by_gpus() -> None:
    found = fair(a_node("n0", gpus=4, cpus=32.0, memory_gib=256.0))
    assert found == Fair(PerGpu(8.0, 64.0), PerGpu(32.0, 256.0))


def test_the_scarcest_node_sets_the_share_and_the_largest_the_most() -> None:
    scarce = a_node("n0", gpus=8, cpus=16.0, memory_gib=64.0)
    large = a_node("n1", gpus=4, cpus=64.0, memory_gib=512.0)
    assert fair(scarce, large) == Fair(PerGpu(2.0, 8.0), PerGpu(64.0, 512.0))


def test_without_counted_cores_there_is_no_fair_share() -> None:
    assert fair(a_node("n0", gpus=4)) is None
    assert fair(a_node("n0", gpus=4, cpus=0.0)) is None
    assert fair(a_node("n0", gpus=0, cpus=32.0)) is None
