"""Who yields to whom: only to a job that then starts, worst rank first, and not too often."""

from dataclasses import replace

import pytest

from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    given,
    is_never_preempted,
    is_now,
    jobs,
    runs,
    starts_on,
    waits_because,
    yields_to,
)
from weft.brain.event import Phase, Verb
from weft.brain.instruction import Preempt
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipe import Recipe, Yielding
from weft.policy.recipes import (
    RECIPES,
    backfill,
    fair,
    las,
    srtf,
    tiresias,
)
from weft.policy.replays import muri_srtf, muri_tiresias

EAGER = srtf(min_run=0.0, spacing=1.0)
DEAR_SPREAD = Locality(0.15, 0.10)


def one_node_of(gpus: int, recipe: Recipe = EAGER) -> Scene:
    return given(a_cluster(nodes=1, gpus=gpus)).with_recipe(recipe)


def test_a_shorter_job_takes_the_seats_of_a_longer_one() -> None:
    scene = one_node_of(8).submit(a_job("long", 8, seconds=1e4)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).decide()
    scene.expect("long", yields_to("short"), is_now(State.QUEUED)).expect("short", runs)
    scene.finish("short").decide().expect("long", runs)


def test_without_yielding_nobody_is_preempted() -> None:
    scene = one_node_of(8, backfill()).submit(a_job("long", 8, seconds=1e4)).decide()
    scene.submit(a_job("short", 8, seconds=10.0, priority=9)).decide()
    scene.expect("long", runs).expect("short", waits_because(ReasonCode.CAPACITY_BUSY))


def test_the_worst_ranked_yields_first_and_no_more_than_needed() -> None:
    scene = one_node_of(8)
    scene.submit(*(a_job(f"job{i}", 2, seconds=1000.0 * (i + 1)) for i in range(4))).decide()
    scene.submit(a_job("short", 2, seconds=10.0)).decide()
    assert [preempt.job for preempt in scene.all(Preempt)] == ["job3"]
    scene.submit(a_job("wide", 4, seconds=10.0)).decide()
    assert [preempt.job for preempt in scene.all(Preempt)] == ["job3", "job2", "job1"]


def test_nobody_yields_if_that_would_still_not_be_enough() -> None:
    scene = one_node_of(8).submit(a_job("short", 4, seconds=5.0), a_job("long", 4, seconds=1e4))
    scene.decide().submit(a_job("middle", 8, seconds=50.0)).decide()
    assert scene.all(Preempt) == []
    scene.expect("middle", waits_because(ReasonCode.CAPACITY_BUSY, need=8, free=0))


def test_a_victim_whose_seats_are_not_used_is_spared() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(EAGER)
    scene.submit(a_job("small", 2, seconds=9e4), a_job("big", 8, seconds=8e4)).decide()
    scene.submit(a_job("whole", 8, seconds=10.0, locality=DEAR_SPREAD)).decide()
    scene.expect("whole", starts_on("n1")).expect("small", yields_to("whole"))
    scene.expect("big", starts_on("n0"), is_never_preempted)


def test_a_gang_gets_room_on_several_nodes() -> None:
    scene = given(a_cluster(nodes=3, gpus=4)).with_recipe(EAGER)
    scene.submit(*(a_job(f"job{i}", 4, seconds=1000.0 * (i + 1)) for i in range(3))).decide()
    scene.submit(a_job("gang", 8, seconds=10.0)).decide()
    assert len(scene.all(Preempt)) == 2
    scene.expect("gang", runs)


def test_a_gang_takes_the_seats_of_the_two_worst() -> None:
    scene = given(a_cluster(nodes=3, gpus=4)).with_recipe(EAGER)
    scene.submit(*(a_job(f"job{i}", 4, seconds=1000.0 * (i + 1)) for i in range(3))).decide()
    scene.submit(a_job("gang", 8, seconds=10.0)).decide()
    assert {preempt.job for preempt in scene.all(Preempt)} == {"job1", "job2"}
    scene.expect("gang", runs).expect("job0", runs)


