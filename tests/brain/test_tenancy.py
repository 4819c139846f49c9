"""Queues in a round: limits hold, guarantees come back at once, what is lent can be reclaimed."""

import pytest

from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    also_waits_because,
    given,
    is_never_preempted,
    is_now,
    jobs,
    runs,
    waits_because,
    yields_to,
)
from weft.brain.event import Verb
from weft.brain.instruction import Preempt
from weft.model.ids import QueueId
from weft.model.queue import Queue
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipe import Recipe
from weft.policy.recipes import backfill, fifo, srtf

EAGER = srtf(min_run=0.0, spacing=1.0)


def tenants(*tree: Queue, gpus: int = 8, recipe: Recipe | None = None) -> Scene:
    return given(a_cluster(nodes=1, gpus=gpus)).with_queues(*tree).with_recipe(recipe or backfill())


def held(scene: Scene, queue: str) -> int:
    quota = scene.brain.state.quota
    used = quota.sums(scene.brain.state.own_use())
    return used[quota.ids.index(QueueId(queue))]


# --- limits -------------------------------------------------------------------------------------


def test_a_queue_never_exceeds_its_limit_though_gpus_are_free() -> None:
    scene = tenants(a_queue("a", limit=4)).submit(*jobs(6, "a", queue="a")).decide()
    assert held(scene, "a") == 4
    scene.expect("a4", waits_because(ReasonCode.QUOTA_LIMIT, queue="a", used=4, limit=4, need=1))
    scene.finish("a0").decide().expect("a4", runs).expect("a5", is_now(State.QUEUED))


def test_the_limit_of_an_ancestor_counts_and_is_the_one_named() -> None:
    scene = tenants(a_queue("org", limit=4), a_queue("a", parent="org"), a_queue("b", parent="org"))
    scene.submit(a_job("a", 3, queue="a")).decide().submit(a_job("b", 2, queue="b")).decide()
    scene.expect("b", waits_because(ReasonCode.QUOTA_LIMIT, queue="org", used=3, limit=4, need=2))


def test_what_could_never_fit_the_limit_is_told_so() -> None:
    scene = tenants(a_queue("a", limit=4)).submit(a_job("wide", 5, queue="a")).decide()
    scene.expect("wide", waits_because(ReasonCode.QUOTA_NEVER, limit=4, need=5))
    assert scene.reasons("wide")[0].remedy == "ask for at most 4 GPUs, or raise the limit"


def test_a_better_ranked_job_may_preempt_inside_its_full_queue() -> None:
    scene = tenants(a_queue("a", limit=4), a_queue("b"), recipe=EAGER)
    scene.submit(a_job("long", 4, seconds=1e4, queue="a"), a_job("other", 4, queue="b")).decide()
    scene.submit(a_job("short", 4, seconds=10.0, queue="a")).decide()
    scene.expect("long", yields_to("short")).expect("short", runs)
    scene.expect("other", is_never_preempted)
    assert held(scene, "a") == 4


def test_a_full_queue_makes_no_room_by_preempting_others() -> None:
    scene = tenants(a_queue("a", limit=4), a_queue("b"), recipe=EAGER)
    scene.submit(a_job("mine", 4, seconds=1.0, queue="a")).decide()
    scene.submit(a_job("other", 4, seconds=1e5, queue="b")).decide()
    scene.submit(a_job("next", 4, seconds=10.0, queue="a")).decide()
    scene.expect("next", waits_because(ReasonCode.QUOTA_LIMIT))
    assert scene.all(Preempt) == []


@pytest.mark.parametrize("guaranteed", [None, 8], ids=["undivided", "divided"])
def test_preemption_inside_a_full_queue_respects_the_least_run_time(guaranteed: int | None) -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(srtf(min_run=900.0, spacing=1.0))
    scene.with_queues(a_queue("default", guaranteed, 8))
    scene.submit(a_job("long", 8, seconds=1e4)).decide()
    scene.submit(a_job("short", 8, seconds=10.0)).wait(10.0).expect("long", runs)


def test_a_released_seat_counts_until_the_world_says_it_is_free() -> None:
    scene = tenants(a_queue("a", limit=4), recipe=EAGER, gpus=16).submit(
        a_job("long", 4, seconds=1e4, queue="a")
    )
    scene.decide().stay_silent().submit(a_job("short", 4, seconds=10.0, queue="a")).decide()
    scene.expect("short", is_now(State.ADMITTED), also_waits_because(ReasonCode.CAPACITY_RELEASING))
    scene.done("long", Verb.PREEMPT, kept=0.0).expect("short", is_now(State.STARTING))


