"""Floors: what is owed, then the least of each in rank order, passing over what does not fit."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from weft.policy.size.floors import floors

claims = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0, 0, 0, 3])), max_size=12)


@given(claims, st.integers(0, 30))
@example([(1, 0)] * 5, 3)
@example([(4, 0), (2, 0), (1, 0)], 5)
@example([(1, 3), (1, 3)], 4)
def test_floors_are_a_plain_walk_through_the_ranks(rows: list[tuple[int, int]], gpus: int) -> None:
    least = np.array([row[0] for row in rows], np.int64)
    owed = np.array([row[1] for row in rows], np.int64)
    widths, left = floors(least, owed, gpus)
    expected, expected_left = walked(rows, gpus)
    assert widths.tolist() == expected
    assert left == expected_left


def walked(rows: list[tuple[int, int]], gpus: int) -> tuple[list[int], int]:
    left = max(gpus - sum(owed for _, owed in rows), 0)
    widths = [owed for _, owed in rows]
    for row, (least, owed) in enumerate(rows):
        if not owed and least <= left:
            widths[row] = least
            left -= least
    return widths, left
