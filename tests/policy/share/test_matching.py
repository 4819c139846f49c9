"""Matchings against an oracle (NetworkX, which torch brings along), and three ways to find them."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from benchmarks.interleaving.quality import optimum, value
from weft.policy.share import matching
from weft.policy.share.matching import Pairs, by_kinds, heaviest


def table_of(kinds: int, seed: int, *, density: float = 0.5) -> np.ndarray:
    chance = np.random.default_rng(seed)
    weight = chance.uniform(0.1, 2.0, (kinds, kinds)) * (chance.random((kinds, kinds)) < density)
    return np.triu(weight) + np.triu(weight, 1).T


def demand_matching(pairs: Pairs) -> None:
    nodes = [node for pair in pairs for node in pair]
    assert len(nodes) == len(set(nodes))


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_a_matching_is_the_heaviest(seed: int, nodes: int, kinds: int) -> None:
    table = table_of(kinds, seed)
    kind = np.random.default_rng(seed + 1).integers(0, kinds, nodes)
    found = heaviest(table, kind)
    demand_matching(found)
    assert value(table, kind, found) >= optimum(table, kind) * (1 - 1e-6)


@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 12))
@settings(max_examples=40, deadline=None)
@example(seed=0, nodes=26, kinds=10)
def test_a_matching_by_kinds_is_as_heavy(seed: int, nodes: int, kinds: int) -> None:
    table = table_of(kinds, seed)
    kind = np.random.default_rng(seed + 1).integers(0, kinds, nodes)
    found = by_kinds(table, kind)
    demand_matching(found)
    assert value(table, kind, found) >= optimum(table, kind) * 0.999


def test_many_nodes_of_many_kinds_lose_little(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(300, 5, density=0.2)
    kind = np.arange(300)
    exact = value(table, kind, heaviest(table, kind))
    monkeypatch.setattr(matching, "EXACT_UP_TO", 10)
    found = heaviest(table, kind)
    demand_matching(found)
    assert value(table, kind, found) >= 0.98 * exact


def test_blocks_keep_their_own_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matching, "EXACT_UP_TO", 10)
    monkeypatch.setattr(matching, "MOST_AT_ONCE", 30)
    found = heaviest(table_of(100, 6), np.arange(100))
    demand_matching(found)
    assert all(one // 30 == other // 30 for one, other in found)


def test_nothing_to_match_is_no_error() -> None:
    nothing = np.zeros((2, 2))
    assert heaviest(nothing, np.array([0, 1, 1])) == []
    assert heaviest(nothing, np.array([], np.int64)) == []
    assert by_kinds(nothing, np.array([0, 1, 1])) == []


def test_the_heaviest_pair_comes_first() -> None:
    table = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    assert heaviest(table, np.array([0, 1, 2, 2])) == [(2, 3), (0, 1)]
