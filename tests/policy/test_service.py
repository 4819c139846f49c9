"""Levels of service that double: few of them, and their ends are where the next ones begin."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.policy.service import FIRST_LEVEL_GPU_SECONDS, level_ends, service_level


@pytest.mark.parametrize(
    ("served", "level"), [(0.0, 0), (59.0, 0), (60.0, 1), (119.0, 1), (120.0, 2), (240.0, 3)]
)
def test_each_doubling_is_a_level(served: float, level: int) -> None:
    assert service_level(np.array([served]))[0] == level


@given(st.floats(0.0, 1e12))
def test_a_level_ends_above_what_it_holds_and_the_next_begins_there(served: float) -> None:
    level = service_level(np.array([served]))
    end = level_ends(level)
    assert end[0] > served
    assert service_level(end)[0] == level[0] + 1
    assert level[0] == 0 or end[0] <= 2.0 * max(served, FIRST_LEVEL_GPU_SECONDS) + 1e-3
