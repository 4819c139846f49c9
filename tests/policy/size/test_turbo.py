"""AITurbo's widths: least resource time for the predictable, as asked for the others; then fill."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import a_cluster, a_snapshot, sized
from tests.policy.size.random_climbs import random_climbs
from weft.model.menu import Menus
from weft.model.snapshot import Snapshot
from weft.model.state import State
from weft.perf.predictability import PREDICTABLE_AFTER
from weft.policy.order.borda import Borda, scores
from weft.policy.order.gains import attained_service, costs, service_per_gpu
from weft.policy.packing import Packing
from weft.policy.size.turbo import Turbo, fill_prices, growth_gains
from weft.policy.supply import Supply

LINEAR, SAGGING, SUPERLINEAR, DIPPING = range(4)
CURVES = (
    np.arange(9.0),
    np.array([0.0, 1.0, 1.6, 2.0, 2.3, 2.5, 2.6, 2.7, 2.8]),
    np.array([0.0, 1.0, 2.2, 3.5, 5.0, 5.5, 5.8, 6.0, 6.1]),
    np.array([0.0, 1.0, 2.5, 2.0, 3.0, 4.5, 8.0, 6.0, 6.1]),
)
MENUS = Menus.of([(curve, curve, curve) for curve in CURVES])
PUBLISHED, FILLED = Turbo(fill=False), Turbo()

Row = dict[str, Any]


def elastic(menu: int = SAGGING, asked: int = 4, *, known: bool = True, **more: Any) -> Row:
    """A job of 1 to 8 GPUs that waits."""
    steady = PREDICTABLE_AFTER if known else 0
    usual = {"min_gpus": 1, "max_gpus": 8, "work_total": 1000.0, "steady": steady}
    return usual | {"menu": menu, "asked_gpus": asked} | more


def snapshot(*rows: Row, gpus: int = 32, cores: float = np.inf) -> Snapshot:
    made = a_snapshot(*rows, nodes=a_cluster(nodes=1, gpus=gpus), menus=MENUS)
    made.nodes.cpus[:] = cores
    return made


def widths(size: Turbo, *rows: Row, gpus: int = 32, cores: float = np.inf) -> list[int]:
    """Of jobs in rank order."""
    found: list[int] = sized(
        size, snapshot(*rows, gpus=gpus, cores=cores), np.arange(len(rows))
    ).tolist()
    return found


jobs = st.builds(
    elastic,
    st.sampled_from((LINEAR, SAGGING, SUPERLINEAR, DIPPING)),
    st.integers(2, 6),
    known=st.booleans(),
    min_gpus=st.integers(1, 2),
    max_gpus=st.integers(6, 8),
    work_total=st.sampled_from((100.0, 700.0, 1000.0)),
    attained_gpu_seconds=st.sampled_from((0.0, 200.0, 5000.0)),
)


# --- the published rule ---------------------------------------------------------------------------


def test_gains_are_resource_time_and_prices_are_seconds_for_it() -> None:
    for state in random_climbs(100, seed=11):
        ladders = state.ladders
        gains, prices = growth_gains(ladders), fill_prices(ladders)
        for here in np.flatnonzero(ladders.cost < 100).tolist():
            (k, wider), (p, faster) = ladders.width[here : here + 2], ladders.speed[here : here + 2]
            gain = (k / p - wider / faster) / (wider - k)
            assert gains[here] == pytest.approx(gain, abs=1e-12)
            if gain < -1e-9:
                assert prices[here] == pytest.approx((1 / p - 1 / faster) / (wider - k) / -gain)


@settings(max_examples=200, deadline=None)
@given(st.lists(jobs, min_size=1, max_size=7), st.integers(0, 40))
def test_moves_are_made_one_by_one_while_they_gain_and_there_is_room(
    rows: list[Row], gpus: int
) -> None:
    assert widths(Turbo(fill=False, hull=False), *rows, gpus=gpus) == step_by_step(rows, gpus)


def step_by_step(rows: list[Row], gpus: int) -> list[int]:
    """The rule as it is told: lists, admission by rank, then the growths by their gain."""
    planned = [shrunk(row) if row["steady"] else row["asked_gpus"] for row in rows]
    found, left = [0] * len(rows), gpus
    for number, width in enumerate(planned):
        if width <= left:
            found[number], left = width, left - width
    while left:
        grows = [
            (gain(row, found[number], found[number] + 1), -number)
            for number, row in enumerate(rows)
            if row["steady"] and found[number]
        ]
        best, number = max(grows, default=(0.0, 0))
        if best <= 0:
            break
        found[-number], left = found[-number] + 1, left - 1
    return found


def shrunk(row: Row) -> int:
    width = int(row["asked_gpus"])
    while gain(row, width, width - 1) > max(gain(row, width, width + 1), 0.0):
        width -= 1
    return width


def gain(row: Row, width: int, other: int) -> float:
    """Of a move; none where it leads out of the range."""
    if not row["min_gpus"] <= other <= row["max_gpus"]:
        return 0.0
    now, then = (row["work_total"] * k / CURVES[row["menu"]][k] for k in (width, other))
    found = float(now - then)
    return found if abs(found) > 1e-9 else 0.0


def test_a_predictable_job_shrinks_to_where_it_costs_least() -> None:
    """And so others get their turn: at four GPUs each only two of them would."""
    assert widths(PUBLISHED, *[elastic()] * 4, gpus=8) == [1, 1, 1, 1]
    assert widths(PUBLISHED, elastic(min_gpus=3)) == [3]


def test_a_job_grows_where_that_costs_less_in_all() -> None:
    assert widths(PUBLISHED, elastic(SUPERLINEAR, 2)) == [4]
    assert widths(PUBLISHED, elastic(SUPERLINEAR, 6)) == [4]


def test_the_largest_gain_grows_first() -> None:
    short, long = elastic(SUPERLINEAR, 2), elastic(SUPERLINEAR, 2, work_total=3000.0)
    assert widths(PUBLISHED, short, long, gpus=6) == [2, 4]
    assert widths(PUBLISHED, long, short, gpus=6) == [4, 2]


def test_a_move_that_gains_nothing_is_not_made() -> None:
    assert widths(PUBLISHED, elastic(LINEAR, 5)) == [5]


def test_a_dip_holds_nobody_back() -> None:
    """From two GPUs a third would cost more; but six cost least of all."""
    assert widths(Turbo(fill=False, hull=False), elastic(DIPPING, 2)) == [2]
    assert widths(PUBLISHED, elastic(DIPPING, 2)) == [6]


def test_an_unpredictable_job_has_what_it_asked_for_or_nothing() -> None:
    hidden = elastic(known=False)
    assert widths(PUBLISHED, hidden) == [4]
    assert widths(PUBLISHED, elastic(SUPERLINEAR, 2, known=False)) == [2]
    assert widths(PUBLISHED, hidden, hidden, elastic(), gpus=6) == [4, 0, 1]


def test_a_stated_length_alone_does_not_make_a_job_predictable() -> None:
    assert widths(PUBLISHED, elastic(steady=PREDICTABLE_AFTER - 1)) == [4]
    assert widths(PUBLISHED, elastic(work_total=np.nan)) == [4]


def test_a_job_that_outlived_its_prediction_had_none() -> None:
    over = elastic(attained_gpu_seconds=900.0, work_done=1000.0)
    assert widths(PUBLISHED, over) == [4]
    made = snapshot(over, elastic(attained_gpu_seconds=100.0))
    early, late = scores(made, np.arange(2))[::-1].tolist()
    assert early < late, "it is ranked by its service, not as if nothing were left"


def test_a_job_that_cannot_be_resized_keeps_what_it_holds() -> None:
    stuck = elastic(state=State.RUNNING, live=False, width=6)
    live = elastic(state=State.RUNNING, live=True, width=6)
    assert widths(PUBLISHED, elastic(), stuck, live, gpus=8) == [1, 6, 1]


def test_cores_weigh_as_much_as_the_cluster_has_for_each_gpu() -> None:
    """Of two jobs that gain alike the one grows first whose cores would be free sooner."""
    greedy, modest = (elastic(SUPERLINEAR, 2, cpus=cores) for cores in (16.0, 4.0))
    made = snapshot(greedy, modest, gpus=6, cores=24.0)
    assert service_per_gpu(made, np.arange(2)).tolist() == [3.0, 1.5]
    assert costs(made, np.arange(2), np.array([2, 2])).tolist() == [
        1000 / 2.2 * 2 * 3.0,
        1000 / 2.2 * 2 * 1.5,
    ]
    assert widths(PUBLISHED, modest, greedy, gpus=6, cores=24.0) == [2, 4]
    assert service_per_gpu(snapshot(greedy), np.arange(1)).tolist() == [1.0]


def test_attained_service_counts_cores_and_jobs_without_gpus() -> None:
    fed = elastic(cpus=16.0, attained_gpu_seconds=100.0)
    bare = elastic(min_gpus=0, max_gpus=0, asked_gpus=0, cpus=8.0, attained_share_seconds=70.0)
    made = snapshot(fed, bare, gpus=8, cores=32.0)
    assert attained_service(made, np.arange(2)).tolist() == [200.0, 70.0]


# --- what would be idle ---------------------------------------------------------------------------


def test_idle_gpus_go_where_what_they_cost_buys_most() -> None:
    assert widths(FILLED, elastic(SAGGING), elastic(LINEAR, 2), gpus=8) == [1, 7]
    assert widths(FILLED, elastic(SAGGING), elastic(SAGGING), gpus=7) == [4, 3]


def test_nobody_waits_for_the_whole_of_what_it_asked_for() -> None:
    hidden = elastic(known=False)
    assert widths(FILLED, hidden, hidden, gpus=6) == [4, 2]
    assert widths(FILLED, hidden, elastic(asked=4, known=False, min_gpus=3), gpus=6)[1] == 0


def test_idle_gpus_are_for_the_unpredictable_too() -> None:
    assert widths(FILLED, elastic(known=False), gpus=8) == [8]


@settings(max_examples=200, deadline=None)
@given(st.lists(jobs, min_size=1, max_size=7), st.integers(0, 60), st.integers(1, 2))
def test_nothing_is_idle_that_somebody_could_use(rows: list[Row], gpus: int, grain: int) -> None:
    found = widths(Turbo(grain_gpus=grain), *rows, gpus=gpus)
    assert sum(found) <= gpus
    idle = gpus - sum(found)
    for row, width in zip(rows, found, strict=True):
        assert width == 0 or row["min_gpus"] <= width <= row["max_gpus"]
        assert width > 0 or idle < row["min_gpus"]
        speeds = CURVES[row["menu"]][width + grain : min(width + idle, row["max_gpus"]) + 1 : grain]
        assert not width or (speeds <= CURVES[row["menu"]][width]).all()


@settings(max_examples=100, deadline=None)
@given(st.lists(jobs, min_size=1, max_size=7), st.integers(8, 40), st.booleans())
def test_packed_wholedivide_a_node_or_are_whole_nodes(
    rows: list[Row], gpus: int, fill: bool
) -> None:
    made = snapshot(*rows, gpus=gpus)
    made.nodes.gpus[:] = gpus // 4 * 4
    node = int(made.nodes.gpus.max())
    found = sized(Turbo(packing=Packing.NETWORK, fill=fill), made, np.arange(len(rows))).tolist()
    for row, width in zip(rows, found, strict=True):
        allowed = [
            k
            for k in range(row["min_gpus"], row["max_gpus"] + 1)
            if Packing.NETWORK.allows(k, node)
        ]
        assert width in (0, *(allowed or [row["min_gpus"], row["asked_gpus"]]))


# --- supply, ranks and rows -----------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(
    rows=st.lists(jobs, min_size=1, max_size=7),
    types=st.tuples(st.integers(0, 12), st.integers(0, 12)),
    cap=st.integers(0, 12),
    promised=st.integers(0, 6),
    fill=st.booleans(),
)
def test_no_gpu_type_and_no_queue_gives_more_than_it_has(
    rows: list[Row], types: tuple[int, int], cap: int, promised: int, fill: bool
) -> None:
    """Jobs alternate between two types; the second type's queue has a cap and a guarantee."""
    made, slots = snapshot(*rows), np.arange(len(rows))
    pool = slots % 2
    stages = (((0,), (1, 2, 3)), ((0,), (1, 2)))
    speeds, budgets = np.ones(len(rows)), (*types, cap, promised)
    supply = Supply(pool, speeds, np.zeros(len(rows), bool), budgets, stages)
    found = Turbo(fill=fill)(made, slots, supply)
    assert found[pool == 0].sum() <= types[0]
    assert found[pool == 1].sum() <= min(types[1], cap)
    for row, width in zip(rows, found.tolist(), strict=True):
        assert width == 0 or row["min_gpus"] <= width <= row["max_gpus"]