def test_a_job_keeps_its_seats_for_the_least_run_time() -> None:
    scene = one_node_of(8, srtf(min_run=900.0, spacing=1.0)).submit(a_job("long", 8, seconds=1e4))
    scene.decide().submit(a_job("short", 8, seconds=10.0)).wait(890.0)
    scene.expect("long", is_never_preempted)
    scene.tick(20.0).submit(a_job("nudge", 8, seconds=1e5)).wait(2.0)
    scene.expect("long", yields_to("short"))


def test_a_job_that_may_not_be_preempted_never_is() -> None:
    scene = one_node_of(8).submit(a_job("firm", 8, seconds=1e4, preemptible=False)).decide()
    scene.submit(a_job("short", 8, seconds=10.0, priority=9)).decide()
    scene.expect("firm", runs, is_never_preempted)


@pytest.mark.parametrize("recipe", [EAGER, muri_srtf()], ids=["srtf", "reshuffling"])
def test_a_job_that_has_not_saved_keeps_its_seats_until_it_has(recipe: Recipe) -> None:
    scene = one_node_of(8, recipe).submit(a_job("long", 8, seconds=1e5, yields=False)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).wait(7200.0)
    scene.expect("long", runs, is_never_preempted).expect("short", is_now(State.QUEUED))
    scene.report("long", Phase.RUNNING, yields=True).wait(1.0)
    scene.expect("long", yields_to("short")).expect("short", runs)


def test_whoever_has_waited_too_long_does_not_take_the_seats_of_one_that_has_not_saved() -> None:
    scene = one_node_of(8, RECIPES["backfill"](longest_wait=3600.0))
    scene.submit(a_job("long", 8, seconds=1e6, yields=False)).decide()
    scene.submit(a_job("late", 8, seconds=10.0)).wait(2e5)
    scene.expect("long", runs, is_never_preempted)
    scene.report("long", Phase.RUNNING, yields=True).wait(2.0).expect("long", yields_to("late"))


def test_a_firm_job_yields_when_the_world_says_that_it_had_enough() -> None:
    scene = one_node_of(8).submit(a_job("firm", 8, seconds=1e5, preemptible=False)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).wait(7200.0).expect("firm", runs)
    scene.report("firm", Phase.RUNNING, yields=True).wait(1.0).expect("firm", yields_to("short"))


def test_higher_priority_beats_every_order() -> None:
    scene = one_node_of(8).submit(a_job("short", 8, seconds=10.0)).decide()
    scene.submit(a_job("urgent", 8, seconds=1e4, priority=1)).decide()
    scene.expect("short", yields_to("urgent"))
    scene.submit(a_job("shorter", 8, seconds=1.0)).decide()
    scene.expect("urgent", is_never_preempted)


def test_least_attained_yields_only_to_a_job_that_is_behind_by_more_than_the_hold() -> None:
    recipe = las(hold=600.0, spacing=1.0, min_run=0.0)
    scene = one_node_of(8, recipe).submit(a_job("old", 8)).decide()
    scene.tick(590.0).submit(a_job("new", 8)).decide().expect("old", runs)
    scene.tick(20.0).submit(a_job("nudge", 8)).decide().expect("old", yields_to("new"))


def test_feedback_levels_ask_for_a_round_when_a_job_falls() -> None:
    recipe = tiresias(limits=(800.0, 8000.0), promote=None, spacing=1.0, min_run=0.0)
    scene = one_node_of(8, recipe).submit(a_job("old", 8), a_job("new", 8)).decide()
    scene.expect("old", runs).wait(99.0).expect("old", runs)
    scene.wait(3.0).expect("old", yields_to("new")).expect("new", runs)


def test_feedback_levels_promote_the_starved_to_the_first_level() -> None:
    recipe = tiresias(limits=(80.0, 8000.0), promote=2.0, spacing=1.0, min_run=0.0)
    scene = one_node_of(8, recipe).submit(a_job("old", 8)).decide().wait(20.0)
    scene.submit(a_job("new", 1, seconds=1e6)).decide().expect("old", yields_to("new"))
    state, ran = scene.brain.state, scene.now
    slot = state.slot_of[JobId("old")]
    assert (state.jobs.level[slot], state.jobs.level_base[slot]) == (1, 0.0)
    scene.tick(2.0 * ran + 1.0).submit(a_job("nudge")).decide()
    assert state.jobs.level[slot] == 0
    assert state.jobs.level_base[slot] == state.jobs.attained_gpu_seconds[slot] > 80.0


