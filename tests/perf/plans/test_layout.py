"""Who sits beside whom: rings of ranks over nodes and their network cards."""

import pytest

from weft.perf.plans.fabric import Fabric
from weft.perf.plans.layout import loads

NODE = Fabric()


@pytest.mark.parametrize(("gpus", "cards"), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (8, 4)])
def test_neighbours_share_a_card(gpus: int, cards: int) -> None:
    assert NODE.cards(gpus) == cards


@pytest.mark.parametrize(
    ("degrees", "counts", "load"),
    [
        ((8, 1, 1), (8,), 0.0),
        ((16, 1, 1), (8, 8), 1 / 4),
        ((8, 1, 1), (4, 4), 1 / 2),
        ((8, 1, 1), (2, 6), 1.0),
        ((8, 1, 1), (2, 2, 2, 2), 1.0),
        ((4, 4, 1), (8, 8), 1.0),  # four rings on four cards
        ((4, 4, 1), (4, 4, 4, 4), 2.0),  # four rings on two cards
        ((2, 4, 2), (8, 8), 0.0),  # replicas of a stage fill one node
        ((2, 4, 2), (4, 4, 4, 4), 2.0),
        ((4, 2, 5), (5,) * 8, 2.0),  # four rings on three cards: one has two
    ],
)
def test_rings_of_replicas(
    degrees: tuple[int, int, int], counts: tuple[int, ...], load: float
) -> None:
    assert loads(degrees, degrees[0], counts, NODE).data == load


def test_tensor_ranks_stay_inside_a_node_that_they_divide() -> None:
    assert loads((4, 4, 1), 4, (8, 8), NODE).tensor == 0.0
    assert loads((4, 4, 3), 4, (6,) * 8, NODE).tensor > 0.0


def test_a_hybrid_shares_inside_a_node_and_sums_across() -> None:
    found = loads((16, 1, 1), 8, (8, 8), NODE)
    assert found.shard == 0.0
    assert found.replica == 2.0  # eight rings of two on four cards


def test_nodes_are_filled_in_order() -> None:
    assert NODE.filled(20) == (8, 8, 4)
    assert NODE.filled(8) == (8,)
    assert NODE.filled(0) == ()