def test_the_same_where_the_seats_themselves_are_free() -> None:
    cluster = a_cluster(a_node("n0", 8), a_node("n1", 4))
    scene = given(cluster).with_recipe(EAGER).with_queues(a_queue("a", limit=8))
    scene.submit(a_job("long", 8, seconds=1e4, queue="a")).decide().stay_silent()
    scene.submit(a_job("short", 4, seconds=10.0, queue="a")).decide()
    assert scene.nodes("short") == {"n1": 4}
    scene.expect("short", is_now(State.ADMITTED)).done("long", Verb.PREEMPT, kept=0.0)
    scene.expect("short", is_now(State.STARTING))


# --- guarantees ---------------------------------------------------------------------------------


def test_what_is_not_used_may_be_borrowed() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4)).submit(*jobs(8, "b", queue="b")).decide()
    assert held(scene, "b") == 8


def test_a_queue_without_leave_to_borrow_stays_within_its_guarantee() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4, borrowing=False))
    scene.submit(*jobs(8, "b", queue="b")).decide()
    assert held(scene, "b") == 4
    scene.expect("b4", waits_because(ReasonCode.QUOTA_LIMIT, used=4, limit=4))


def test_a_guarantee_is_back_within_one_round_whatever_others_have_borrowed() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4)).submit(*jobs(8, "b", queue="b")).decide()
    scene.submit(a_job("mine", 4, queue="a")).decide()
    scene.expect("mine", runs)
    assert {preempt.beneficiary for preempt in scene.all(Preempt)} == {"mine"}
    assert (held(scene, "a"), held(scene, "b")) == (4, 4)
    assert sorted(preempt.job for preempt in scene.all(Preempt)) == ["b4", "b5", "b6", "b7"]


def test_no_more_is_reclaimed_than_was_lent() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4)).submit(*jobs(8, "b", queue="b")).decide()
    scene.submit(*jobs(6, "a", queue="a")).decide()
    assert (held(scene, "a"), held(scene, "b")) == (4, 4)
    scene.expect("a4", is_now(State.QUEUED)).decide()
    assert len(scene.all(Preempt)) == 4, "nothing swings back and forth"


def test_a_lender_is_not_taken_below_its_guarantee_where_others_have_borrowed_enough() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4), a_queue("c", 0), gpus=12)
    scene.submit(*jobs(7, "c", queue="c")).decide().submit(*jobs(5, "b", queue="b")).decide()
    scene.submit(a_job("claim", 4, queue="a")).decide().expect("claim", runs)
    assert (held(scene, "b"), held(scene, "c")) == (4, 4)


def test_a_job_whose_seats_would_not_serve_the_claim_shields_nobody() -> None:
    nodes = a_node("old", 4, type="v100"), a_node("new", 4, type="a100")
    scene = given(a_cluster(*nodes)).with_queues(a_queue("a", 4), a_queue("b", 4))
    scene.with_recipe(backfill()).submit(a_job("better", 4, queue="b", types=[("a100", 1.0)]))
    scene.decide().submit(a_job("worse", 4, queue="b", types=[("v100", 1.0)])).decide()
    scene.submit(a_job("claim", queue="a", types=[("a100", 1.0)])).decide()
    scene.expect("better", yields_to("claim")).expect("claim", runs).expect("worse", runs)


def test_reclaiming_asks_for_no_least_run_time_and_no_rank() -> None:
    recipe = srtf(min_run=900.0, spacing=1.0)
    scene = tenants(a_queue("a", 8), a_queue("b", 0), recipe=recipe)
    scene.submit(a_job("short", 8, seconds=1.0, queue="b")).decide()
    scene.submit(a_job("long", 8, seconds=1e6, queue="a")).decide()
    scene.expect("short", yields_to("long")).expect("long", runs)


def test_what_was_lent_is_reclaimed_from_one_that_has_not_saved_too() -> None:
    scene = tenants(a_queue("a", 8), a_queue("b", 0))
    scene.submit(a_job("unsaved", 8, queue="b", yields=False)).decide()
    scene.submit(a_job("mine", 8, queue="a")).decide()
    scene.expect("unsaved", yields_to("mine")).expect("mine", runs)