def test_fairness_takes_a_tenants_surplus_for_one_that_has_less() -> None:
    scene = one_node_of(8, fair(spacing=1.0, min_run=0.0))
    scene.submit(*jobs(8, "rich", tenant="rich")).decide()
    scene.submit(*jobs(8, "poor", tenant="poor")).decide()
    running = scene.running()
    assert sum(job.startswith("poor") for job in running) == 4
    assert len(running) == 8


def test_fairness_without_preemption_waits_for_ends() -> None:
    scene = one_node_of(8, fair(spacing=1.0, preempt=False))
    scene.submit(*jobs(8, "rich", tenant="rich")).decide()
    scene.submit(*jobs(4, "poor", tenant="poor"), a_job("richer", tenant="rich")).decide()
    assert scene.all(Preempt) == []
    scene.finish("rich0").decide().expect("poor0", runs).expect("richer", is_now(State.QUEUED))


def test_host_memory_is_made_free_as_well() -> None:
    scene = given(a_cluster(a_node("n0", 8, cpus=16, memory_gib=64))).with_recipe(EAGER)
    scene.submit(a_job("fat", 1, seconds=1e4, memory_gib_per_gpu=60.0)).decide()
    scene.submit(a_job("short", 2, seconds=10.0, memory_gib_per_gpu=8.0)).decide()
    scene.expect("fat", yields_to("short")).expect("short", runs)


def test_a_gang_of_another_type_is_not_hindered_by_nodes_it_cannot_use() -> None:
    scene = given(a_cluster(a_node("b0", 4, type="b"), a_node("b1", 4, type="b"))).with_recipe(
        EAGER
    )
    scene.submit(*jobs(2, "long", 4, seconds=1e5, types=[("b", 1.0)])).decide()
    scene.submit(a_job("gang", 8, types=[("b", 1.0)], locality=DEAR_SPREAD)).decide()
    scene.expect("gang", starts_on("b0", "b1"))


def test_a_gang_that_needs_two_nodes_of_its_type_preempts_beside_larger_nodes_of_another() -> None:
    cluster = a_cluster(a_node("big", 8, type="a"), *(a_node(f"b{i}", 4, type="b") for i in (0, 1)))
    scene = given(cluster).with_recipe(EAGER)
    scene.submit(a_job("top", 8, seconds=1.0, types=[("a", 1.0)]))
    scene.submit(*jobs(2, "long", 4, seconds=1e5, types=[("b", 1.0)])).decide()
    scene.submit(a_job("gang", 8, types=[("b", 1.0)], locality=DEAR_SPREAD)).decide()
    scene.expect("gang", starts_on("b0", "b1"))


def test_a_job_that_must_sit_on_one_node_preempts_nobody_where_no_node_can_be_cleared() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).with_recipe(EAGER)
    scene.submit(*jobs(2, "short", 2, seconds=1.0), *jobs(2, "long", 2, seconds=1e4)).decide()
    scene.submit(a_job("whole", 4, seconds=100.0, max_nodes=1)).decide()
    assert len(scene.all(Preempt)) in (0, 2)
    busy = {node for job in ("short0", "short1") for node in scene.nodes(job)}
    assert (len(busy) == 1) == ("whole" in scene.running())


# --- everybody anew -----------------------------------------------------------------------------


def test_reshuffling_moves_running_jobs_to_where_the_order_puts_them() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("long", 8, seconds=1000.0)).decide().expect("long", starts_on("n0"))
    scene.submit(a_job("short", 8, seconds=1.0)).decide()
    scene.expect("short", starts_on("n0"), runs).expect("long", starts_on("n1"), runs)
    assert [preempt.job for preempt in scene.all(Preempt)] == ["long"]


def test_reshuffling_stops_those_that_find_no_seat_and_explains_those_that_wait() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("long", 8, seconds=1000.0)).decide()
    scene.submit(a_job("short", 8, seconds=1.0), a_job("huge", 9, seconds=1.0)).decide()
    scene.expect("short", runs).expect("long", yields_to("short"), is_now(State.QUEUED))
    scene.expect("huge", waits_because(ReasonCode.CONSTRAINT_NEVER, need=9, largest=8))
    scene.decide().expect("long", waits_because(ReasonCode.CAPACITY_BUSY))


