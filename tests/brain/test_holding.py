"""A large gang that failed finds its seats again: nobody else is given them for ten minutes."""

from typing import Any

import pytest

from tests.brain.failing import kernel
from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    given,
    is_never_preempted,
    is_now,
    runs,
    waits_because,
)
from weft.model.ids import JobId
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipes import RECIPES

HOUR = 3600.0
LARGE = {"keep_seats_gpus": 8}


def a_full_cluster(recipe: str = "backfill", **settings: Any) -> Scene:
    """A gang on two of three nodes, a job on the third, and one that waits for a node."""
    scene = given(a_cluster(nodes=3, gpus=4)).with_settings(**{**LARGE, **settings})
    scene.with_recipe(RECIPES[recipe]())
    scene.submit(a_job("gang", 8), a_job("beside", 4, seconds=10 * HOUR)).decide()
    return scene.submit(a_job("next", 4)).decide()


def kept(scene: Scene) -> bool:
    return bool(scene.brain.state.failures.holds)


def test_it_starts_again_where_it_was_and_nobody_has_to_leave() -> None:
    scene = a_full_cluster()
    before = scene.nodes("gang")
    scene.fail("gang").wait(30.0).expect("next", waits_because(ReasonCode.RESERVED))
    scene.wait(35.0).expect("gang", runs).expect("next", is_now(State.QUEUED))
    assert scene.nodes("gang") == before
    assert not kept(scene)


def test_a_small_gang_keeps_nothing() -> None:
    scene = a_full_cluster(keep_seats_gpus=9).fail("gang").wait(30.0)
    scene.expect("next", runs).expect("gang", is_now(State.QUEUED))


def test_nothing_is_kept_where_the_world_says_so() -> None:
    a_full_cluster(keep_seats_seconds=0.0).fail("gang").wait(30.0).expect("next", runs)


def test_why_names_it_on_both_sides() -> None:
    scene = a_full_cluster().fail("gang").wait(10.0)
    kept_from = waits_because(ReasonCode.RESERVED, free=8, reserved=8, holder="gang", need=4)
    scene.expect("next", kept_from)
    scene.expect("gang", waits_because(ReasonCode.BACKOFF_RETRY))
    first, *others = scene.reasons("gang")
    assert "8 GPUs that it had are kept for it for" in first.text
    assert not others, "with what is kept for it, nothing else is in its way"


def test_after_a_while_they_are_anybodys() -> None:
    """One of its nodes is lost, and what it has left is not enough."""
    scene = a_full_cluster()
    lost = next(iter(scene.nodes("gang")))
    scene.lose(lost).wait(590.0).expect("next", is_now(State.QUEUED))
    scene.wait(20.0).expect("next", runs).expect("gang", is_now(State.QUEUED))
    assert not kept(scene)


def test_who_rests_for_longer_keeps_nothing() -> None:
    scene = a_full_cluster(backoff_seconds=900.0).fail("gang").wait(5.0)
    scene.expect("next", runs)


def test_a_gang_that_is_cancelled_leaves_them_at_once() -> None:
    scene = a_full_cluster().fail("gang").wait(10.0).cancel("gang").wait(5.0)
    scene.expect("next", runs)


def test_a_node_that_failed_it_is_not_kept() -> None:
    """It needs another one in its place, and takes that when there is one."""
    scene = given(a_cluster(nodes=3, gpus=4)).with_settings(**LARGE)
    scene.submit(a_job("gang", 8), a_job("beside", 4)).decide()
    bad = next(iter(scene.nodes("gang")))
    scene.fail("gang", found=kernel(bad)).submit(a_job("next", 4)).wait(30.0)
    scene.expect("next", is_now(State.QUEUED))
    scene.finish("beside").wait(30.0).expect("gang", runs)
    assert bad not in scene.nodes("gang")


def test_of_what_is_lent_nothing_is_kept() -> None:
    """Its queue owns four of the eight GPUs that it had: another's guarantee goes before it."""
    scene = given(a_cluster(nodes=2, gpus=4)).with_settings(**LARGE)
    scene.with_queues(a_queue("mine", guaranteed=4), a_queue("theirs", guaranteed=4))
    scene.submit(a_job("gang", 8, queue="mine")).decide().expect("gang", runs)
    scene.fail("gang").submit(a_job("claim", 4, queue="theirs")).wait(10.0)
    scene.expect("claim", runs)


def test_within_a_guarantee_it_is_kept_from_whoever_borrows() -> None:
    scene = given(a_cluster(nodes=3, gpus=4)).with_settings(**LARGE)
    scene.with_queues(a_queue("mine", guaranteed=8), a_queue("theirs", guaranteed=4))
    scene.submit(a_job("gang", 8, queue="mine")).decide()
    scene.submit(*(a_job(f"claim{n}", 4, queue="theirs") for n in range(2))).decide()
    scene.fail("gang").wait(10.0)
    assert {scene.state("claim0"), scene.state("claim1")} == {State.RUNNING, State.QUEUED}
    scene.wait(60.0).expect("gang", runs)
    scene.expect("claim0", is_never_preempted).expect("claim1", is_never_preempted)


@pytest.mark.parametrize("recipe", ["fifo", "backfill", "las", "srtf", "maxmin"])
def test_it_comes_back_under_every_kind_of_recipe(recipe: str) -> None:
    scene = a_full_cluster(recipe).expect("gang", runs)
    before = scene.nodes("gang")
    scene.fail("gang", kept=10.0).wait(200.0).expect("gang", runs)
    assert scene.nodes("gang") == before


def test_two_that_failed_together_each_find_their_own() -> None:
    """They are alike but for their names: what fails for one need not fail for the other."""
    scene = given(a_cluster(nodes=4, gpus=4)).with_settings(**LARGE)
    scene.submit(a_job("a", 8), a_job("b", 8)).decide()
    before = {name: scene.nodes(name) for name in "ab"}
    scene.fail("a").fail("b").submit(a_job("next", 1)).wait(90.0)
    assert {name: scene.nodes(name) for name in "ab"} == before
    scene.expect("next", is_now(State.QUEUED))


def test_what_it_does_not_need_any_more_is_given_on() -> None:
    """Another node took its place in the gang, so one of those kept is free in the same round."""
    scene = given(a_cluster(a_node("n0", 4), a_node("n1", 4), a_node("n2", 8)))
    scene.with_settings(**LARGE)
    scene.submit(a_job("wide", 8), a_job("gang", 8, max_nodes=2)).decide()
    assert scene.nodes("gang").keys() == {"n0", "n1"}
    scene.submit(a_job("next", 4)).decide()
    scene.fail("gang").wait(10.0).finish("wide").wait(60.0)
    scene.expect("gang", runs).expect("next", runs)


def test_a_copy_keeps_its_own() -> None:
    scene = a_full_cluster().fail("gang")
    twin = scene.brain.copied()
    scene.cancel("gang")
    assert twin.state.failures.holds
    assert not scene.brain.state.failures.holds
    assert JobId("gang") in twin.state.slot_of
