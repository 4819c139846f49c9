"""Each order against a plain sort, written out the slow way."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node, a_snapshot
from weft.model.samples import Samples
from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State
from weft.policy.order.arrival import by_arrival
from weft.policy.order.attained import DoublingLevels, FeedbackLevels, LeastAttained
from weft.policy.order.fairness import DominantShare
from weft.policy.order.gittins import GittinsOrder
from weft.policy.order.gittins_index import GittinsTable
from weft.policy.order.ranking import Order
from weft.policy.order.shortest import by_remaining_service, by_remaining_time
from weft.policy.order.turn import ROUNDING_SECONDS
from weft.policy.service import service_level

Row = dict[str, Any]

few = st.sampled_from([0.0, 1.0, 2.0, 50.0])
rows = st.lists(
    st.fixed_dictionaries(
        {
            "submitted": few,
            "priority": st.integers(-1, 1),
            "asked_gpus": st.integers(1, 4),
            "work_total": st.one_of(few, st.just(float("nan"))),
            "attained_gpu_seconds": st.sampled_from([0.0, 100.0, 700.0, 900.0]),
            "gpu_rate": st.sampled_from([0.0, 0.0, 1.0]),
            "tenant": st.integers(0, 2),
            "cpus": st.sampled_from([0.0, 8.0]),
        }
    ),
    min_size=1,
    max_size=12,
)


def ordered(order: Order, snapshot: Snapshot, slots: Ints | None = None) -> list[int]:
    chosen = snapshot.slots() if slots is None else slots
    return [int(slot) for slot in chosen[order(snapshot, chosen).sorted(snapshot, chosen)]]


def by_hand(jobs: list[Row], key: Callable[[Row], float]) -> list[int]:
    """Priority stands before every order, the sequence of submission behind it."""
    return sorted(range(len(jobs)), key=lambda i: (-jobs[i]["priority"], key(jobs[i]), i))


def last_if_unknown(value: float) -> float:
    return float("inf") if np.isnan(value) else value


@given(rows)
def test_first_come_first_served(jobs: list[Row]) -> None:
    assert ordered(by_arrival, a_snapshot(*jobs)) == by_hand(jobs, lambda job: job["submitted"])


@given(rows)
def test_shortest_remaining_time(jobs: list[Row]) -> None:
    expected = by_hand(jobs, lambda job: last_if_unknown(job["work_total"]))
    assert ordered(by_remaining_time, a_snapshot(*jobs)) == expected


@given(rows)
def test_shortest_remaining_service(jobs: list[Row]) -> None:
    expected = by_hand(jobs, lambda job: last_if_unknown(job["work_total"] * job["asked_gpus"]))
    assert ordered(by_remaining_service, a_snapshot(*jobs)) == expected


def test_remaining_time_counts_work_at_the_pace_of_the_job() -> None:
    snapshot = a_snapshot({"work_total": 1000.0, "pace": 100.0}, {"work_total": 20.0, "pace": 1.0})
    assert ordered(by_remaining_time, snapshot) == [0, 1]


@given(rows, st.sampled_from([0.0, 600.0]))
def test_least_attained_service_holds_those_that_run(jobs: list[Row], hold: float) -> None:
    expected = by_hand(jobs, lambda job: job["attained_gpu_seconds"] - hold * job["gpu_rate"])
    assert ordered(LeastAttained(hold), a_snapshot(*jobs)) == expected


@given(rows)
def test_levels_of_service_double_and_those_that_run_stay_before(jobs: list[Row]) -> None:
    def place(job: Row) -> float:
        level = service_level(np.array([job["attained_gpu_seconds"]]))[0]
        return float(2 * level + (job["gpu_rate"] <= 0))

    expected = by_hand(jobs, place)
    assert ordered(DoublingLevels(), a_snapshot(*jobs)) == expected


def test_a_round_comes_when_the_first_running_job_reaches_its_next_level() -> None:
    runs = {"attained_gpu_seconds": 100.0, "gpu_rate": 2.0}
    waits = {"attained_gpu_seconds": 119.0, "gpu_rate": 0.0}
    snapshot = a_snapshot(runs, waits)
    ranking = DoublingLevels()(snapshot, np.arange(2))
    assert ranking.wake == pytest.approx(snapshot.now + 10.0)


@given(rows, st.data())
def test_any_part_of_the_jobs_can_be_ranked(jobs: list[Row], data: st.DataObject) -> None:
    some = np.array(data.draw(st.permutations(range(len(jobs)))), np.int64)
    some = some[: data.draw(st.integers(0, len(jobs)))]
    chosen = set(some.tolist())
    expected = [i for i in by_hand(jobs, lambda job: job["submitted"]) if i in chosen]
    assert ordered(by_arrival, a_snapshot(*jobs), some) == expected


# --- fairness -----------------------------------------------------------------------------------


def progressive_filling(jobs: list[Row], *, gpus: int, cpus: float) -> list[int]:
    """Serve, one job at a time, the tenant that has least; its own running jobs come first."""
    lines: dict[int, list[int]] = {}
    for i, job in enumerate(jobs):
        lines.setdefault(job["tenant"], []).append(i)
    for line in lines.values():
        line.sort(key=lambda i: (-jobs[i]["priority"], jobs[i]["gpu_rate"] <= 0, i))
    got: dict[int, tuple[int, float]] = dict.fromkeys(lines, (0, 0.0))
    served = []
    while any(lines.values()):
        heads = [(tenant, line[0]) for tenant, line in lines.items() if line]
        tenant, first = min(
            heads,
            key=lambda head: (
                -jobs[head[1]]["priority"],
                max(got[head[0]][0] / gpus, got[head[0]][1] / cpus),
                jobs[head[1]]["gpu_rate"] <= 0,
                head[1],
            ),
        )
        served.append(lines[tenant].pop(0))
        had = got[tenant]
        got[tenant] = (had[0] + jobs[first]["asked_gpus"], had[1] + jobs[first]["cpus"])
    return served


@given(rows)
def test_dominant_shares_are_progressive_filling(jobs: list[Row]) -> None:
    snapshot = a_snapshot(*jobs, nodes=a_cluster(a_node("n0", 16, cpus=64.0)))
    assert ordered(DominantShare(), snapshot) == progressive_filling(jobs, gpus=16, cpus=64.0)


def test_a_tenant_is_charged_for_what_it_holds_though_it_is_not_ranked() -> None:
    snapshot = a_snapshot({"tenant": 0, "width": 4}, {"tenant": 0}, {"tenant": 1})
    assert ordered(DominantShare(), snapshot, np.array([1, 2])) == [2, 1]


def test_a_cluster_without_gpus_divides_by_nothing() -> None:
    snapshot = a_snapshot({"tenant": 0}, {"tenant": 1}, nodes=a_cluster(a_node("n0", 0)))
    assert ordered(DominantShare(), snapshot) == [0, 1]
    assert ordered(DominantShare(), snapshot, np.zeros(0, np.int64)) == []


# --- feedback levels ----------------------------------------------------------------------------

LEVELS = FeedbackLevels((100.0, 1000.0))


@pytest.mark.parametrize(
    ("attained", "level"),
    [(0.0, 0), (99.0, 0), (100.0, 1), (101.0, 1), (999.0, 1), (1000.0, 2), (1e9, 2)],
)
def test_a_job_falls_when_it_reaches_a_limit(attained: float, level: int) -> None:
    snapshot = a_snapshot({"attained_gpu_seconds": attained})
    ranking = LEVELS(snapshot, snapshot.slots())
    assert ranking.levels is not None and ranking.levels.tolist() == [level]


def test_service_before_the_last_promotion_does_not_count() -> None:
    snapshot = a_snapshot({"attained_gpu_seconds": 1500.0, "level_base": 1450.0})
    ranking = LEVELS(snapshot, snapshot.slots())
    assert ranking.levels is not None and ranking.levels.tolist() == [0]


def test_inside_a_level_the_order_of_the_last_round_stays_and_runners_come_first() -> None:
    snapshot = a_snapshot(
        {"rank": 5, "gpu_rate": 0.0},
        {"rank": 3, "gpu_rate": 0.0},
        {"rank": 9, "gpu_rate": 1.0},
        {"rank": -1, "gpu_rate": 0.0},
    )
    assert ordered(LEVELS, snapshot) == [2, 1, 0, 3]


def test_a_job_new_to_its_level_goes_to_its_end_even_if_it_runs() -> None:
    snapshot = a_snapshot(
        {"attained_gpu_seconds": 100.0, "level": 0, "rank": 0, "gpu_rate": 1.0},
        {"attained_gpu_seconds": 500.0, "level": 1, "rank": 7},
        {"attained_gpu_seconds": 0.0, "rank": 4},
    )
    assert ordered(LEVELS, snapshot) == [2, 1, 0]


def test_the_next_fall_is_when_a_round_is_wanted() -> None:
    snapshot = a_snapshot(
        {"attained_gpu_seconds": 40.0, "gpu_rate": 2.0},
        {"attained_gpu_seconds": 600.0, "gpu_rate": 1.0, "level": 1},
        {"attained_gpu_seconds": 99.0, "gpu_rate": 0.0},
        now=1000.0,
    )
    assert LEVELS(snapshot, snapshot.slots()).wake == pytest.approx(1000.0 + 30.0)


def test_no_round_is_wanted_where_nobody_can_fall() -> None:
    snapshot = a_snapshot({"attained_gpu_seconds": 5000.0, "gpu_rate": 1.0}, {"gpu_rate": 0.0})
    assert LEVELS(snapshot, snapshot.slots()).wake is None


@pytest.mark.parametrize(
    ("case", "promoted"),
    [
        ({"queued_since": 200.0}, True),  # waited 800 s = 8 × 100 s of running
        ({"queued_since": 201.0}, False),
        ({"queued_since": 200.0, "state": State.RUNNING}, False),
        ({"queued_since": 200.0, "level": 0}, False),
    ],
    ids=["starved", "not quite", "running", "in the first level already"],
)
def test_who_has_waited_long_for_its_running_is_promoted(case: Row, promoted: bool) -> None:
    job = {"attained_gpu_seconds": 200.0, "asked_gpus": 2, "level": 1, **case}
    snapshot = a_snapshot(job, now=1000.0)
    ranking = FeedbackLevels((100.0, 1000.0), promote=8.0)(snapshot, snapshot.slots())
    assert ranking.promoted is not None and ranking.promoted.tolist() == [promoted]
    assert ranking.levels is not None and ranking.levels.tolist() == [0 if promoted else 1]


# --- Gittins ------------------------------------------------------------------------------------


def test_with_few_finished_jobs_the_index_falls_back_on_least_attained() -> None:
    jobs = [{"attained_gpu_seconds": a} for a in (300.0, 0.0, 100.0)]
    snapshot = replace(a_snapshot(*jobs), finished=Samples(np.full(99, 50.0)))
    assert ordered(GittinsOrder(hold_seconds=0.0), snapshot) == [1, 2, 0]


def test_with_enough_of_them_the_job_nearest_its_likely_end_goes_first() -> None:
    jobs = [{"attained_gpu_seconds": a} for a in (0.0, 90.0, 300.0)]
    finished = np.concatenate([np.full(60, 100.0), np.full(60, 10_000.0)])
    snapshot = replace(a_snapshot(*jobs), finished=Samples(finished))
    order = GittinsOrder(hold_seconds=0.0)
    expected = GittinsTable.from_samples(finished).index(np.array([0.0, 90.0, 300.0]))
    assert ordered(order, snapshot) == np.argsort(-expected).tolist() == [1, 0, 2]
    assert ordered(order, snapshot) == [1, 0, 2], "the table is kept, and says the same"


def test_a_given_table_needs_no_history() -> None:
    table = GittinsTable.from_samples([100.0] * 9 + [10_000.0])
    snapshot = a_snapshot({"attained_gpu_seconds": 0.0}, {"attained_gpu_seconds": 99.0})
    assert ordered(GittinsOrder(table, hold_seconds=0.0), snapshot) == [1, 0]


@settings(deadline=None)
@example([1.0, 3.0], [0.0, 0.0, 2.0], 0.0)
@given(
    samples=st.lists(st.floats(1.0, 1e4), min_size=1, max_size=20),
    attained=st.lists(st.floats(0.0, 2e4), min_size=2, max_size=6),
    hold=st.sampled_from([0.0, 600.0]),
)
def test_an_index_order_says_when_it_next_changes(
    samples: list[float], attained: list[float], hold: float
) -> None:
    """Up to that time whoever runs stays before the first who waits; after it, somebody falls."""
    order = GittinsOrder(GittinsTable.from_samples(samples), hold_seconds=hold)
    rows = [
        {"attained_gpu_seconds": had, "gpu_rate": float(place % 2), "mark": 0.0}
        for place, had in enumerate(attained)
    ]
    runs = np.arange(len(rows)) % 2 > 0

    def falls_behind(at: float) -> set[int]:
        index = -order(a_snapshot(*rows, now=at), np.arange(len(rows))).keys[0]
        return set(np.flatnonzero(runs & (index < index[~runs].max())).tolist())

    wake = order(a_snapshot(*rows, now=0.0), np.arange(len(rows))).wake
    now = falls_behind(0.0)
    horizon = 3e4 if wake is None else wake - 2.0 * ROUNDING_SECONDS
    for share in (0.1, 0.5, 0.9, 1.0):
        assert horizon <= 0.0 or falls_behind(share * horizon) <= now
    if wake is not None:
        assert falls_behind(wake - ROUNDING_SECONDS + 1e-6), "a round that nobody needs"


def test_running_jobs_are_held() -> None:
    snapshot = a_snapshot(
        {"attained_gpu_seconds": 500.0, "gpu_rate": 1.0}, {"attained_gpu_seconds": 100.0}
    )
    assert ordered(GittinsOrder(hold_seconds=600.0), snapshot) == [0, 1]
    assert ordered(GittinsOrder(hold_seconds=0.0), snapshot) == [1, 0]
