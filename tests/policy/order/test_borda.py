"""Borda: averaged ties, no order of rows, levels by quantile, and nobody turned round in vain."""

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_snapshot
from weft.model.menu import Menus
from weft.model.snapshot import Floats, Snapshot
from weft.model.state import State
from weft.perf.predictability import PREDICTABLE_AFTER
from weft.policy.order.borda import Borda, borda, levels_of, places, scores
from weft.policy.order.gains import costs, growth_gains, shrink_gains

FEW = st.integers(0, 4).map(float)
VOTERS = st.lists(st.tuples(FEW, FEW, FEW, st.booleans()), min_size=1, max_size=12)
Voters = list[tuple[float, float, float, bool]]

LINEAR = np.arange(9.0)
SAGGING = np.array([0.0, 1.0, 1.6, 2.0, 2.3, 2.5, 2.6, 2.7, 2.8])


def score(voters: Voters) -> Floats:
    attained, growth, shrink, known = map(np.array, zip(*voters, strict=True))
    return borda(attained, growth, shrink, known)


def snapshot(*rows: dict[str, Any], now: float = 1000.0) -> Snapshot:
    """Jobs of 1 to 8 GPUs on the sagging curve, unless they say otherwise."""
    usual = {"min_gpus": 1, "max_gpus": 8, "asked_gpus": 4, "scale": 1.0, "menu": 1}
    made = a_snapshot(
        *({**usual, **row} for row in rows), now=now, nodes=a_cluster(nodes=1, gpus=8)
    )
    return replace(made, menus=Menus.of([(LINEAR,) * 3, (SAGGING,) * 3]))


def ordered(order: Borda, given_snapshot: Snapshot) -> list[int]:
    slots = np.arange(len(given_snapshot.jobs.active))
    found: list[int] = order(given_snapshot, slots).sorted(given_snapshot, slots).tolist()
    return found


# --- places and scores --------------------------------------------------------------------------


def test_ties_share_the_mean_of_their_places() -> None:
    assert places(np.array([3.0, 1.0, 3.0, 7.0])).tolist() == [2.0, 0.5, 2.0, 3.5]


@given(st.lists(FEW, min_size=1))
def test_places_are_those_of_a_sorted_list_averaged(values: list[float]) -> None:
    line = sorted(values)
    for value, place in zip(values, places(np.array(values)).tolist(), strict=True):
        at = [index + 0.5 for index, other in enumerate(line) if other == value]
        assert place == sum(at) / len(at)


def test_an_unpredictable_job_counts_its_service_in_place_of_the_gains() -> None:
    assert score([(1.0, 9.0, 9.0, False), (2.0, 0.0, 0.0, False)]).tolist() == [1.5, 4.5]
    assert score([(1.0, 9.0, 9.0, True), (2.0, 0.0, 0.0, True)]).tolist() == [3.5, 2.5]
    assert score([(1.0, 9.0, 9.0, True), (2.0, 0.0, 0.0, False)]).tolist() == [1.5, 4.5]


@given(VOTERS, st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(voters: Voters, random: Random) -> None:
    order = list(range(len(voters)))
    random.shuffle(order)
    assert score([voters[row] for row in order]).tolist() == score(voters)[order].tolist()


@given(VOTERS.filter(lambda voters: len(voters) >= 2), st.tuples(FEW, FEW, FEW, st.booleans()))
def test_a_job_that_is_beside_the_point_turns_nobody_round(
    voters: Voters, other: tuple[float, float, float, bool]
) -> None:
    """It meets both of a pair in the same way on every ballot, by the ballot's own rule."""

    def met(job: tuple[float, float, float, bool]) -> list[float]:
        gains = (1, 2) if job[3] and other[3] else (0, 0)
        return [float(np.sign(job[ballot] - other[ballot])) for ballot in (0, *gains)]

    before, after = score(voters), score([*voters, other])
    for one in range(len(voters)):
        for two in range(one):
            if met(voters[one]) == met(voters[two]):
                assert np.sign(before[one] - before[two]) == np.sign(after[one] - after[two])
                shares = (1 / 3, 2 / 3)
                then, now = levels_of(before, shares), levels_of(after, shares)
                assert (then[one] - then[two]) * (now[one] - now[two]) >= 0


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30))
def test_levels_are_thirds_and_equals_stay_together(values: list[float]) -> None:
    levels = levels_of(np.array(values), (1 / 3, 2 / 3))
    assert sorted(levels.tolist()) == levels[np.argsort(values, kind="stable")].tolist()
    for one, level in zip(values, levels.tolist(), strict=True):
        assert {int(other) for v, other in zip(values, levels, strict=True) if v == one} == {level}
    if len(set(values)) == len(values):
        assert np.bincount(levels, minlength=3).max() <= len(values) / 3 + 1


