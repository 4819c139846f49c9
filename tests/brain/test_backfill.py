"""Who may pass a blocked job: nobody, anybody, or those who do no harm."""

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from tests.builders import (
    HOUR,
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    given,
    is_now,
    jobs,
    runs,
    starts_on,
    waits_because,
)
from weft.brain.round.round import decide
from weft.model.ids import JobId
from weft.model.reason import Cause, ReasonCode
from weft.model.request import INDIFFERENT, Locality
from weft.model.state import State
from weft.policy.recipes import backfill, fifo, srtf


def a_blocked_gang(*, reserve_after: float = 1800.0) -> Scene:
    """Two nodes of eight; one of them is half full for an hour; a gang of sixteen waits."""
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve_after=reserve_after))
    scene.submit(a_job("runs", 4, seconds=HOUR)).decide()
    return scene.submit(a_job("gang", 16, seconds=HOUR)).decide()


# --- strict order -------------------------------------------------------------------------------


def test_strict_order_holds_everybody_behind_a_job_that_cannot_start() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(fifo()).submit(a_job("runs", 4)).decide()
    scene.submit(a_job("head", 8), a_job("small", 1)).decide()
    scene.expect("head", waits_because(ReasonCode.CAPACITY_BUSY, need=8, free=4))
    scene.expect("small", waits_because(ReasonCode.PRIORITY_BEHIND, ahead=1, free=4, need=1))
    scene.finish("runs").decide().expect("head", runs).expect("small", is_now(State.QUEUED))


@pytest.mark.parametrize(
    ("head", "why"),
    [
        (a_job("head", 64), ReasonCode.CONSTRAINT_NEVER),
        (a_job("head", 2, queue="small"), ReasonCode.QUOTA_NEVER),
        (a_job("head", 1, queue="full"), ReasonCode.QUOTA_LIMIT),
    ],
    ids=["too wide for the cluster", "too wide for its queue", "its queue is full"],
)
def test_a_head_that_is_not_admissible_holds_nobody(head: object, why: ReasonCode) -> None:
    tree = (a_queue("default"), a_queue("small", limit=1), a_queue("full", limit=1))
    scene = given(a_cluster(nodes=1, gpus=8)).with_queues(*tree).with_recipe(fifo())
    scene.submit(a_job("fills", 1, queue="full")).decide()
    scene.submit(head, a_job("behind", 1)).decide()  # type: ignore[arg-type]
    scene.expect("head", waits_because(why)).expect("behind", runs)


def test_five_hundred_admissible_jobs_are_admitted_within_two_rounds() -> None:
    scene = (
        given(a_cluster(nodes=63, gpus=8))
        .with_recipe(fifo())
        .with_queues(a_queue("full", limit=0), a_queue("open"))
    )
    scene.submit(a_job("head", 8, queue="full"), *jobs(500, "job", queue="open"))
    scene.decide().decide() if len(scene.decide().running()) < 500 else None
    assert len(scene.running()) == 500


# --- anybody ------------------------------------------------------------------------------------


def test_without_reservations_smaller_jobs_may_pass_for_ever() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve=False))
    scene.submit(a_job("runs", 4)).decide().submit(a_job("gang", 16)).decide().tick(9 * HOUR)
    scene.submit(*jobs(12, "small", seconds=1e9)).decide()
    assert len(scene.running()) == 13


# --- the harmless -------------------------------------------------------------------------------


def test_a_gang_has_no_reservation_at_first() -> None:
    scene = a_blocked_gang()
    assert scene.brain.decision is None or scene.brain.decision.reservation is None
    scene.submit(a_job("long", 8, seconds=9 * HOUR)).decide().expect("long", runs)


def test_a_gang_blocked_for_long_gets_nodes_kept_for_it() -> None:
    scene = a_blocked_gang().tick(1800.0).submit(a_job("long", 8, seconds=9 * HOUR)).tick(1.0)
    kept = scene.brain.decision
    assert kept is not None and kept.reservation == ("gang", ("n0", "n1"))
    scene.expect("long", waits_because(ReasonCode.RESERVED, holder="gang", need=8))


def test_a_job_that_is_gone_in_time_may_pass() -> None:
    scene = a_blocked_gang().tick(1800.0).submit(a_job("brief", 8, seconds=600.0)).tick(1.0)
    scene.expect("brief", runs)


def test_a_job_of_unknown_length_may_not_pass() -> None:
    hidden = a_job("unknown", 8, seconds=60.0, tell_work=False)
    scene = a_blocked_gang().tick(1800.0).submit(hidden).tick(1.0)
    scene.expect("unknown", waits_because(ReasonCode.RESERVED))


def test_nodes_of_a_job_of_unknown_length_are_not_taken_for_free_soonest() -> None:
    hidden = a_job("unknown", 8, seconds=HOUR, tell_work=False)
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve_after=0.0))
    scene.submit(hidden).decide().submit(a_job("known", 8, seconds=600.0)).decide()
    scene.submit(a_job("gang", 8, seconds=60.0)).tick(10.0)
    decision = scene.brain.decision
    assert decision is not None and decision.reservation is not None
    assert [*decision.reservation[1]] == [*scene.nodes("known")]


