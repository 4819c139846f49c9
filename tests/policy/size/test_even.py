"""Even shares: the narrowest gets the next piece, the first of equals before the others."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_snapshot, sized
from weft.model.state import State
from weft.policy.size.even import Even

ranges = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 7)), max_size=9)


def widths(spans: list[tuple[int, int]], gpus: int, grain: int = 1) -> list[int]:
    jobs = [{"min_gpus": least, "max_gpus": least + more} for least, more in spans]
    snapshot = a_snapshot(*jobs, nodes=a_cluster(nodes=1, gpus=gpus))
    return list(map(int, sized(Even(grain), snapshot, np.arange(len(jobs)))))


@given(ranges, st.integers(1, 40), st.integers(1, 3))
def test_one_piece_after_the_other_to_the_narrowest(
    spans: list[tuple[int, int]], gpus: int, grain: int
) -> None:
    assert widths(spans, gpus, grain) == filled(spans, gpus, grain)


def filled(spans: list[tuple[int, int]], gpus: int, grain: int) -> list[int]:
    found, left = [], gpus
    for least, _ in spans:
        found.append(least if least <= left else 0)
        left -= found[-1]
    while left >= grain:
        growing = [
            (width, row)
            for row, (width, (least, more)) in enumerate(zip(found, spans, strict=True))
            if width and width + grain <= least + more
        ]
        if not growing:
            break
        found[min(growing)[1]] += grain
        left -= grain
    return found


def test_a_job_that_cannot_be_resized_keeps_what_it_has() -> None:
    stuck = {"min_gpus": 1, "max_gpus": 8, "state": State.RUNNING, "width": 3}
    waiting = {"min_gpus": 1, "max_gpus": 8}
    snapshot = a_snapshot(stuck, waiting, nodes=a_cluster(nodes=1, gpus=8))
    assert sized(Even(), snapshot, np.array([1, 0])).tolist() == [5, 3]


def test_the_rest_of_a_level_goes_by_submission_and_not_by_rank() -> None:
    jobs = [{"min_gpus": 1, "max_gpus": 8, "seq": seq} for seq in (1, 0)]
    snapshot = a_snapshot(*jobs, nodes=a_cluster(nodes=1, gpus=5))
    assert sized(Even(), snapshot, np.arange(2)).tolist() == [2, 3]