# --- gains --------------------------------------------------------------------------------------


def test_costs_are_gpu_seconds_at_a_width() -> None:
    made = snapshot({"work_total": 80.0}, {"work_total": 80.0, "menu": 0})
    slots = np.arange(2)
    assert costs(made, slots, np.array([4, 4])).tolist() == [80 / 2.3 * 4, 80.0]
    assert costs(made, slots, np.array([0, 8])).tolist() == [0.0, 80.0]


def test_short_jobs_and_those_that_scale_lose_least() -> None:
    made = snapshot(
        {"work_total": 80.0},
        {"work_total": 40.0},
        {"work_total": 80.0, "menu": 0},
        {"work_total": 80.0, "asked_gpus": 1},
        {"work_total": np.nan},
    )
    slots = np.arange(5)
    growth, shrink = growth_gains(made, slots), shrink_gains(made, slots)
    assert growth[:4].tolist() == [-80.0, -40.0, -80.0, -80.0]
    assert shrink[0] == 2 * shrink[1] > 0 == shrink[2] == shrink[3]
    assert np.isnan(growth[4]) and np.isnan(shrink[4])


# --- the order ----------------------------------------------------------------------------------


def test_the_predictable_are_ranked_by_what_is_left_the_others_by_service() -> None:
    steady = {"steady": PREDICTABLE_AFTER, "attained_gpu_seconds": 50.0}
    known = snapshot({"work_total": 900.0, **steady}, {"work_total": 9.0, **steady})
    assert ordered(Borda((0.5,)), known) == [1, 0]
    unknown = snapshot(
        {"work_total": 9.0, "attained_gpu_seconds": 80.0},
        {"work_total": 900.0, "attained_gpu_seconds": 50.0},
    )
    assert ordered(Borda((0.5,)), unknown) == [1, 0]


def test_jobs_of_nearly_equal_service_do_not_turn_each_other_round() -> None:
    """The one that runs is a little ahead, and stays before the others until its level ends."""
    runs = {"attained_gpu_seconds": 110.0, "gpu_rate": 1.0, "rank": 0}
    waits = {"attained_gpu_seconds": 70.0, "rank": 1}
    made = snapshot(runs, waits)
    assert ordered(Borda((0.5,)), made) == [0, 1]
    beyond = snapshot({**runs, "attained_gpu_seconds": 130.0}, waits)
    assert ordered(Borda((0.5,)), beyond) == [1, 0]


def test_a_job_without_a_length_is_not_predictable_whatever_its_streak() -> None:
    made = snapshot({"work_total": np.nan, "steady": 9}, {"work_total": 5.0, "steady": 9})
    assert np.isfinite(scores(made, np.arange(2))).all()


def test_inside_a_level_whoever_runs_goes_on_and_keeps_its_rank() -> None:
    level = {"level": 0, "attained_gpu_seconds": 5.0}
    made = snapshot(
        {**level, "rank": 0}, {**level, "rank": 2, "gpu_rate": 1.0}, {**level, "rank": 1}
    )
    assert ordered(Borda(()), made) == [1, 0, 2]


def test_scores_are_counted_again_while_somebody_waits() -> None:
    waits, runs = {"state": State.QUEUED}, {"state": State.RUNNING, "gpu_rate": 1.0}
    order, slots = Borda(again_seconds=60.0), np.arange(2)
    assert order(snapshot(waits, runs, now=100.0), slots).wake == 160.0
    assert order(snapshot(runs, runs, now=100.0), slots).wake is None
    assert order(snapshot(waits, waits, now=100.0), slots).wake is None, "nothing will change"
