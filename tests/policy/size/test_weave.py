"""Weave's widths: prices by place, rungs by worth, and what holds whatever the jobs."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node, a_snapshot
from weft.model.cluster import Cluster
from weft.model.curves import Curves
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.policy.order.expected import ExpectedShortest
from weft.policy.size.requested import is_packed
from weft.policy.size.weave import Weave, fair_parts

NAN = float("nan")
NODE_GPUS = 8
WIDEST = 64

GPUS = np.arange(WIDEST + 1.0)
LINEAR, POWER, SATURATED = GPUS, GPUS**0.4, np.minimum(GPUS, 2.0)
DIPPING = np.where(GPUS % 2 == 1, 0.5 * (GPUS + 1), 0.4 * GPUS)
CONVEX = GPUS**1.5
CURVES = Curves.of([(row, row, row) for row in (LINEAR, POWER, SATURATED, DIPPING, CONVEX)])

some = settings(max_examples=25)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "min_gpus": st.integers(1, 5),
            "max_gpus": st.integers(5, 12),
            "curve": st.integers(0, 4),
            "scale": st.sampled_from([0.0, 0.5, 1.0]),
            "length": st.sampled_from([NAN, 0.0, 10.0, 20.0, 1000.0]),
            "attained_gpu_seconds": st.sampled_from([0.0, 5.0, 500.0]),
            "state": st.sampled_from([State.QUEUED, State.RUNNING]),
            "live": st.booleans(),
            "tenant": st.integers(0, 2),
            "held": st.integers(0, 4),
        }
    ),
    min_size=1,
    max_size=8,
)


def a_job(length: float = 100.0, curve: int = 1, **columns: Any) -> dict[str, Any]:
    work = {"work_low": length, "work_total": length, "work_high": length}
    return {"min_gpus": 1, "max_gpus": WIDEST, "curve": curve, **work, **columns}


def running(width: int, length: float = 100.0, curve: int = 1, **columns: Any) -> dict[str, Any]:
    state = {"state": State.RUNNING, "live": True, "width": width}
    return a_job(length, curve, **{**state, **columns})


def drawn(row: dict[str, Any]) -> dict[str, Any]:
    """Whoever runs has what it needs at least."""
    columns = dict(row)
    length, held = columns.pop("length"), columns.pop("held")
    columns["width"] = columns["min_gpus"] + held if columns["state"] is State.RUNNING else 0
    columns["max_gpus"] = max(columns["max_gpus"], columns["width"])
    return a_job(length, **columns)


def scene(*jobs: dict[str, Any], gpus: int = NODE_GPUS) -> Snapshot:
    return a_snapshot(*jobs, nodes=a_cluster(nodes=1, gpus=gpus), curves=CURVES)


def widths(*jobs: dict[str, Any], gpus: int = NODE_GPUS, **knobs: Any) -> list[int]:
    return list(map(int, Weave(**knobs)(scene(*jobs, gpus=gpus), np.arange(len(jobs)))))


# --- what always holds ----------------------------------------------------------------------------


@some
@given(rows, st.integers(1, 40), st.integers(1, 2))
def test_no_more_than_there_is_and_nobody_outside_of_its_range(
    given_rows: list[dict[str, Any]], gpus: int, grain: int
) -> None:
    jobs = [drawn(row) for row in given_rows]
    found = widths(*jobs, gpus=gpus, grain_gpus=grain)
    stuck = sum(job["width"] for job in jobs if is_stuck(job))
    assert sum(found) <= max(gpus, stuck)
    for job, width in zip(jobs, found, strict=True):
        if is_stuck(job):
            assert job["width"] <= width <= job["max_gpus"]
        else:
            assert width == 0 or job["min_gpus"] <= width <= job["max_gpus"]
            assert not width or (width - job["min_gpus"]) % grain == 0


def is_stuck(job: dict[str, Any]) -> bool:
    return job["state"] is State.RUNNING and not job["live"]


@some
@given(rows, st.integers(1, 40))
def test_packed_widths_are_packed_where_the_range_allows_it(
    given_rows: list[dict[str, Any]], gpus: int
) -> None:
    jobs = [drawn({**row, "state": State.QUEUED}) for row in given_rows]
    snapshot = a_snapshot(*jobs, nodes=a_cluster(nodes=gpus, gpus=4), curves=CURVES)
    found = Weave(packed=True)(snapshot, np.arange(len(jobs)))
    assert found.sum() <= 4 * gpus
    for job, width in zip(jobs, found.tolist(), strict=True):
        allowed = [w for w in range(job["min_gpus"], job["max_gpus"] + 1) if is_packed(w, 4)]
        assert width == 0 or width in (allowed or [job["min_gpus"]])


@some
@given(rows, st.integers(1, 40), st.randoms(use_true_random=False))
def test_the_order_in_which_jobs_are_stored_does_not_matter(
    given_rows: list[dict[str, Any]], gpus: int, chance: Random
) -> None:
    """Jobs come ranked, as the brain gives them: what is equal in all else goes by submission."""
    jobs = [{**drawn(row), "seq": seq} for seq, row in enumerate(given_rows)]
    shuffled = list(jobs)
    chance.shuffle(shuffled)
    found = {}
    for stored in (jobs, shuffled):
        snapshot, slots = scene(*stored, gpus=gpus), np.arange(len(stored))
        ranked = slots[ExpectedShortest()(snapshot, slots).sorted(snapshot, slots)]
        given_out = Weave()(snapshot, ranked)
        seqs = [stored[slot]["seq"] for slot in ranked.tolist()]
        found[id(stored)] = dict(zip(seqs, given_out.tolist(), strict=True))
    assert found[id(jobs)] == found[id(shuffled)]


@some
@given(
    st.lists(st.floats(1.0, 1e6), min_size=2, max_size=8, unique=True),
    st.integers(1, 40),
    st.randoms(use_true_random=False),
)
def test_of_different_lengths_any_order_of_slots_gives_the_same(
    lengths: list[float], gpus: int, chance: Random
) -> None:
    snapshot = scene(*(a_job(length) for length in lengths), gpus=gpus)
    slots = np.arange(len(lengths))
    order = np.array(chance.sample(range(len(lengths)), len(lengths)))
    assert Weave()(snapshot, order).tolist() == Weave()(snapshot, slots)[order].tolist()


@some
@given(
    st.lists(st.floats(0.0, 1e6), min_size=2, max_size=10),
    st.integers(1, 60),
    st.integers(0, 4),
    st.integers(1, 4),
)
def test_of_two_with_one_curve_the_shorter_never_has_less(
    lengths: list[float], gpus: int, curve: int, least: int
) -> None:
    jobs = [a_job(length, curve, min_gpus=least) for length in sorted(lengths)]
    found = widths(*jobs, gpus=gpus)
    for shorter, longer, one, other in zip(found, found[1:], jobs, jobs[1:], strict=False):
        if one["work_total"] < other["work_total"]:
            assert shorter >= longer, found


@some
@given(rows, st.integers(1, 40))
def test_nothing_is_left_that_somebody_could_have_used(
    given_rows: list[dict[str, Any]], gpus: int
) -> None:
    """On curves that rise with every GPU, and from one GPU on."""
    jobs = [
        drawn({**row, "state": State.QUEUED, "min_gpus": 1, "curve": row["curve"] % 2})
        for row in given_rows
    ]
    assert sum(widths(*jobs, gpus=gpus)) == min(gpus, sum(job["max_gpus"] for job in jobs))


# --- prices ---------------------------------------------------------------------------------------


@some
@given(st.integers(1, 12), st.integers(20, WIDEST), st.sampled_from([0.3, 0.4, 0.6]))
def test_equal_power_laws_get_the_optimal_shares(jobs: int, gpus: int, scaling: float) -> None:
    """heSRPT: the i-th longest of n gets ((i/n)^e - ((i-1)/n)^e) of all."""
    power = GPUS**scaling
    snapshot = a_snapshot(
        *(a_job(1.0 + length, curve=0) for length in range(jobs)),
        nodes=a_cluster(nodes=1, gpus=gpus),
        curves=Curves.of([(power, power, power)]),
    )
    found = Weave(scaling=scaling)(snapshot, np.arange(jobs))
    reached = (np.arange(jobs + 1.0) / jobs) ** (1.0 / (1.0 - scaling))
    shares = gpus * np.diff(reached)[::-1]
    assert found.sum() == gpus
    assert np.abs(found - shares).max() <= 1.0, (found, shares)


def test_with_many_more_jobs_than_gpus_everybody_who_runs_is_narrow() -> None:
    crowd = [a_job(10.0 + length) for length in range(200)]
    found = widths(*crowd, gpus=16)
    assert found == [1] * 16 + [0] * 184, "and the shortest are those who run"


def test_with_few_jobs_they_spread() -> None:
    assert widths(a_job(10.0), gpus=16) == [16]
    short, long = widths(a_job(10.0), a_job(1000.0), gpus=16)
    assert short > long > 0 and short + long == 16


def test_a_long_job_gets_its_first_gpu_before_a_short_one_its_eighth() -> None:
    assert widths(a_job(1.0), a_job(1e9), gpus=8)[1] > 0


def test_nobody_is_wider_than_it_gains_by() -> None:
    assert widths(a_job(curve=2), gpus=16) == [2]
    assert widths(a_job(1.0, curve=2), a_job(100.0), gpus=16) == [2, 14]


def test_a_dip_is_no_end() -> None:
    """Speeds 1, 0.8, 2, 1.6, 3, …: every second width is worse than the one below."""
    assert widths(a_job(curve=3), gpus=8) == [7]


def test_a_second_rung_that_is_worth_more_than_the_first_comes_after_it() -> None:
    """Twice the GPUs make it nearly thrice as fast."""
    assert [widths(a_job(curve=4, max_gpus=2), gpus=gpus) for gpus in (1, 2)] == [[1], [2]]


def test_scale_does_not_matter_but_for_length() -> None:
    """Samples or seconds: what counts is how much faster it becomes, not in which unit."""
    one, other = a_job(100.0), a_job(50_000.0, scale=1000.0)
    assert widths(one, other, gpus=9)[1] > widths(one, other, gpus=9)[0]


# --- what is held ---------------------------------------------------------------------------------


def test_rungs_that_are_held_are_worth_more() -> None:
    """As long and as steep: who has the GPUs keeps most of them, without the premium they share."""
    holder, comer = running(8, 100.0), a_job(100.0)
    sticky, loose = widths(holder, comer, hold=0.5), widths(holder, comer, hold=0.0)
    assert loose == [4, 4]
    assert sticky[0] > loose[0]
    assert widths(holder, comer, hold=1e9) == [8, 0]


def test_a_small_difference_takes_nobody_off() -> None:
    crowd = [running(1, 101.0), *(a_job(100.0 + length) for length in (0.0, 2.0, 3.0))]
    assert widths(*crowd, gpus=1, hold=0.5) == [1, 0, 0, 0]
    assert widths(*crowd, gpus=1, hold=0.0) == [0, 1, 0, 0]


@some
@given(
    st.lists(st.floats(1.0, 1e5), min_size=2, max_size=8, unique=True),
    st.integers(2, 24),
    st.floats(0.0, 3.0),
)
def test_who_holds_something_never_gets_less_than_who_does_not(
    lengths: list[float], gpus: int, hold: float
) -> None:
    waiting = widths(*(a_job(length) for length in lengths), gpus=gpus, hold=hold)
    holders = [running(2, lengths[0]), *(a_job(length) for length in lengths[1:])]
    assert widths(*holders, gpus=gpus, hold=hold, fairness=0.0)[0] >= min(waiting[0], 2)


def test_what_jobs_hold_that_cannot_be_resized_is_not_handed_out() -> None:
    stuck = running(5, live=False)
    assert widths(stuck, a_job(), gpus=8) == [5, 3]
    assert widths(stuck, a_job(), gpus=5) == [5, 0]


@pytest.mark.parametrize(
    ("curve", "grain", "width"), [(2, 1, 4), (3, 1, 2), (0, 2, 2)], ids=["flat", "dip", "grain"]
)
def test_what_is_held_beside_the_ladder_is_not_handed_out_either(
    curve: int, grain: int, width: int
) -> None:
    stuck = running(width, curve=curve, live=False)
    assert widths(stuck, a_job(), gpus=width, grain_gpus=grain) == [width, 0]


# --- tenants --------------------------------------------------------------------------------------


def test_a_tenant_below_its_part_is_favoured() -> None:
    """Two of a kind, but the one's tenant holds nearly everything already."""
    rich = [running(6, 100.0, tenant=0), a_job(100.0, tenant=0)]
    poor = a_job(100.0, tenant=1)
    fair = widths(*rich, poor, hold=0.0)
    blind = widths(*rich, poor, hold=0.0, fairness=0.0)
    assert fair[2] > blind[2]
    assert max(blind) - min(blind) <= 1


