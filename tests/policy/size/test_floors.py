"""Floors: what is owed, then the least of each in rank order, passing over what does not fit."""

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from weft.model.snapshot import Ints
from weft.policy.size.floors import floors_and_more
from weft.policy.supply import Purse, Supply

claims = st.lists(st.tuples(st.integers(0, 6), st.sampled_from([0, 0, 0, 3])), max_size=12)


@given(claims, st.integers(0, 30))
@example([(1, 0)] * 5, 3)
@example([(4, 0), (2, 0), (1, 0)], 5)
@example([(1, 3), (1, 3)], 4)
def test_floors_are_a_plain_walk_through_the_ranks(rows: list[tuple[int, int]], gpus: int) -> None:
    least = np.array([row[0] for row in rows], np.int64)
    owed = np.array([row[1] for row in rows], np.int64)
    expected, expected_left = walked(rows, gpus)
    for pools in (((0,),), ((0,), (0,))):
        seen: list[Purse] = []

        def fill(widths: Ints, purse: Purse, seen: list[Purse] = seen) -> Ints:
            seen.append(purse)
            return widths

        pool = np.arange(len(rows)) % len(pools)
        nobody = np.zeros(len(rows), bool)
        supply = Supply(pool, np.ones(len(rows)), nobody, (gpus,), (pools,))
        widths = floors_and_more(supply, least, owed, fill=fill)
        assert widths.tolist() == expected
        assert seen[0].left[0] == expected_left


def walked(rows: list[tuple[int, int]], gpus: int) -> tuple[list[int], int]:
    left = max(gpus - sum(owed for _, owed in rows), 0)
    widths = [owed for _, owed in rows]
    for row, (least, owed) in enumerate(rows):
        if not owed and least <= left:
            widths[row] = least
            left -= least
    return widths, left
