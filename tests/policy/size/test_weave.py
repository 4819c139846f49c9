"""Weave's widths: lengths that are known or expected, tenants, cores, and what always holds."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_node, a_snapshot, sized
from weft.model.cluster import Cluster
from weft.model.menu import Menus
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.policy.order.expected import ExpectedShortest
from weft.policy.packing import Packing
from weft.policy.size.weave import Weave, fair_parts

NAN = float("nan")
NODE_GPUS = 8
WIDEST = 64

GPUS = np.arange(WIDEST + 1.0)
LINEAR, POWER, SATURATED = GPUS, GPUS**0.4, np.minimum(GPUS, 2.0)
DIPPING = np.where(GPUS % 2 == 1, 0.5 * (GPUS + 1), 0.4 * GPUS)
CONVEX = GPUS**1.5
MENUS = Menus.of([(row, row, row) for row in (LINEAR, POWER, SATURATED, DIPPING, CONVEX)])

some = settings(max_examples=25)

rows = st.lists(
    st.fixed_dictionaries(
        {
            "min_gpus": st.integers(1, 5),
            "max_gpus": st.integers(5, 12),
            "menu": st.integers(0, 4),
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


def a_job(length: float = 100.0, menu: int = 1, **columns: Any) -> dict[str, Any]:
    work = {"work_low": length, "work_total": length, "work_high": length}
    return {"min_gpus": 1, "max_gpus": WIDEST, "menu": menu, **work, **columns}


def running(width: int, length: float = 100.0, menu: int = 1, **columns: Any) -> dict[str, Any]:
    state = {"state": State.RUNNING, "live": True, "width": width}
    return a_job(length, menu, **{**state, **columns})


def drawn(row: dict[str, Any]) -> dict[str, Any]:
    """Whoever runs has what it needs at least."""
    columns = dict(row)
    length, held = columns.pop("length"), columns.pop("held")
    columns["width"] = columns["min_gpus"] + held if columns["state"] is State.RUNNING else 0
    columns["max_gpus"] = max(columns["max_gpus"], columns["width"])
    return a_job(length, **columns)


def scene(*jobs: dict[str, Any], gpus: int = NODE_GPUS) -> Snapshot:
    return a_snapshot(*jobs, nodes=a_cluster(nodes=1, gpus=gpus), menus=MENUS)


def widths(*jobs: dict[str, Any], gpus: int = NODE_GPUS, **knobs: Any) -> list[int]:
    return list(map(int, sized(Weave(**knobs), scene(*jobs, gpus=gpus), np.arange(len(jobs)))))


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
    snapshot = a_snapshot(*jobs, nodes=a_cluster(nodes=gpus, gpus=4), menus=MENUS)
    found = sized(Weave(packing=Packing.NETWORK), snapshot, np.arange(len(jobs)))
    assert found.sum() <= 4 * gpus
    for job, width in zip(jobs, found.tolist(), strict=True):
        allowed = [
            w for w in range(job["min_gpus"], job["max_gpus"] + 1) if Packing.NETWORK.allows(w, 4)
        ]
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
        given_out = sized(Weave(), snapshot, ranked)
        seqs = [stored[slot]["seq"] for slot in ranked.tolist()]
        found[id(stored)] = dict(zip(seqs, given_out.tolist(), strict=True))
    assert found[id(jobs)] == found[id(shuffled)]


@some
@given(rows, st.integers(1, 40))
def test_nothing_is_left_that_somebody_could_have_used(
    given_rows: list[dict[str, Any]], gpus: int
) -> None:
    """On curves that rise with every GPU, and from one GPU on."""
    jobs = [
        drawn({**row, "state": State.QUEUED, "min_gpus": 1, "menu": row["menu"] % 2})
        for row in given_rows
    ]
    assert sum(widths(*jobs, gpus=gpus)) == min(gpus, sum(job["max_gpus"] for job in jobs))


# --- lengths --------------------------------------------------------------------------------------


def test_of_two_unknown_lengths_the_one_that_has_had_less_goes_first() -> None:
    new, old = a_job(NAN, attained_gpu_seconds=10.0), a_job(NAN, attained_gpu_seconds=1000.0)
    assert widths(old, new, gpus=3) == [1, 2]


def test_an_unknown_length_stands_among_known_ones_by_what_it_has_had() -> None:
    unknown = a_job(NAN, attained_gpu_seconds=100.0)
    assert widths(unknown, a_job(10.0), gpus=3) == [1, 2]
    assert widths(unknown, a_job(1000.0), gpus=3) == [2, 1]


def test_with_many_more_jobs_than_gpus_everybody_who_runs_is_narrow() -> None:
    crowd = [a_job(10.0 + length) for length in range(200)]
    assert widths(*crowd, gpus=16) == [1] * 16 + [0] * 184


def test_a_lone_job_has_all_that_helps() -> None:
    assert widths(a_job(10.0), gpus=16) == [16]
    assert widths(a_job(menu=2), gpus=16) == [2]


def test_what_jobs_hold_that_cannot_be_resized_is_not_handed_out() -> None:
    stuck = running(5, live=False)
    assert widths(stuck, a_job(), gpus=8) == [5, 3]
    assert widths(stuck, a_job(), gpus=5) == [5, 0]


# --- tenants --------------------------------------------------------------------------------------


def test_a_tenant_below_its_part_is_favoured() -> None:
    """Two of a kind, but the one's tenant holds nearly everything already."""
    rich = [running(6, 100.0, live=False, tenant=0), a_job(100.0, tenant=0)]
    poor = a_job(150.0, tenant=1)
    assert widths(*rich, poor, gpus=9) == [6, 1, 2]
    assert widths(*rich, poor, gpus=9, fairness=0.0) == [6, 2, 1]


def test_favour_is_bounded() -> None:
    """Twofold either way at most: it does not outweigh a job that is much shorter."""
    rich = [running(60, 1.0, tenant=0, live=False), a_job(1.0, tenant=0)]
    assert widths(*rich, a_job(1e9, tenant=1), gpus=63) == [60, 2, 1]


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
    snapshot = a_snapshot(*jobs, nodes=cluster, menus=MENUS)
    return list(map(int, sized(Weave(), snapshot, np.arange(len(jobs)))))


def test_who_needs_many_cores_counts_as_longer_where_they_are_scarce() -> None:
    """An odd GPU goes to the shorter of two with one curve."""
    greedy, modest = a_job(cpus=16.0, asked_gpus=1), a_job(120.0, cpus=1.0, asked_gpus=1)
    held = running(1, live=False)
    assert with_cores(greedy, modest, held, cores=16.0) == [3, 4, 1]
    assert with_cores(greedy, modest, held, cores=1000.0) == [4, 3, 1]
    assert with_cores(greedy, modest, held, cores=None) == [4, 3, 1]


# --- lengths that nobody knows --------------------------------------------------------------------


def test_without_lengths_the_least_served_has_most() -> None:
    tired, fresh = (a_job(NAN, attained_gpu_seconds=served) for served in (1e6, 100.0))
    assert widths(tired, fresh, gpus=9) == [4, 5]


def test_jobs_that_are_all_new_share_evenly() -> None:
    found = widths(*(a_job(NAN) for _ in range(4)), gpus=8)
    assert found == [2, 2, 2, 2]


def test_nobody_and_nothing() -> None:
    assert widths() == []
    assert widths(a_job(min_gpus=4), gpus=3) == [0]
    host_only = a_job(min_gpus=0, max_gpus=0, asked_gpus=0)
    assert widths(host_only, a_job(), gpus=8) == [0, 8]
