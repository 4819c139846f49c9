"""Nodes come, go, are cordoned and shrink."""

import pytest

from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    given,
    is_now,
    runs,
    starts_on,
    waits_because,
)
from weft.brain.event import Verb
from weft.brain.instruction import Stop
from weft.model.cluster import Cluster
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipes import srtf


def test_a_node_that_joins_is_used_in_the_next_round() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("a", 8)).decide()
    scene.submit(a_job("b", 8)).decide().expect("b", waits_because(ReasonCode.CAPACITY_BUSY))
    scene.add(a_node("n1", 8)).decide().expect("b", starts_on("n1"))


def test_a_cluster_may_begin_empty() -> None:
    scene = Scene(Cluster(())).submit(a_job("early", 8)).decide()
    scene.expect("early", is_now(State.QUEUED))
    scene.add(a_node("n0", 8)).decide().expect("early", starts_on("n0"))


def test_a_lost_node_stops_its_gangs_and_they_start_elsewhere() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).submit(a_job("gang", 16)).decide()
    scene.stay_silent().lose("n0").expect("gang", is_now(State.STOPPING))
    assert scene.last(Stop, "gang").why == "node n0 lost"
    scene.done("gang", Verb.STOP, kept=2.0).decide()
    scene.expect("gang", waits_because(ReasonCode.HEALTH_LOST, lost=8))
    scene.add(a_node("n0", 8)).decide().expect("gang", starts_on("n0", "n1"))


def test_a_start_in_flight_on_a_lost_node_is_stopped() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).stay_silent().submit(a_job("job", 8)).decide()
    scene.lose("n0").expect("job", is_now(State.STOPPING))


def test_losing_a_node_that_nobody_knows_is_nothing() -> None:
    scene = given(a_cluster(nodes=1)).lose("elsewhere")
    assert scene.all(Stop) == []


def test_a_cordoned_node_keeps_what_runs_and_takes_nothing_new() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("runs", 4)).decide()
    scene.change(a_node("n0", 8, cordoned=True)).submit(a_job("waits", 4)).decide()
    scene.expect("runs", runs).expect("waits", waits_because(ReasonCode.HEALTH_LOST, need=4))
    scene.change(a_node("n0", 8)).decide().expect("waits", runs)


def test_a_pledge_on_a_node_that_changes_is_withdrawn() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=9e3)).decide().stay_silent()
    scene.submit(a_job("short", 8, seconds=9.0)).decide().expect("short", is_now(State.ADMITTED))
    scene.change(a_node("n0", 8, cordoned=True)).expect("short", is_now(State.QUEUED))
    assert scene.nodes("short") == {}


def test_a_pledge_on_a_node_that_is_lost_is_withdrawn() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=9e3)).decide().stay_silent()
    scene.submit(a_job("short", 8, seconds=9.0)).decide().lose("n0")
    scene.expect("short", is_now(State.QUEUED)).expect("long", is_now(State.STOPPING))


def test_a_node_that_shrinks_loses_as_few_jobs_as_it_takes_the_latest_first() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("a", 4), a_job("b", 4)).decide()
    scene.change(a_node("n0", 4)).decide()
    scene.expect("a", runs).expect("b", is_now(State.QUEUED))
    assert scene.epoch("a") == 1, "the one that fits was not disturbed"


def test_on_a_node_that_shrinks_what_has_not_begun_goes_first() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).stay_silent()
    scene.submit(a_job("first", 4)).decide().submit(a_job("second", 4)).decide()
    scene.done("second", Verb.START).change(a_node("n0", 4))
    scene.expect("second", runs).expect("first", is_now(State.STOPPING))


def test_a_node_that_shrinks_above_what_it_holds_disturbs_nobody() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("a", 4)).decide()
    scene.change(a_node("n0", 6)).expect("a", runs)
    scene.submit(a_job("b", 4), a_job("c", 2)).decide()
    scene.expect("b", waits_because(ReasonCode.CAPACITY_BUSY)).expect("c", runs)


def test_nobody_is_preempted_for_a_place_on_a_cordoned_node() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=1e4), a_job("longer", 8, seconds=2e4)).decide()
    scene.change(a_node("n1", 8, cordoned=True)).decide().expect("longer", starts_on("n1"))
    scene.submit(a_job("short", 8, seconds=10.0)).decide()
    scene.expect("short", starts_on("n0")).expect("longer", runs)


def test_a_returning_node_keeps_its_row() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).lose("n0").add(a_node("n0", 4))
    assert scene.brain.state.node_ids == ["n0", "n1"]
    assert scene.brain.state.fabric.nodes.gpus.tolist() == [4, 8]


def test_more_nodes_than_the_table_began_with() -> None:
    scene = given(a_cluster(nodes=33, gpus=1)).submit(a_job("all", 33)).decide()
    assert len(scene.nodes("all")) == 33
    scene.lose("n00").expect("all", is_now(State.QUEUED))
    assert JobId("all") in scene.brain.state.slot_of


# --- hosts --------------------------------------------------------------------------------------


def test_a_job_without_gpus_runs_beside_the_others() -> None:
    scene = given(a_cluster(a_node("n0", 8, cpus=16.0))).submit(a_job("gpu", 8)).decide()
    scene.submit(*(a_job(f"cpu{i}", 0, cpus=6.0, seconds=100.0) for i in range(3))).decide()
    scene.expect("cpu0", runs).expect("cpu1", runs).expect("cpu2", is_now(State.QUEUED))
    slot = scene.brain.state.slot_of[JobId("cpu0")]
    snapshot = scene.brain.state.snapshot(scene.now + 60.0)
    assert snapshot.job(slot).remaining_seconds == pytest.approx(40.0)
    scene.finish("cpu0").decide().expect("cpu2", runs)


def test_cpus_run_out_before_gpus() -> None:
    scene = given(a_cluster(a_node("n0", 8, cpus=16.0))).submit(a_job("a", 3, cpus_per_gpu=4.0))
    scene.decide().submit(a_job("b", 2, cpus_per_gpu=4.0)).decide()
    scene.expect("b", waits_because(ReasonCode.FRAGMENTED, free=1, need=2, largest=1))


def test_the_only_node_wide_enough_is_lost_though_enough_gpus_are_free() -> None:
    scene = given(a_cluster(a_node("big", 8), a_node("s0", 4), a_node("s1", 4)))
    scene.submit(a_job("first")).decide().finish("first").lose("big")
    scene.submit(a_job("whole", 8, max_nodes=1)).decide()
    scene.expect("whole", waits_because(ReasonCode.HEALTH_LOST, free=8, lost=8, need=8))
