"""Climbing: floors in rank order, then the surplus; what holds for every rule."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_snapshot, sized
from weft.model.menu import Menus
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.policy.order.shortest import by_time_at_least
from weft.policy.packing import Packing
from weft.policy.size.afs import Afs
from weft.policy.size.climb import Climbing
from weft.policy.size.optimus import Optimus
from weft.policy.size.weave import Weave

NODE_GPUS = 4
RULES = (Afs, Optimus, Weave)

LINEAR = np.arange(9.0)
SATURATED = np.minimum(LINEAR, 2.0)
DIPPING = np.array([0.0, 1.0, 0.8, 2.0, 1.6, 3.0, 2.4, 4.0, 3.2])
UNSURE = (SATURATED, 0.5 * SATURATED, LINEAR)
MENUS = Menus.of([(row, row, row) for row in (LINEAR, SATURATED, DIPPING)] + [UNSURE])

jobs = st.lists(
    st.fixed_dictionaries(
        {
            "min_gpus": st.integers(1, 5),
            "max_gpus": st.integers(5, 8),
            "menu": st.integers(0, 3),
            "scale": st.sampled_from([0.5, 1.0]),
            "work_total": st.sampled_from([float("nan"), 0.0, 10.0, 20.0, 1000.0]),
            "attained_gpu_seconds": st.sampled_from([0.0, 5.0, 50.0]),
            "state": st.sampled_from([State.QUEUED, State.RUNNING]),
            "live": st.booleans(),
        }
    ),
    min_size=1,
    max_size=7,
)


def a_job(menu: int = 0, **columns: Any) -> dict[str, Any]:
    return {"min_gpus": 1, "max_gpus": 8, "work_total": 100.0, "menu": menu, **columns}


def running(width: int, **columns: Any) -> dict[str, Any]:
    return a_job(state=State.RUNNING, width=width, **{"live": True, **columns})


def scene(*rows: dict[str, Any], nodes: int = 2) -> Snapshot:
    return a_snapshot(*rows, nodes=a_cluster(nodes=nodes, gpus=NODE_GPUS), menus=MENUS)


def widths(size: Climbing, *rows: dict[str, Any], nodes: int = 2) -> list[int]:
    return list(map(int, sized(size, scene(*rows, nodes=nodes), np.arange(len(rows)))))


# --- what always holds ----------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(
    rows=jobs,
    nodes=st.integers(1, 6),
    grain=st.integers(1, 3),
    options=st.fixed_dictionaries({"cautious": st.booleans(), "running_first": st.booleans()}),
)
def test_wholeare_in_range_and_no_more_than_there_are(
    rule: type[Climbing],
    rows: list[dict[str, Any]],
    nodes: int,
    grain: int,
    options: dict[str, Any],
) -> None:
    held = [row | {"width": row["min_gpus"] * (row["state"] == State.RUNNING)} for row in rows]
    found = widths(rule(grain_gpus=grain, **options), *held, nodes=nodes)
    owed = sum(row["width"] for row in held if options["running_first"] or not row["live"])
    assert sum(found) <= max(nodes * NODE_GPUS, owed)
    for row, width in zip(held, found, strict=True):
        if row["width"] and not row["live"]:
            assert width == row["width"], "it runs and cannot be resized"
        elif width:
            assert row["min_gpus"] <= width <= row["max_gpus"]
            assert (width - row["min_gpus"]) % grain == 0


@pytest.mark.parametrize("rule", RULES)
@settings(deadline=None)
@given(rows=jobs, nodes=st.integers(1, 6))
def test_packed_wholeare_always_packed(
    rule: type[Climbing], rows: list[dict[str, Any]], nodes: int
) -> None:
    waiting = [row | {"state": State.QUEUED} for row in rows]
    found = widths(rule(packing=Packing.NETWORK), *waiting, nodes=nodes)
    for row, width in zip(waiting, found, strict=True):
        possible = [
            w for w in range(row["min_gpus"], row["max_gpus"] + 1) if Packing.NETWORK.allows(w, 4)
        ]
        assert width == 0 or width in (possible or [row["min_gpus"]])


@settings(deadline=None)
@given(rows=jobs, nodes=st.integers(1, 6), chance=st.randoms(use_true_random=False))
def test_ranked_and_sized_jobs_get_the_same_in_whatever_slots_they_are(
    rows: list[dict[str, Any]], nodes: int, chance: Random
) -> None:
    numbered = [row | {"seq": seq, "state": State.QUEUED} for seq, row in enumerate(rows)]
    shuffled = chance.sample(numbered, len(numbered))
    found = []
    for order in (numbered, shuffled):
        snapshot = scene(*order, nodes=nodes)
        slots = np.arange(len(order))
        ranked = by_time_at_least(snapshot, slots).sorted(snapshot, slots)
        widest = sized(Afs(), snapshot, ranked)
        found.append(dict(zip(snapshot.jobs.seq[ranked].tolist(), widest.tolist(), strict=True)))
    assert found[0] == found[1]


# --- floors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_with_more_jobs_than_gpus_the_first_in_rank_get_their_least(rule: type[Climbing]) -> None:
    long = [running(4, work_total=1e6), running(4, work_total=1e6)]
    short = [a_job(work_total=1.0)] * 8
    assert widths(rule(), *short, *long) == [1] * 8 + [0, 0]


@pytest.mark.parametrize("rule", RULES)
def test_on_request_those_who_run_get_their_least_first(rule: type[Climbing]) -> None:
    assert widths(rule(running_first=True), *[a_job()] * 8, running(4)) == [1] * 7 + [0, 1]


@pytest.mark.parametrize("rule", RULES)
def test_a_job_that_cannot_be_resized_keeps_its_width_and_climbs_nothing(
    rule: type[Climbing],
) -> None:
    assert widths(rule(), a_job(menu=1), running(3, live=False)) == [2, 3]


@pytest.mark.parametrize("rule", RULES)
def test_nobody_gets_nothing(rule: type[Climbing]) -> None:
    assert widths(rule()) == []


@pytest.mark.parametrize("rule", RULES)
def test_a_job_without_gpus_gets_none(rule: type[Climbing]) -> None:
    assert widths(rule(), a_job(min_gpus=0, max_gpus=0), a_job()) == [0, 8]
    assert widths(rule(packing=Packing.NETWORK), a_job(min_gpus=0, max_gpus=4), a_job()) == [0, 8]


# --- the surplus ----------------------------------------------------------------------------------


@pytest.mark.parametrize("rule", RULES)
def test_gpus_that_would_speed_nobody_up_stay_free(rule: type[Climbing]) -> None:
    assert widths(rule(), a_job(menu=1), a_job(menu=1)) == [2, 2]


@pytest.mark.parametrize("rule", RULES)
def test_a_job_whose_curve_dips_at_every_other_width_gets_all_that_helps(
    rule: type[Climbing],
) -> None:
    assert widths(rule(), a_job(menu=2)) == [7]
    assert widths(rule(hull=False), a_job(menu=2)) == [8], "as published: it goes where it goes"


@pytest.mark.parametrize("rule", RULES)
def test_a_rung_that_does_not_fit_holds_up_nobody_else(rule: type[Climbing]) -> None:
    """Two GPUs for the next rung of the first job when one is left: the second job takes it."""
    rows = [a_job(menu=2, max_gpus=3, work_total=1e3), a_job(menu=1, work_total=1e6)]
    stuck = running(5, live=False)
    assert widths(rule(), *rows, stuck) == [1, 2, 5]


@pytest.mark.parametrize("rule", RULES)
def test_caution_tries_wholethat_may_help(rule: type[Climbing]) -> None:
    """The fourth curve: two GPUs are likely to be enough, but every further one may help."""
    assert widths(rule(), a_job(menu=3)) == [2]
    assert widths(rule(cautious=True), a_job(menu=3)) == [8]


@pytest.mark.parametrize("rule", RULES)
def test_caution_takes_no_gpus_that_may_matter(rule: type[Climbing]) -> None:
    held, stuck = running(4, menu=3), running(4, live=False)
    assert widths(rule(), held, stuck) == [2, 4]
    assert widths(rule(cautious=True), held, stuck) == [4, 4]


@pytest.mark.parametrize("rule", RULES)
def test_caution_changes_nothing_where_curves_are_sure(rule: type[Climbing]) -> None:
    rows = [a_job(menu=0), running(3, menu=2, work_total=5.0), a_job(menu=1)]
    assert widths(rule(cautious=True), *rows, nodes=3) == widths(rule(), *rows, nodes=3)