def test_a_short_job_may_pass_though_a_long_one_of_its_kind_may_not() -> None:
    scene = a_blocked_gang().tick(1800.0)
    scene.submit(a_job("long", 1, seconds=9 * HOUR), a_job("brief", 1, seconds=60.0)).tick(1.0)
    scene.expect("long", waits_because(ReasonCode.RESERVED)).expect("brief", runs)


def test_passers_never_delay_the_gang() -> None:
    """A steady stream of jobs of all lengths; the gang starts when the hour is over."""
    scene = a_blocked_gang(reserve_after=60.0)
    end_of_the_first = HOUR
    for minute in range(1, 60):
        scene.tick(60.0 * minute - scene.now)
        scene.submit(
            a_job(f"brief{minute}", 1, seconds=30.0), a_job(f"long{minute}", 1, seconds=9 * HOUR)
        ).wait(5.0)
        for job in sorted(scene.running() - {"runs"}):
            scene.finish(job)
    scene.tick(end_of_the_first - scene.now).finish("runs").wait(2.0).expect("gang", runs)


def test_a_reserved_node_off_the_way_leaves_other_nodes_open() -> None:
    scene = given(a_cluster(nodes=3, gpus=8)).with_recipe(backfill(reserve_after=0.0))
    scene.submit(a_job("a", 4, seconds=HOUR), a_job("b", 8, seconds=9 * HOUR)).decide()
    scene.submit(a_job("gang", 16)).decide().submit(a_job("long", 1, seconds=99 * HOUR)).decide()
    assert scene.state("long") is State.QUEUED
    scene.finish("b").decide().expect("gang", is_now(State.RUNNING))


def test_a_wide_job_reserves_one_node_where_one_can_hold_it() -> None:
    recipe = backfill(reserve_after=0.0, reserve_gpus=1)
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(recipe)
    scene.submit(a_job("a", 5, seconds=HOUR), a_job("b", 5, seconds=2 * HOUR)).decide()
    scene.submit(a_job("whole", 8, max_nodes=1), a_job("long", 3, seconds=99 * HOUR)).decide()
    scene.expect("long", starts_on("n1")).expect("whole", is_now(State.QUEUED))


def test_nodes_are_kept_in_the_pool_that_is_free_first() -> None:
    cluster = a_cluster(
        *(a_node(f"{pool}{i}", 8, pool=pool) for pool in ("east", "west") for i in range(2)),
        a_node("tiny", 4, pool="south"),
    )
    scene = given(cluster).with_recipe(backfill(reserve_after=0.0))
    for node, seconds in (("east0", 3), ("east1", 1), ("west0", 2), ("west1", 2)):
        scene.submit(a_job(node, 8, seconds=seconds * HOUR)).decide().expect(node, runs)
    scene.submit(a_job("gang", 16)).tick(1.0)
    kept = scene.brain.decision
    assert kept is not None and kept.reservation == ("gang", ("west0", "west1"))


def test_waits_are_booked_to_their_cause_second_by_second() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(backfill()).submit(a_job("first", 8))
    scene.decide().submit(a_job("second", 8)).decide()
    decided = scene.now
    scene.tick(100.0 - decided).finish("first").decide().expect("second", runs)
    waited = scene.waited("second")
    assert waited[Cause.CAPACITY] == pytest.approx(100.0 + 0.0 - decided, abs=1.0)
    assert waited.sum() == pytest.approx(scene.now)
    scene.finish("second")
    assert sum(scene.brain.state.closed[JobId("second")].waits_seconds) == pytest.approx(scene.now)


def test_every_visit_to_the_queue_adds_to_the_wait() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("short", 8, seconds=10.0)).decide().submit(a_job("long", 8)).decide()
    scene.tick(40.0).finish("short").decide().expect("long", runs)
    first = float(scene.waited("long").sum())
    scene.submit(a_job("again", 8, seconds=10.0)).decide().expect("long", is_now(State.QUEUED))
    since = scene.now
    scene.wait(30.0).finish("again").decide().expect("long", runs)
    assert scene.waited("long").sum() == pytest.approx(first + scene.now - since)
    assert scene.waited("long")[Cause.CAPACITY] > first


small_jobs = st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=8)


@for_all(small_jobs, small_jobs)
def test_asking_only_new_jobs_grants_what_asking_all_would(
    first: list[tuple[int, bool]], then: list[tuple[int, bool]]
) -> None:
    """Where nothing was given back since the last round, nobody else can have got room."""
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(backfill(reserve=False))
    scene.with_queues(a_queue("default", limit=9))
    for when, wave in enumerate((first, then)):
        scene.submit(
            *(
                a_job(f"job{when}.{i}", gpus, locality=Locality() if dear else INDIFFERENT)
                for i, (gpus, dear) in enumerate(wave)
            )
        )
        if when == 0:
            scene.tick()
    state, recipe, later = scene.brain.state, scene.brain.recipe, scene.now + 1.0
    everybody = decide(state, later, recipe, supply_grew=True)
    only_new = decide(state, later, recipe, supply_grew=False)
    assert only_new.grants == everybody.grants
