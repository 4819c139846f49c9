"""Jobs that are spread and move together, jobs that begin snugly, and growth that stays near."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.builders import (
    Scene,
    a_cluster,
    a_job,
    a_node,
    a_queue,
    given,
    is_now,
    runs,
    yields_to,
)
from weft.brain.event import Verb
from weft.brain.instruction import Preempt, Resize, Start
from weft.brain.round.one_node import one_node_width
from weft.brain.round.session import Session
from weft.brain.state.measured_cost import MeasuredCost
from weft.model.cluster import Node
from weft.model.curve import Curve
from weft.model.ids import NodeId
from weft.model.job import Job
from weft.model.request import Locality
from weft.model.state import State
from weft.policy.place.packing import Offer
from weft.policy.place.patience import Patience
from weft.policy.recipe import Recipe, Resizing
from weft.policy.recipes import RECIPES, afs_l

SLOWER_APART = Locality(per_node_doubling=0.15, per_rack_doubling=0.0)
SATURATED = Curve(((1, 1.0), (2, 1.9), (4, 2.0)))


def recipe(**resizing: Any) -> Recipe:
    """Weave of any width, among jobs that nobody preempts and that wait for no better place."""
    made = RECIPES["weave"](hold=0.0, spacing=1.0, packed=False)
    assert made.resizing is not None
    changed = replace(made.resizing, **resizing)
    return replace(made, yielding=None, patience=Patience(0.0), resizing=changed)


def two_halves(made: Recipe | None = None) -> Scene:
    """Two nodes of four GPUs; "near" has half of n0 and "far" half of n1."""
    scene = given(a_cluster(nodes=2, gpus=4)).with_recipe(made or recipe())
    for job in ("near", "gone", "far"):
        scene.submit(a_job(job, 2, seconds=1e6)).decide()
    scene.finish("gone").decide()
    assert (scene.nodes("near"), scene.nodes("far")) == ({"n0": 2}, {"n1": 2})
    return scene


def spread(made: Recipe | None = None, *, seconds: float = 3600.0, **fields: Any) -> Scene:
    """And a job of four GPUs over both, for longer than a minute."""
    scene = two_halves(made)
    told = {"seconds": seconds, "locality": SLOWER_APART, "saves_on_demand": True}
    wide = a_job("wide", 4, **{**told, **fields})
    scene.submit(wide).decide().expect("wide", runs)
    assert scene.nodes("wide") == {"n0": 2, "n1": 2}
    return scene.wait(100.0)


# --- moving together ------------------------------------------------------------------------------


def test_a_job_moves_together_when_a_node_has_room() -> None:
    scene = spread().finish("near").decide().expect("wide", runs, yields_to("wide"))
    assert scene.nodes("wide") == {"n0": 4}
    assert (len(scene.all(Preempt)), len(scene.all(Start, "wide"))) == (1, 2)
    scene.wait(600.0)
    assert len(scene.all(Preempt)) == 1, "once"


def test_nobody_takes_its_next_place_while_it_leaves_the_old_one() -> None:
    scene = spread().stay_silent().finish("near").decide()
    scene.expect("wide", is_now(State.STOPPING))
    scene.submit(a_job("thief", 2)).decide().done("wide", Verb.PREEMPT, kept=90.0)
    assert scene.nodes("wide") == {"n0": 4}


def leaving(**fields: Any) -> Scene:
    """The wide job stops in order to start on n2, which is empty; both its nodes stay busy."""
    scene = spread(**fields).stay_silent().add(a_node("n2", 4, cpus=16.0, memory_gib=64.0)).decide()
    scene.expect("wide", is_now(State.STOPPING))
    (there,) = scene.brain.state.next_assignment.values()
    assert there.placement.nodes == ("n2",)
    return scene


def arrived(scene: Scene) -> Scene:
    return scene.done("wide", Verb.PREEMPT, kept=90.0)


def test_a_job_that_stops_in_order_to_move_starts_there() -> None:
    scene = arrived(leaving()).expect("wide", is_now(State.STARTING))
    assert scene.nodes("wide") == {"n2": 4}


@pytest.mark.parametrize(
    "happens",
    [
        lambda scene: scene.lose("n2"),
        lambda scene: scene.change(a_node("n2", 4, cordoned=True)),
        lambda scene: scene.change(a_node("n2", 3)),
    ],
    ids=["lost", "cordoned", "shrunk"],
)
def test_a_job_does_not_wait_for_ever_for_a_place_that_is_gone(
    happens: Callable[[Scene], Scene],
) -> None:
    scene = arrived(happens(leaving())).expect("wide", is_now(State.QUEUED))
    scene.finish("near", "far").decide()
    scene.expect("wide", is_now(State.STARTING))
    assert "n2" not in scene.nodes("wide")


def test_a_job_does_not_move_to_where_the_cores_have_gone() -> None:
    scene = leaving(cpus_per_gpu=4.0)
    small = Node(id=NodeId("n2"), gpus=4, cpus=15.0, memory_gib=64.0)
    scene.brain.state.put_node(small)  # as if the change had gone unnoticed
    arrived(scene).expect("wide", is_now(State.QUEUED))


def test_a_job_does_not_move_past_its_quota() -> None:
    scene = leaving().edit(a_queue("default", limit=7))
    arrived(scene).expect("wide", is_now(State.QUEUED))
    scene.edit(a_queue("default", limit=8)).decide().expect("wide", is_now(State.STARTING))


def test_whose_end_nobody_knows_has_as_much_before_it_as_behind_it() -> None:
    scene = spread(tell_work=False).wait(36_000.0).finish("near").decide()
    assert scene.nodes("wide") == {"n0": 4}


@pytest.mark.parametrize(("left", "moves"), [(71.0, True), (62.0, False)])
def test_it_moves_where_that_saves_twice_what_it_costs(left: float, moves: bool) -> None:
    """5 s is the least that it is believed to cost; 15 % of what is left are to be saved."""
    done = 101.0 / 1.15
    scene = spread(seconds=done + left).finish("near").decide()
    assert scene.nodes("wide") == ({"n0": 4} if moves else {"n0": 2, "n1": 2})


def test_a_restart_costs_what_it_was_measured_to_cost() -> None:
    for cost, moves in ((200.0, True), (300.0, False)):
        scene = spread(seconds=3600.0)
        scene.brain.state.start_cost = MeasuredCost(0.75 * cost, 9)
        scene.brain.state.stop_cost = MeasuredCost(0.25 * cost, 9)
        scene.finish("near").decide()
        assert (scene.nodes("wide") == {"n0": 4}) == moves, cost


@pytest.mark.parametrize(("every", "moves"), [(100.0, True), (2000.0, False), (0.0, False)])
def test_what_it_has_not_saved_is_part_of_the_price(every: float, moves: bool) -> None:
    """195 s are saved; twice the 101 s that it has trained are more, twice 50 s are not."""
    unsaved: dict[str, Any] = {"saves_on_demand": False, "checkpoint_interval_seconds": every}
    scene = spread(seconds=101.0 / 1.15 + 1300.0, **unsaved).finish("near").decide()
    assert (scene.nodes("wide") == {"n0": 4}) == moves
    saving = spread(seconds=101.0 / 1.15 + 1300.0, **{**unsaved, "saves_on_demand": True})
    assert saving.finish("near").decide().nodes("wide") == {"n0": 4}, "it loses nothing"


def test_a_job_that_may_not_be_stopped_is_never_moved() -> None:
    scene = spread(preemptible=False).finish("near").decide().wait(3000.0)
    assert scene.nodes("wide") == {"n0": 2, "n1": 2}
    assert not scene.all(Preempt)


def test_a_job_that_does_not_mind_is_not_moved() -> None:
    scene = spread(locality=Locality(0.0, 0.0)).finish("near").decide().wait(600.0)
    assert not scene.all(Preempt)


def test_nobody_is_moved_unless_the_recipe_says_so() -> None:
    scene = spread(recipe(restarts=False)).finish("near").decide().wait(600.0)
    assert not scene.all(Preempt)


def test_nobody_is_moved_without_room() -> None:
    scene = spread().submit(a_job("other", 1)).decide().wait(600.0)
    assert scene.nodes("wide") == {"n0": 2, "n1": 2}


def test_a_job_that_has_just_started_is_left_alone() -> None:
    scene = two_halves().submit(a_job("wide", 4, locality=SLOWER_APART)).decide()
    scene.tick(50.0).finish("near").decide()
    assert not scene.all(Preempt)
    scene.tick(20.0).submit(a_job("host", 0, cpus=1.0)).decide()
    assert scene.nodes("wide") == {"n0": 4}


def test_a_job_that_needs_several_nodes_is_not_spread() -> None:
    scene = given(a_cluster(nodes=2, gpus=4)).with_recipe(recipe())
    scene.submit(a_job("gang", 8, locality=SLOWER_APART)).decide().wait(100.0)
    scene.submit(a_job("other", 1)).decide()
    assert scene.nodes("gang") == {"n0": 4, "n1": 4}
    assert not scene.all(Preempt)


def test_a_live_job_that_has_been_shrunk_apart_moves_as_well() -> None:
    scene = two_halves()
    scene.submit(a_job("wide", 4, width=(3, 4), seconds=1e5, locality=SLOWER_APART)).decide().live(
        "wide"
    )
    scene.wait(100.0).finish("near").decide().wait(100.0).expect("wide", runs)
    assert scene.nodes("wide") == {"n0": 4}


# --- beginning snugly -----------------------------------------------------------------------------


def begun(job: Job, made: Recipe | None = None) -> dict[str, int]:
    return two_halves(made).submit(job).decide().nodes("wide")


def elastic(curve: Curve | None = None, **fields: Any) -> Job:
    return a_job("wide", 4, width=(1, 4), **{"curve": curve, "locality": SLOWER_APART, **fields})


def test_a_job_rather_begins_narrower_than_spread() -> None:
    assert len(begun(elastic(SATURATED))) == 1
    assert begun(elastic(SATURATED)) in ({"n0": 2}, {"n1": 2})


def test_a_job_that_is_much_faster_spread_begins_so() -> None:
    assert begun(elastic()) == {"n0": 2, "n1": 2}


def test_only_where_the_recipe_is_compact() -> None:
    assert begun(elastic(SATURATED), recipe(compact=False)) == {"n0": 2, "n1": 2}


def test_a_job_that_may_have_one_node_only_begins_as_wide_as_one_allows() -> None:
    assert begun(elastic(max_nodes=1)) in ({"n0": 2}, {"n1": 2})


def test_a_job_that_does_not_mind_begins_as_wide_as_it_may() -> None:
    assert begun(elastic(SATURATED, locality=Locality(0.0, 0.0))) == {"n0": 2, "n1": 2}


def on_one_node(
    free: int, *, width: int, least: int = 1, grain: int = 1, curve: Curve | None = None,
    slowdown: float | None = 1.15,
) -> int | None:  # fmt: skip
    """The on_one_node width with so much free on the better one of two nodes of eight."""
    made = recipe(grain_gpus=grain)
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(made)
    for taken in (8 - free, 8):
        scene.submit(a_job(f"taken{taken}", taken)).decide()
    scene.stay_silent().submit(a_job("job", 8, width=(least, 8), curve=curve))
    brain = scene.brain
    slot = brain.state.slot_of["job"]  # type: ignore[index]
    offer = None if slowdown is None else Offer(((0, 1),), 1, slowdown, 1.0)
    return one_node_width(
        Session(brain.state, scene.now, made), slot, offer, width=width, least=least
    )


def test_a_snug_width_is_what_one_node_has() -> None:
    assert on_one_node(3, width=8, slowdown=None) == 3
    assert on_one_node(7, width=5, slowdown=None) == 4, "narrower than asked for"
    assert on_one_node(3, width=8, least=3, slowdown=None) == 3
    assert on_one_node(3, width=8, least=4, slowdown=None) is None


def test_a_snug_width_comes_in_whole_pieces() -> None:
    assert on_one_node(4, width=8, least=1, grain=2, slowdown=None) == 3
    assert on_one_node(5, width=8, least=2, grain=4, slowdown=None) == 2


def test_nearly_as_fast_is_nine_tenths() -> None:
    """Seven GPUs together against eight that are slowed down."""
    flat = Curve(((1, 1.0), (7, 9.0), (8, 10.0)))
    assert on_one_node(7, width=8, curve=flat, slowdown=1.0) == 7
    assert (
        on_one_node(7, width=8, curve=Curve(((1, 1.0), (7, 8.9), (8, 10.0))), slowdown=1.0) is None
    )
    assert on_one_node(7, width=8, curve=Curve(((1, 1.0), (7, 8.0), (8, 10.0))), slowdown=1.2) == 7


# --- growth that stays near -----------------------------------------------------------------------


def cramped(made: Recipe, per_node: float) -> Scene:
    """A live job with half of n1; half of n0 has become free, and it wants that too."""
    scene = given(a_cluster(nodes=2, gpus=4)).with_recipe(made)
    for job in ("x", "y", "z"):
        scene.submit(a_job(job, 2, seconds=1e6)).decide()
    scene.submit(
        a_job("wide", 4, width=(2, 4), seconds=1e5, locality=Locality(per_node, 0.0))
    ).decide().live("wide")
    assert scene.nodes("wide") == {"n1": 2}
    return scene.finish("x").decide().wait(30.0)


def plain(**resizing: Any) -> Recipe:
    return replace(afs_l(hold=0.0, spacing=1.0), yielding=None, resizing=Resizing(**resizing))


BOTH = {"n1": 2, "n0": 2}


@pytest.mark.parametrize(("per_node", "grows"), [(0.3, True), (0.35, False)])
def test_a_compact_job_does_not_grow_apart_for_less_than_half_of_what_is_promised(
    per_node: float, grows: bool
) -> None:
    """Twice the GPUs promise twice the speed; apart it must be one and a half times as fast."""
    scene = cramped(plain(hold_seconds=0.0, compact=True), per_node)
    assert scene.nodes("wide") == (BOTH if grows else {"n1": 2})
    assert bool(scene.all(Resize)) == grows


def test_a_job_that_is_not_compact_grows_wherever_it_gains() -> None:
    assert cramped(plain(hold_seconds=0.0), 0.35).nodes("wide") == BOTH
    assert cramped(plain(hold_seconds=0.0), 0.999).nodes("wide") == {"n1": 2}


def test_growth_on_its_own_node_is_not_asked_for_more_than_it_gains() -> None:
    """The curve promises little, and all of it is had at once."""
    hardly = Curve(((1, 1.0), (2, 2.0), (4, 2.2)))
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(plain(hold_seconds=0.0, compact=True))
    scene.submit(a_job("x", 2)).decide()
    scene.submit(a_job("wide", 4, width=(2, 4), seconds=1e5, curve=hardly)).decide().live("wide")
    scene.finish("x").decide()
    assert scene.nodes("wide") == {"n0": 4}
    assert np.isclose(scene.brain.state.jobs.speed[1], 1.0)
