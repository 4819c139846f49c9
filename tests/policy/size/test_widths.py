"""Widths as requested, and AFS's widths that leave one job per network card."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_snapshot
from weft.policy.packing import Packing
from weft.policy.size.requested import NetworkPacked, as_requested, packed_width
from weft.policy.supply import NO_SUPPLY

node_sizes = st.sampled_from([1, 2, 4, 6, 8])


@given(st.integers(1, 64), node_sizes)
def test_a_packed_width_divides_a_node_or_is_made_of_whole_nodes(width: int, node: int) -> None:
    divides = any(part * width == node for part in range(1, node + 1))
    whole = any(part * node == width for part in range(1, width + 1))
    assert Packing.NETWORK.allows(width, node) == (divides or whole)


@given(st.integers(1, 24), st.integers(0, 12), st.integers(0, 12), node_sizes)
def test_the_widest_packed_width_below_else_the_next_above(
    width: int, below: int, above: int, node: int
) -> None:
    low, high = max(width - below, 0), width + above
    packed = [w for w in range(max(low, 1), high + 1) if Packing.NETWORK.allows(w, node)]
    expected = max(
        (w for w in packed if w <= width), default=min((w for w in packed), default=width)
    )
    assert packed_width(width, node, low=low, high=high) == expected


def test_a_fixed_width_stays_as_it_is() -> None:
    assert packed_width(3, 8, low=3, high=3) == 3


def test_the_ends_of_the_range_belong_to_it() -> None:
    assert packed_width(3, 8, low=3, high=4) == 4
    assert packed_width(3, 8, low=2, high=4) == 2
    assert packed_width(15, 8, low=9, high=16) == 16


def test_a_job_that_was_given_nothing_gets_nothing_packed() -> None:
    assert packed_width(0, 8, low=1, high=16) == 0


def test_all_jobs_at_once() -> None:
    snapshot = a_snapshot(
        {"asked_gpus": 3, "min_gpus": 1, "max_gpus": 4},
        {"asked_gpus": 3, "min_gpus": 3, "max_gpus": 3},
        {"asked_gpus": 20, "min_gpus": 8, "max_gpus": 32},
        nodes=a_cluster(nodes=4, gpus=8),
    )
    slots = snapshot.slots()
    assert as_requested(snapshot, slots, NO_SUPPLY).tolist() == [3, 3, 20]
    assert NetworkPacked()(snapshot, slots, NO_SUPPLY).tolist() == [2, 3, 16]
    assert NetworkPacked()(snapshot, np.zeros(0, np.int64), NO_SUPPLY).tolist() == []