def test_what_was_promised_twice_is_not_reclaimed_from_those_within_their_guarantee() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4), gpus=6)
    scene.submit(*jobs(4, "b", queue="b")).decide().submit(a_job("mine", 4, queue="a")).decide()
    scene.expect("mine", waits_because(ReasonCode.CAPACITY_BUSY, free=2, need=4))
    assert scene.all(Preempt) == []


def test_a_job_that_would_borrow_reclaims_nothing() -> None:
    scene = tenants(a_queue("a", 2), a_queue("b", 2)).submit(*jobs(8, "b", queue="b")).decide()
    scene.submit(a_job("wide", 4, queue="a")).decide()
    scene.expect("wide", waits_because(ReasonCode.CAPACITY_BUSY, need=4))
    assert scene.all(Preempt) == []


def test_a_sibling_within_its_guarantee_is_safe_from_better_ranks() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4), recipe=EAGER)
    scene.submit(a_job("theirs", 4, seconds=1e5, queue="b"), a_job("mine", 4, queue="a")).decide()
    scene.submit(a_job("short", 4, seconds=1.0, queue="a")).decide()
    scene.expect("theirs", runs, is_never_preempted).expect("mine", yields_to("short"))


def test_a_sibling_that_borrows_yields_to_a_better_rank() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 0), a_queue("c", 0), recipe=EAGER)
    scene.submit(a_job("lent", 4, seconds=1e5, queue="b"), a_job("a", 4, queue="a")).decide()
    scene.submit(a_job("short", 4, seconds=1.0, queue="c")).decide()
    scene.expect("lent", yields_to("short"))


def test_the_limit_of_a_parent_does_not_cost_a_sibling_its_guarantee() -> None:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(EAGER)
    scene.with_queues(a_queue("p", 8, 8), a_queue("a", 4, parent="p"), a_queue("b", 4, parent="p"))
    scene.submit(a_job("theirs", 4, seconds=1e4, queue="b"), a_job("mine", 4, queue="a")).decide()
    scene.submit(a_job("short", 4, seconds=1.0, queue="a")).decide()
    scene.expect("theirs", runs, is_never_preempted)


def test_inside_an_organisation_teams_reclaim_from_teams() -> None:
    scene = tenants(a_queue("org", 8), a_queue("a", 4, parent="org"), a_queue("b", 4, parent="org"))
    scene.submit(*jobs(8, "b", queue="b")).decide().submit(*jobs(4, "a", queue="a")).decide()
    assert (held(scene, "a"), held(scene, "b"), held(scene, "org")) == (4, 4, 8)


def test_what_another_organisation_lent_goes_back_before_what_a_team_is_owed() -> None:
    scene = tenants(
        a_queue("x", 4), a_queue("y", 4), a_queue("y1", 4, parent="y"), a_queue("y2", 0, parent="y")
    )
    scene.submit(*jobs(8, "y1-", queue="y1")).decide()
    scene.submit(a_job("x", 4, queue="x"), a_job("y2", 1, queue="y2")).decide()
    scene.expect("x", runs).expect("y2", is_now(State.QUEUED))
    assert (held(scene, "x"), held(scene, "y")) == (4, 4)


# --- jobs that may not be preempted -------------------------------------------------------------


def test_a_firm_job_fits_only_into_what_is_guaranteed() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4))
    scene.submit(*jobs(2, "firm", 3, queue="a", preemptible=False)).decide()
    scene.expect("firm0", runs)
    scene.expect("firm1", waits_because(ReasonCode.QUOTA_FIRM, queue="a", used=3, limit=4, need=3))
    assert scene.reasons("firm1")[0].remedy == "make the job preemptible, or raise the guarantee"


def test_a_firm_job_wider_than_every_guarantee_never_starts() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4))
    scene.submit(a_job("firm", 5, queue="a", preemptible=False)).decide()
    scene.expect("firm", waits_because(ReasonCode.QUOTA_NEVER, need=5, limit=4))


def test_a_firm_job_is_told_the_lower_of_limit_and_guarantee() -> None:
    scene = tenants(a_queue("a", 8, limit=4)).submit(a_job("firm", 6, queue="a", preemptible=False))
    scene.decide().expect("firm", waits_because(ReasonCode.QUOTA_NEVER, need=6, limit=4))


def test_where_nothing_is_guaranteed_firm_jobs_are_like_others() -> None:
    scene = tenants(a_queue("a"), a_queue("b")).submit(
        a_job("firm", 8, queue="a", preemptible=False)
    )
    scene.decide().expect("firm", runs)


