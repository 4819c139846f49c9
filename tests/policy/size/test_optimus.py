"""Optimus: the next rung to the job that saves most seconds per GPU by it."""

import numpy as np

from tests.builders import a_cluster, a_purse, a_snapshot, sized
from tests.policy.size.random_climbs import RandomClimb, a_climb, random_climbs
from weft.model.menu import Menus
from weft.policy.size.optimus import Optimus


def widths(state: RandomClimb) -> list[int]:
    climb = state.climb()
    return list(map(int, climb.ladders.width[Optimus().climbed(climb, a_purse(state.left))]))


def test_every_gpu_goes_where_it_saves_most() -> None:
    for state in random_climbs(500, seed=4):
        state.work[np.isnan(state.work)] = 77.0
        assert widths(state) == greedily(state), state


def test_the_order_of_jobs_does_not_matter() -> None:
    chance = np.random.default_rng(5)
    for state in random_climbs(500, seed=5):
        order = chance.permutation(len(state))
        climb = state.climb(order)
        found = np.empty(len(state), np.int64)
        found[order] = climb.ladders.width[Optimus().climbed(climb, a_purse(state.left))]
        assert found.tolist() == widths(state), state


def test_a_job_of_unknown_length_is_taken_to_need_as_much_again_as_it_has_had() -> None:
    work = [500.0, np.nan, 700.0]
    state = a_climb([[1.0, 1.5]] * 3, work, attained=[0.0, 600.0, 0.0], left=2)
    assert widths(state) == [1, 2, 2]


def test_service_that_was_had_counts_as_time_at_the_least_width() -> None:
    """600 GPU-seconds are 300 s on two GPUs: less work than the other job has left."""
    curve = np.array([0.0, 1.0, 1.8, 2.4])
    ranged = {"min_gpus": 2, "max_gpus": 3}
    served = ranged | {"work_total": np.nan, "attained_gpu_seconds": 600.0}
    known = ranged | {"work_total": 700.0}
    snapshot = a_snapshot(
        served, known, nodes=a_cluster(nodes=1, gpus=5), menus=Menus.of([(curve, curve, curve)])
    )
    assert sized(Optimus(), snapshot, np.arange(2)).tolist() == [2, 3]


def test_new_jobs_of_unknown_length_share_evenly() -> None:
    state = a_climb([[1.0, 1.9, 2.7, 3.4]] * 2, [np.nan] * 2, left=4)
    assert widths(state) == [3, 3]


def test_work_without_end_is_no_reason_to_climb_what_saves_nothing() -> None:
    state = a_climb([[1.0, 1.0], [1.0, 1.5]], [np.inf, 10.0], left=1)
    assert widths(state) == [1, 2]


def greedily(state: RandomClimb) -> list[int]:
    """One rung after the other, everybody asked every time."""
    ladders, left = state.rungs(), state.left
    at, out = [0] * len(state), [False] * len(state)
    while True:
        best: tuple[float, int, int] | None = None
        for row, ladder in enumerate(ladders):
            if out[row] or at[row] + 1 >= len(ladder):
                continue
            (width, speed), (wider, faster) = ladder[at[row]], ladder[at[row] + 1]
            saved = float(state.work[row]) * ((1 / speed - 1 / faster) / (wider - width))
            best = min(best or (np.inf, 0, 0), (-saved, int(state.seq[row]), row))
        if best is None:
            return [ladder[rung][0] for ladder, rung in zip(ladders, at, strict=True)]
        row = best[2]
        price = ladders[row][at[row] + 1][0] - ladders[row][at[row]][0]
        if price > left:
            out[row] = True
        else:
            at[row] += 1
            left -= price
