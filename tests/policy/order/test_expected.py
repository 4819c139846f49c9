"""Shortest first where lengths are intervals: places, and the order that they make."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_snapshot
from weft.model.menu import Menus
from weft.model.snapshot import Snapshot
from weft.policy.order.expected import (
    GUESS_FACTOR,
    NEW_SECONDS,
    ExpectedShortest,
    middle_seconds,
    places,
    seconds_left,
)
from weft.policy.service import HELD_FACTOR

NAN = float("nan")
SPEEDS = (np.array([0.0, 1.0, 1.5]), np.array([0.0, 4.0, 8.0]))
MENUS = Menus.of([(row, row, row) for row in SPEEDS])

intervals = st.lists(
    st.tuples(st.floats(0.0, 1e6), st.floats(0.0, 1e6)).map(sorted), min_size=1, max_size=12
)
services = st.lists(st.floats(0.0, 1e7), min_size=1, max_size=12)


def between(low: float, high: float, menu: int = 0, **columns: Any) -> dict[str, Any]:
    """A job that needs no less than `low` and no more than `high`."""
    middle = 0.5 * (low + high)
    work = {"work_low": low, "work_total": middle, "work_high": high, "menu": menu}
    return {"min_gpus": 1, "max_gpus": 2, **work, **columns}


def unknown(served: float = 0.0, **columns: Any) -> dict[str, Any]:
    return between(NAN, NAN, attained_gpu_seconds=served, **columns)


def exactly(work: float, **columns: Any) -> dict[str, Any]:
    return between(work, work, **columns)


def scene(*rows: dict[str, Any]) -> tuple[Snapshot, np.ndarray]:
    return a_snapshot(*rows, menus=MENUS), np.arange(len(rows))


def found(*rows: dict[str, Any]) -> list[float]:
    return list(places(*scene(*rows)))


def order(*rows: dict[str, Any]) -> list[int]:
    snapshot, slots = scene(*rows)
    return list(map(int, ExpectedShortest()(snapshot, slots).sorted(snapshot, slots)))


# --- places ---------------------------------------------------------------------------------------


def test_known_lengths_take_the_places_of_their_order() -> None:
    assert found(exactly(30.0), exactly(10.0), exactly(20.0)) == [2.0, 0.0, 1.0]


def test_equals_share_the_places_that_they_take_together() -> None:
    assert found(exactly(10.0), exactly(10.0), exactly(20.0)) == [0.5, 0.5, 2.0]


def test_who_may_be_either_way_stands_between() -> None:
    assert found(between(10.0, 100.0), exactly(20.0), exactly(5.0)) == [1.5, 1.5, 0.0]


@given(intervals)
def test_a_place_is_what_is_surely_shorter_and_half_of_what_may_be(
    jobs: list[tuple[float, float]],
) -> None:
    plain = []
    for row, (low, high) in enumerate(jobs):
        others = [job for other, job in enumerate(jobs) if other != row]
        surely = sum(other_high < low for _, other_high in others)
        maybe = sum(other_low <= high and other_high >= low for other_low, other_high in others)
        plain.append(surely + 0.5 * maybe)
    assert found(*(between(*job) for job in jobs)) == plain


@given(intervals)
def test_a_job_that_is_surely_shorter_ranks_before(jobs: list[tuple[float, float]]) -> None:
    rank = {slot: at for at, slot in enumerate(order(*(between(*job) for job in jobs)))}
    for one, (_, high) in enumerate(jobs):
        for other, (low, _) in enumerate(jobs):
            if high < low:
                assert rank[one] < rank[other]


@given(intervals)
def test_places_are_shared_out_in_full(jobs: list[tuple[float, float]]) -> None:
    count = len(jobs)
    assert sum(found(*(between(*job) for job in jobs))) == count * (count - 1) / 2


# --- lengths that nobody knows --------------------------------------------------------------------


def test_an_unknown_length_is_guessed_from_the_service_so_far() -> None:
    low, high = seconds_left(*scene(unknown(1000.0), unknown(0.0)))
    assert low.tolist() == [1000.0 / GUESS_FACTOR, NEW_SECONDS / GUESS_FACTOR]
    assert high.tolist() == [1000.0 * GUESS_FACTOR, NEW_SECONDS * GUESS_FACTOR]
    assert middle_seconds(*scene(unknown(1000.0))).tolist() == [1000.0]


def test_service_goes_on_between_two_events() -> None:
    running = unknown(1000.0, mark=900.0, gpu_rate=4.0)
    assert middle_seconds(*scene(running)).tolist() == [1400.0 / HELD_FACTOR]


@given(services)
def test_unknown_lengths_rank_by_attained_service(served: list[float]) -> None:
    """New ones are all alike, and go by submission."""
    by_service = sorted(range(len(served)), key=lambda row: (max(served[row], NEW_SECONDS), row))
    ranked = order(*(unknown(service) for service in served))
    tried = [max(served[row], NEW_SECONDS) for row in ranked]
    assert np.allclose(tried, sorted(tried), rtol=1e-9)
    if len(set(served)) == len(served) and min(served) > NEW_SECONDS:
        assert ranked == by_service


def test_who_runs_stays_until_it_has_had_twice_as_much() -> None:
    waiting, running = unknown(1000.0), unknown(1900.0, mark=1000.0, gpu_rate=1.0)
    snapshot, slots = scene(waiting, running)
    ranking = ExpectedShortest()(snapshot, slots)
    assert list(ranking.sorted(snapshot, slots)) == [1, 0]
    assert ranking.wake == pytest.approx(snapshot.now + 100.0, abs=2.0)


def test_a_short_job_of_known_length_goes_before_a_new_one_and_a_long_one_behind() -> None:
    assert order(unknown(), exactly(10.0), exactly(1000.0)) == [1, 0, 2]
    assert order(unknown(1e5), exactly(1e4)) == [1, 0]


def test_a_job_that_is_being_learnt_moves_as_its_interval_closes() -> None:
    """It has had much, but turns out to have little left."""
    rival = unknown(1000.0)
    assert order(rival, unknown(5000.0)) == [0, 1]
    assert order(rival, between(200.0, 20_000.0)) == [0, 1]
    assert order(rival, between(200.0, 300.0)) == [1, 0]


# --- lengths that were declared too short ---------------------------------------------------------


def test_a_job_at_its_declared_length_is_about_to_end() -> None:
    low, high = seconds_left(*scene(exactly(4000.0, work_done=4000.0)))
    assert (low.tolist(), high.tolist()) == ([0.0], [0.0])


def test_as_much_is_expected_again_as_exceeds_the_declared_length() -> None:
    exceeded = exactly(1000.0, work_done=4000.0, attained_gpu_seconds=4000.0)
    low, high = seconds_left(*scene(exceeded))
    assert low.tolist() == [3000.0 / GUESS_FACTOR]
    assert high.tolist() == [3000.0 * GUESS_FACTOR]


def test_a_job_that_exceeded_its_declared_length_ranks_behind_shorter_ones() -> None:
    exceeded = exactly(60.0, work_done=2000.0, attained_gpu_seconds=2000.0)
    assert order(exceeded, exactly(100.0)) == [1, 0]
    assert order(exceeded, exactly(1e5)) == [0, 1]


def test_a_running_job_that_exceeds_its_declared_length_asks_for_its_turn_to_end() -> None:
    running = exactly(60.0, work_done=1900.0, attained_gpu_seconds=1900.0, mark=1000.0, gpu_rate=1)
    snapshot, slots = scene(unknown(1000.0), running)
    assert ExpectedShortest()(snapshot, slots).wake is not None


# --- time -----------------------------------------------------------------------------------------


def test_work_counts_as_seconds_on_one_gpu() -> None:
    assert order(exactly(100.0), exactly(300.0, menu=1), exactly(90.0, scale=0.5)) == [1, 0, 2]


def test_what_is_done_is_not_left() -> None:
    low, high = seconds_left(*scene(between(100.0, 200.0, work_done=150.0)))
    assert (low.tolist(), high.tolist()) == ([0.0], [50.0])


def test_work_without_a_speed_comes_last() -> None:
    assert order(exactly(1.0, scale=0.0), exactly(1e9), unknown(1e9)) == [1, 2, 0]


def test_equals_go_by_submission() -> None:
    assert order(exactly(5.0, seq=1), exactly(5.0, seq=0)) == [1, 0]
