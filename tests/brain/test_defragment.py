"""Defragmentation: small jobs move together for a gang that would fit but for where they sit."""

from typing import Any

import pytest

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
from weft.brain.event import Verb
from weft.model.job import Job
from weft.model.reason import ReasonCode
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.recipes import RECIPES

HOUR = 3600.0
DAY = 24 * HOUR


def scattered(*, defragment: bool = True, recipe: str = "backfill", **fields: Any) -> Scene:
    """Two nodes of four GPUs and a small job on each: four GPUs are free, in two places."""
    scene = given(a_cluster(nodes=2, gpus=4))
    scene.with_recipe(RECIPES[recipe](defragment=defragment, reserve=False))
    long = {"seconds": 10 * DAY, **fields}
    scene.submit(a_job("a", 1, **long), a_job("fill", 3)).decide()
    scene.submit(a_job("b", 2, **long)).decide()
    assert scene.nodes("a") != scene.nodes("b")
    return scene.finish("fill").wait(10.0)


def a_gang() -> Job:
    return a_job("gang", 4, max_nodes=1)


def test_a_gang_gets_a_node_once_its_wait_has_cost_what_the_move_would() -> None:
    scene = scattered().submit(a_gang()).wait(60.0)
    scene.expect("gang", waits_because(ReasonCode.FRAGMENTED, free=5, need=4))
    scene.wait(HOUR)
    scene.expect("gang", runs).expect("a", runs).expect("b", runs)
    assert scene.nodes("a").keys() == scene.nodes("b").keys() != scene.nodes("gang").keys()


def test_the_one_moves_that_loses_less() -> None:
    scene = scattered().submit(a_gang()).wait(2 * HOUR)
    scene.expect("b", is_never_preempted)


def test_nobody_moves_unless_the_recipe_says_so() -> None:
    scene = scattered(defragment=False).submit(a_gang()).wait(DAY / 2)
    scene.expect("gang", is_now(State.QUEUED)).expect("a", is_never_preempted)


def test_nobody_moves_within_an_hour_of_its_start() -> None:
    scene = scattered().submit(a_gang()).wait(HOUR - 120.0)
    scene.expect("gang", is_now(State.QUEUED)).expect("a", is_never_preempted)


@pytest.mark.parametrize(
    "fields",
    [
        {"preemptible": False},
        {"saves_on_demand": False, "checkpoint_interval_seconds": float("inf")},
    ],
    ids=["firm", "never saves"],
)
def test_who_would_lose_too_much_stays(fields: dict[str, Any]) -> None:
    scene = scattered(**fields).submit(a_gang()).wait(DAY / 2)
    scene.expect("gang", is_now(State.QUEUED)).expect("a", is_never_preempted)


def test_nobody_moves_for_a_gang_that_its_queue_does_not_let_in() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).with_queues(a_queue("a"), a_queue("b", limit=4))
    scene.with_recipe(RECIPES["backfill"](defragment=True))
    scene.submit(a_job("x", 1, queue="a", seconds=DAY), a_job("fill", 3, queue="a")).decide()
    scene.submit(a_job("y", 2, queue="b", seconds=DAY)).decide().finish("fill")
    scene.submit(a_job("gang", 4, max_nodes=1, queue="b")).wait(3 * HOUR)
    scene.expect("gang", waits_because(ReasonCode.QUOTA_LIMIT)).expect("x", is_never_preempted)


def test_a_gang_of_several_nodes_gets_whole_ones() -> None:
    scene = given(a_cluster(nodes=4, gpus=4))
    scene.with_recipe(RECIPES["backfill"](defragment=True, reserve=False))
    for name in "abcd":
        scene.submit(a_job(name, 1, seconds=DAY), a_job(f"{name}-fill", 3)).decide()
    scene.finish(*(f"{name}-fill" for name in "abcd"))
    scene.submit(a_job("gang", 12, max_nodes=3)).wait(2 * HOUR)
    scene.expect("gang", runs)
    assert sorted(scene.nodes("gang").values()) == [4, 4, 4]
    assert all(scene.state(name) is State.RUNNING for name in "abcd")


def test_others_do_not_take_what_is_kept_for_those_who_move() -> None:
    scene = scattered().submit(a_gang()).wait(HOUR - 120.0).stay_silent()
    while scene.state("gang") is State.QUEUED:
        scene.decide()
    scene.submit(a_job("late", 2)).decide()
    scene.expect("late", is_now(State.QUEUED)).expect("gang", is_now(State.ADMITTED))
    scene.answer_again().done("a", Verb.PREEMPT)
    scene.expect("gang", runs).expect("a", runs)


def test_a_gang_that_waits_for_closer_seats_gets_them() -> None:
    scene = scattered().submit(a_job("gang", 4, locality=Locality(), seconds=20 * DAY)).wait(1.0)
    scene.expect("gang", waits_because(ReasonCode.LOCALITY_WAIT, nodes=2, fewest=1))
    scene.wait(2 * HOUR).expect("gang", runs)
    assert len(scene.nodes("gang")) == 1


def test_a_gang_never_gets_nodes_of_two_pools() -> None:
    nodes = [a_node(f"{pool}{row}", 4, pool=pool) for pool in "xy" for row in range(2)]
    scene = given(a_cluster(*nodes))
    scene.with_recipe(RECIPES["backfill"](defragment=True, reserve=False))
    for name in "abcd":
        scene.submit(a_job(name, 1, seconds=DAY), a_job(f"{name}-fill", 3)).decide()
    scene.finish(*(f"{name}-fill" for name in "abcd"))
    scene.submit(a_job("gang", 8)).wait(4 * HOUR)
    assert len({node[0] for node in scene.nodes("gang")}) == 1
