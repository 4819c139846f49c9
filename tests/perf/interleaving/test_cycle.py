"""Cycles against a brute force that runs the slots, and against what was published."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.perf.interleaving.cycle import LOADING, SLOTS, best_cycles, cycle_seconds, offsets_of

ROUNDS = 40
seconds = st.floats(0.0, 10.0)
member = st.lists(seconds, min_size=SLOTS + 1, max_size=SLOTS + 1)


def by_running(stages: np.ndarray, offsets: tuple[int, ...]) -> float:
    """The mean period of the recurrence itself, once it has settled."""
    borders = [0.0]
    for slot in range(ROUNDS * SLOTS):
        ends = borders[slot]
        for of_member, by in zip(stages, offsets, strict=True):
            ends = max(ends, borders[slot] + of_member[(slot - by) % SLOTS])
            if slot and (slot - by) % SLOTS == 1:
                ends = max(ends, borders[slot - 1] + of_member[LOADING])
        borders.append(ends)
    return (borders[-1] - borders[ROUNDS // 2 * SLOTS]) / (ROUNDS - ROUNDS // 2)


@given(st.lists(member, min_size=2, max_size=4))
def test_a_cycle_is_what_the_slots_take(members: list[list[float]]) -> None:
    stages = np.array(members)
    for offsets in offsets_of(len(members)):
        assert cycle_seconds(stages[None], offsets)[0] == pytest.approx(
            by_running(stages, offsets), rel=1e-9, abs=1e-9
        )


@given(st.lists(member, min_size=2, max_size=4))
def test_the_best_offsets_are_the_best_of_all(members: list[list[float]]) -> None:
    stages = np.array(members)
    found, _ = best_cycles(stages[None])
    every = permutations(range(SLOTS), len(members))
    assert found[0] == pytest.approx(
        min(by_running(stages, offsets) for offsets in every), rel=1e-9, abs=1e-9
    )


@given(st.lists(member, min_size=2, max_size=4))
def test_no_resource_is_busy_for_longer_than_the_cycle(members: list[list[float]]) -> None:
    stages = np.array(members)
    found, _ = best_cycles(stages[None])
    assert found[0] >= stages[:, :SLOTS].sum(axis=0).max() - 1e-9


def test_no_groups_have_no_cycles() -> None:
    found, way = best_cycles(np.zeros((0, 3, SLOTS + 1)))
    assert len(found) == len(way) == 0
