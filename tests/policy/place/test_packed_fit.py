"""Network-packed placements: one node, or whole nodes, or none."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node, a_request, node_table
from weft.model.cluster import Cluster
from weft.model.kind import Kind, kind_of
from weft.policy.place.fabric import Fabric
from weft.policy.place.packing import Offer, best_fit, packed_fit
from weft.policy.place.room import Room

SIZE = 4
ANYWHERE = kind_of(a_request(gpus=1))
free_gpus = st.lists(st.integers(0, SIZE), min_size=1, max_size=6)


def a_place(free: list[int], cluster: Cluster | None = None) -> tuple[Room, Fabric]:
    """Equal nodes on which so much is free."""
    fabric = node_table(cluster or a_cluster(nodes=len(free), gpus=SIZE)).fabric
    gpus = np.array(free, np.int64) * fabric.usable
    return Room(gpus, fabric.nodes.cpus.copy(), fabric.nodes.memory_gib.copy()), fabric


def placed(free: list[int], width: int, kind: Kind = ANYWHERE) -> dict[int, int] | None:
    return shares(packed_fit(*a_place(free), kind, width))


def shares(offer: Offer | None) -> dict[int, int] | None:
    return None if offer is None else dict(offer.shares)


def by_hand(free: list[int], width: int, most_nodes: int | None) -> dict[int, int] | None:
    if width < SIZE:
        fitting = [(gpus, node) for node, gpus in enumerate(free) if gpus >= width]
        return {min(fitting)[1]: width} if fitting else None
    whole, needed = [node for node, gpus in enumerate(free) if gpus == SIZE], width // SIZE
    if len(whole) < needed or (most_nodes is not None and needed > most_nodes):
        return None
    if needed == 1:
        return {whole[0]: SIZE}
    return dict.fromkeys([*whole[: needed - 1], whole[-1]], SIZE)


@given(free_gpus, st.integers(1, 6), st.sampled_from([None, 1, 2]))
def test_one_node_or_whole_nodes_or_none(
    free: list[int], units: int, most_nodes: int | None
) -> None:
    kind = kind_of(a_request(gpus=1, max_nodes=most_nodes))
    for width in {units, units * SIZE} - {5, 6}:
        assert placed(free, width, kind) == by_hand(free, width, most_nodes)


@given(free_gpus, st.integers(1, 4))
def test_best_fit_would_find_a_place_wherever_this_does(free: list[int], nodes: int) -> None:
    room, fabric = a_place(free)
    offer = packed_fit(room, fabric, ANYWHERE, nodes * SIZE)
    if offer is not None:
        other = best_fit(room, fabric, ANYWHERE, nodes * SIZE)
        assert other is not None and len(other.shares) == len(offer.shares) == nodes
        assert offer.slowdown == 1.0


def test_the_fullest_node_that_holds_it_is_taken() -> None:
    assert placed([4, 2, 3, 2], 2) == {1: 2}
    assert placed([4, 1, 1, 1], 2) == {0: 2}
    assert placed([1, 1, 1, 1], 2) is None, "not spread, though there is room"


def test_whole_nodes_are_whole() -> None:
    assert placed([3, 4, 3, 4], 8) == {1: 4, 3: 4}
    assert placed([3, 4, 3, 3], 8) is None
    assert placed([4], 4) == {0: 4}


def test_no_more_nodes_than_allowed() -> None:
    one_node = kind_of(a_request(gpus=1, max_nodes=1))
    assert placed([4, 4], 8, one_node) is None
    assert placed([4, 4], 4, one_node) == {0: 4}


@pytest.mark.parametrize("width", [5, 6, 7, 9])
def test_a_width_that_is_not_packed_is_placed_as_it_comes(width: int) -> None:
    room, fabric = a_place([4, 3, 4, 2])
    plain = best_fit(room, fabric, ANYWHERE, width)
    assert plain is not None
    assert shares(packed_fit(room, fabric, ANYWHERE, width)) == shares(plain)


def test_whole_nodes_are_of_one_pool() -> None:
    pools = [a_node(f"n{i}", SIZE, pool=pool) for i, pool in enumerate("abba")]
    assert shares(packed_fit(*a_place([4, 4, 4, 3], a_cluster(*pools)), ANYWHERE, 8)) == {
        1: 4,
        2: 4,
    }
    assert packed_fit(*a_place([4, 4, 3, 3], a_cluster(*pools)), ANYWHERE, 8) is None


def test_what_these_nodes_can_never_hold_in_whole_nodes_is_placed_as_it_comes() -> None:
    uneven = a_cluster(a_node("n0", 4), a_node("n1", 2), a_node("n2", 2))
    assert shares(packed_fit(*a_place([4, 2, 2], uneven), ANYWHERE, 8)) == {0: 4, 1: 2, 2: 2}


def test_a_job_without_gpus_goes_where_fewest_gpus_are_free() -> None:
    host_only = kind_of(a_request(gpus=0, cpus=2.0))
    assert placed([4, 1, 2], 0, host_only) == {1: 0}


def test_avoided_nodes_are_avoided() -> None:
    room, fabric = a_place([2, 4, 4])
    avoid = np.array([True, False, False])
    assert shares(packed_fit(room, fabric, ANYWHERE, 2, avoid=avoid)) == {1: 2}
    avoid[1] = True
    assert packed_fit(room, fabric, ANYWHERE, 8, avoid=avoid) is None
    assert shares(packed_fit(room, fabric, ANYWHERE, 4, avoid=avoid)) == {2: 4}


def test_another_type_of_gpu_is_tried_where_the_fastest_has_no_room() -> None:
    cluster = a_cluster(a_node("n0", SIZE, type="fast"), a_node("n1", SIZE, type="slow"))
    kind = kind_of(a_request(gpus=1, types=[("slow", 1.0), ("fast", 2.0)]))
    assert shares(packed_fit(*a_place([4, 4], cluster), kind, 4)) == {0: 4}
    offer = packed_fit(*a_place([3, 4], cluster), kind, 4)
    assert shares(offer) == {1: 4}
    assert offer is not None and offer.speed == 1.0
    assert packed_fit(*a_place([4, 4], cluster), kind, 8) is None, "never on both"


def test_cores_limit_what_a_node_offers() -> None:
    cluster = a_cluster(a_node("n0", SIZE, cpus=4.0), a_node("n1", SIZE, cpus=64.0))
    hungry = kind_of(a_request(gpus=1, cpus_per_gpu=2.0))
    room, fabric = a_place([4, 4], cluster)
    assert shares(packed_fit(room, fabric, hungry, 2)) == {0: 2}
    assert shares(packed_fit(room, fabric, hungry, 3)) == {1: 3}
    assert shares(packed_fit(room, fabric, hungry, 4)) == {1: 4}


def test_nowhere_at_all() -> None:
    nothing = kind_of(a_request(gpus=1, types=[("tpu", 1.0)]))
    assert placed([4, 4], 1, nothing) is None
    cordoned = a_cluster(a_node("n0", SIZE, cordoned=True))
    assert packed_fit(*a_place([4], cordoned), ANYWHERE, 1) is None