def test_what_a_guarantee_gives_in_part_is_made_up_from_what_is_borrowed() -> None:
    """Four are promised to the first, and four more can be borrowed before anybody grows."""
    rows = elastic(LINEAR, 8, known=False), elastic(LINEAR, 2)
    made, slots = snapshot(*rows), np.arange(2)
    stages = (((0, 1), (0, 2)), ((0,), (0,)))
    supply = Supply(slots, np.ones(2), np.zeros(2, bool), (10, 4, 0), stages)
    assert FILLED(made, slots, supply).tolist() == [8, 2]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(jobs, min_size=1, max_size=8),
    st.integers(0, 40),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_the_order_in_which_jobs_are_stored_does_not_matter(
    rows: list[Row], gpus: int, fill: bool, random: Random
) -> None:
    stored = [row | {"seq": seq} for seq, row in enumerate(rows)]
    expected = by_sequence(Turbo(fill=fill), stored, gpus)
    random.shuffle(stored)
    assert by_sequence(Turbo(fill=fill), stored, gpus) == expected


def by_sequence(size: Turbo, rows: list[Row], gpus: int) -> dict[int, int]:
    """Ranked and sized."""
    made, slots = snapshot(*rows, gpus=gpus), np.arange(len(rows))
    ranked = slots[Borda()(made, slots).sorted(made, slots)]
    return {
        int(made.jobs.seq[slot]): int(width)
        for slot, width in zip(ranked, sized(size, made, ranked), strict=True)
    }