def test_favour_is_bounded() -> None:
    """Twofold at most: it does not outweigh a job that is much shorter among many."""
    rich = [running(60, 1.0, tenant=0, live=False), a_job(1.0, tenant=0)]
    crowd = [a_job(1000.0, tenant=0) for _ in range(98)]
    assert widths(*rich, *crowd, a_job(1e9, tenant=1), gpus=61, hold=0.0)[:2] == [60, 1]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(0, 100))
def test_fair_parts_are_a_max_min_division(wanted: list[int], gpus: int) -> None:
    parts = fair_parts(np.array(wanted, float), gpus)
    assert parts.sum() == pytest.approx(min(gpus, sum(wanted)))
    assert (parts <= np.array(wanted) + 1e-9).all()
    unsatisfied = parts[parts < np.array(wanted) - 1e-9]
    if len(unsatisfied):
        assert unsatisfied.min() == pytest.approx(parts.max()), "nobody has more than they"


# --- cores ----------------------------------------------------------------------------------------


def with_cores(*jobs: dict[str, Any], cores: float | None) -> list[int]:
    cluster = Cluster((a_node("n0", 8, cpus=cores),))
    snapshot = a_snapshot(*jobs, nodes=cluster, curves=CURVES)
    return list(map(int, Weave()(snapshot, np.arange(len(jobs)))))


def test_who_needs_many_cores_pays_for_them_where_they_are_scarce() -> None:
    greedy, modest = a_job(cpus=16.0, asked_gpus=1), a_job(cpus=1.0, asked_gpus=1)
    scarce = with_cores(greedy, modest, cores=16.0)
    assert scarce[0] < scarce[1]
    assert with_cores(greedy, modest, cores=1000.0) == [4, 4]
    assert with_cores(greedy, modest, cores=None) == [4, 4]


# --- lengths that nobody knows --------------------------------------------------------------------


def test_without_lengths_the_least_served_has_most() -> None:
    tired, fresh = (a_job(NAN, attained_gpu_seconds=served) for served in (1e6, 100.0))
    found = widths(tired, fresh, gpus=8)
    assert found[0] < found[1]


def test_jobs_that_are_all_new_share_evenly() -> None:
    found = widths(*(a_job(NAN) for _ in range(4)), gpus=8)
    assert found == [2, 2, 2, 2]


def test_nobody_and_nothing() -> None:
    assert widths() == []
    assert widths(a_job(min_gpus=4), gpus=3) == [0]
    host_only = a_job(min_gpus=0, max_gpus=0, asked_gpus=0)
    assert widths(host_only, a_job(), gpus=8) == [0, 8]