def test_reshuffling_leaves_a_job_alone_that_stays_where_it_is() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(muri_tiresias())
    scene.submit(a_job("one", 8)).decide().submit(a_job("two", 8)).decide()
    assert scene.all(Preempt) == []
    assert scene.running() == {"one", "two"}


def test_a_moved_job_whose_new_seats_went_to_another_waits_again() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("long", 8, seconds=1000.0)).decide().stay_silent()
    scene.submit(a_job("short", 8, seconds=1.0)).decide().expect("short", is_now(State.ADMITTED))
    scene.submit(a_job("third", 8, seconds=500.0)).decide().expect("third", starts_on("n1"))
    scene.done("long", Verb.PREEMPT, kept=5.0).expect("long", is_now(State.QUEUED))
    scene.expect("short", is_now(State.STARTING))


def test_a_moved_job_waits_for_seats_that_others_still_leave() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("long", 8, seconds=1000.0), a_job("longer", 8, seconds=2000.0)).decide()
    scene.stay_silent().submit(a_job("short", 8, seconds=1.0)).decide()
    assert {preempt.job for preempt in scene.all(Preempt)} == {"long", "longer"}
    scene.done("long", Verb.PREEMPT, kept=5.0).expect("long", is_now(State.ADMITTED))
    scene.expect("long", waits_because(ReasonCode.CAPACITY_RELEASING))
    scene.done("longer", Verb.PREEMPT, kept=5.0).expect("long", is_now(State.STARTING))


def test_pledged_cpus_are_waited_for_like_gpus() -> None:
    scene = given(a_cluster(a_node("n0", 8, cpus=16.0))).with_recipe(EAGER)
    scene.submit(a_job("long", 2, seconds=1e5, cpus_per_gpu=4.0)).decide()
    scene.submit(a_job("longer", 2, seconds=2e5, cpus_per_gpu=4.0)).decide().stay_silent()
    scene.submit(a_job("short", 4, cpus_per_gpu=4.0, seconds=1.0)).decide()
    scene.done("longer", Verb.PREEMPT, kept=0.0).expect("short", is_now(State.ADMITTED))
    scene.done("long", Verb.PREEMPT, kept=0.0).expect("short", is_now(State.STARTING))


def test_reshuffling_with_a_type_that_does_not_exist() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("odd", 1, types=[("h100", 1.0)])).decide()
    scene.expect("odd", waits_because(ReasonCode.CONSTRAINT_NEVER))


def test_reshuffling_while_every_node_is_cordoned() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_recipe(muri_srtf())
    scene.submit(a_job("runs", 1)).decide().change(a_node("n0", 8, cordoned=True))
    scene.submit(a_job("waits", 1)).decide()
    scene.expect("runs", runs).expect("waits", is_now(State.QUEUED))


def test_a_period_holds_rounds_at_fixed_times() -> None:
    recipe = replace(EAGER, rounds=replace(EAGER.rounds, period_seconds=300.0))
    scene = given(a_cluster(nodes=1, gpus=1)).with_recipe(recipe).submit(a_job("a"), a_job("b"))
    scene.decide()
    assert scene.now == 0.0
    scene.tick(10.0).submit(a_job("c", seconds=1.0)).decide()
    assert scene.now == 300.0
    scene.decide()
    assert scene.now == 600.0


def test_yielding_is_bounded_by_default() -> None:
    assert Yielding().min_run_seconds == 900.0


def test_who_waits_for_a_job_that_is_still_starting_is_thought_of_when_it_runs() -> None:
    scene = one_node_of(8).stay_silent().submit(a_job("long", 8, seconds=1e4)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).decide()
    scene.expect("short", is_now(State.QUEUED))
    scene.done("long", Verb.START).wait(5.0).expect("long", yields_to("short"))


def test_who_waits_for_a_protected_job_is_thought_of_when_its_protection_ends() -> None:
    scene = one_node_of(8, srtf(min_run=900.0, spacing=1.0))
    scene.submit(a_job("long", 8, seconds=1e4)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).wait(890.0).expect("long", runs)
    scene.wait(20.0).expect("long", yields_to("short"))