def test_a_firm_job_is_not_reclaimed() -> None:
    scene = tenants(a_queue("a", 4), a_queue("b", 4))
    scene.submit(a_job("firm", 4, queue="b", preemptible=False), *jobs(4, "b", queue="b")).decide()
    scene.submit(a_job("mine", 4, queue="a")).decide()
    scene.expect("mine", runs).expect("firm", runs)


# --- edits --------------------------------------------------------------------------------------


def test_a_job_waits_for_its_queue_to_exist() -> None:
    scene = tenants(a_queue("a")).submit(a_job("early", queue="new"))
    scene.expect("early", waits_because(ReasonCode.CONSTRAINT_QUEUE, queue="new", need=1))
    scene.submit(a_job("other", queue="a")).decide()
    scene.expect("other", runs).expect("early", waits_because(ReasonCode.CONSTRAINT_QUEUE))
    scene.edit(a_queue("new")).expect("early", waits_because(ReasonCode.ROUND_PENDING))
    scene.decide().expect("early", runs)


def test_raising_a_limit_lets_the_next_job_in() -> None:
    scene = tenants(a_queue("a", limit=4)).submit(*jobs(8, "a", queue="a")).decide()
    scene.edit(a_queue("a", limit=6)).decide()
    assert held(scene, "a") == 6


def test_lowering_a_limit_stops_nobody_and_admits_nobody() -> None:
    scene = tenants(a_queue("a", limit=6)).submit(*jobs(8, "a", queue="a")).decide()
    scene.edit(a_queue("a", limit=2)).decide()
    assert held(scene, "a") == 6
    scene.finish("a0", "a1", "a2").decide()
    assert held(scene, "a") == 3
    scene.expect("a6", waits_because(ReasonCode.QUOTA_LIMIT, used=3, limit=2))


def test_an_edit_withdraws_pledges_made_under_the_old_rules() -> None:
    scene = tenants(a_queue("a"), recipe=EAGER).submit(a_job("long", 8, seconds=1e4, queue="a"))
    scene.decide().stay_silent().submit(a_job("short", 8, seconds=1.0, queue="a")).decide()
    scene.expect("short", is_now(State.ADMITTED))
    scene.edit(a_queue("a", limit=4)).expect("short", is_now(State.QUEUED))
    scene.done("long", Verb.PREEMPT, kept=0.0).decide()
    scene.expect("short", waits_because(ReasonCode.QUOTA_NEVER, limit=4))


def test_a_job_without_gpus_is_no_matter_of_a_limit_on_gpus() -> None:
    scene = tenants(a_queue("a", limit=8)).submit(a_job("gpu", 8, queue="a")).decide()
    scene.edit(a_queue("a", limit=4)).submit(a_job("cpu", 0, cpus=1.0, queue="a")).decide()
    scene.expect("cpu", runs)


# --- order inside a divided tree ----------------------------------------------------------------


def test_strict_order_holds_inside_a_queue_that_has_guarantees() -> None:
    scene = tenants(a_queue("a", 8), a_queue("b", 0), recipe=fifo())
    scene.submit(a_job("first", 4, queue="a")).decide()
    scene.submit(a_job("head", 8, queue="a"), a_job("small", 1, queue="a")).decide()
    scene.expect("head", is_now(State.QUEUED)).expect("small", is_now(State.QUEUED))


def test_strict_order_holds_where_a_queue_is_at_its_limit() -> None:
    scene = tenants(a_queue("a", limit=4), a_queue("b"), recipe=fifo())
    scene.submit(a_job("first", 2, queue="a")).decide()
    scene.submit(a_job("head", 4, queue="a"), a_job("small", 1, queue="a")).decide()
    scene.expect("head", waits_because(ReasonCode.QUOTA_LIMIT, used=2, limit=4, need=4))
    scene.expect("small", waits_because(ReasonCode.PRIORITY_BEHIND))
    scene.submit(a_job("other", 1, queue="b")).decide().expect("other", runs)
    scene.finish("first").decide().expect("head", runs).expect("small", is_now(State.QUEUED))


def test_strict_order_is_not_held_up_by_what_can_never_start() -> None:
    scene = tenants(a_queue("a", limit=4), recipe=fifo())
    scene.submit(a_job("wide", 5, queue="a"), a_job("small", 1, queue="a")).decide()
    scene.expect("small", runs)
