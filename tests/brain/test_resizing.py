"""Widths that change while jobs train: who grows, who shrinks, and what every answer leads to."""

from typing import Any

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
    starts_on,
    waits_because,
)
from weft.brain.event import JobMeasured, Phase, Verb
from weft.brain.instruction import Preempt, Probe, Resize, Stop
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.model.reason import ReasonCode
from weft.model.request import Locality
from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State
from weft.policy.recipes import afs_l, maxmin
from weft.policy.supply import Supply

RESIZE = Verb.RESIZE


def a_scene(nodes: int = 1, gpus: int = 4, *, hold: float = 0.0, grain: int = 1) -> Scene:
    recipe = maxmin(hold=hold, grain=grain, spacing=1.0, min_run=0.0)
    return given(a_cluster(nodes=nodes, gpus=gpus)).with_recipe(recipe)


def one_wide(gpus: int = 4, **fields: Any) -> Scene:
    """A job of 1..4 that has the whole node, and can be resized."""
    return a_scene(gpus=gpus).submit(a_job("wide", 4, width=(1, 4), **fields)).decide().live("wide")


def numbers(scene: Scene, job: str) -> set[int]:
    return set(scene.last(Resize, job).assignment.placement.numbers)


def width(scene: Scene, job: str) -> int:
    state = scene.brain.state
    return int(state.jobs.width[state.slot_of[job]])  # type: ignore[index]


def test_a_job_begins_as_wide_as_it_may_in_pieces_of_one_gpu() -> None:
    scene = a_scene().submit(a_job("wide", 4, width=(1, 4))).decide().expect("wide", runs)
    assert width(scene, "wide") == 4
    assert len(scene.brain.state.seating.seat_rows[0]) == 4


def test_it_shrinks_for_a_newcomer_and_grows_when_that_has_gone() -> None:
    scene = one_wide().submit(a_job("other", 2, width=(2, 2), tenant="b")).decide()
    scene.expect("other", runs, starts_on("n0", gpus=(2,)))
    assert width(scene, "wide") == 2
    assert numbers(scene, "wide") == {0, 1}, "the head stays"
    scene.finish("other").decide()
    assert width(scene, "wide") == 4
    assert numbers(scene, "wide") == {0, 1, 4, 5}, "no number is used twice"
    assert not scene.all(Preempt)


def test_the_newcomer_waits_until_the_seats_are_left() -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    scene.expect("wide", is_now(State.RESIZING)).expect("other", is_now(State.ADMITTED))
    scene.expect("other", waits_because(ReasonCode.CAPACITY_RELEASING))
    scene.done("wide", RESIZE, serial=1).expect("wide", runs)
    scene.expect("other", is_now(State.STARTING))


def test_a_job_that_gets_nothing_is_told_of_the_least_that_it_needs() -> None:
    scene = a_scene().submit(a_job("first", 4), a_job("huge", 64, width=(32, 64))).decide()
    scene.expect("huge", waits_because(ReasonCode.CONSTRAINT_NEVER, need=32, largest=4))
    scene.submit(a_job("other", 3, width=(2, 3))).decide()
    scene.expect("other", waits_because(ReasonCode.CAPACITY_BUSY, need=2))


def test_seats_that_are_still_being_left_are_counted_as_they_were_assigned() -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    scene.expect("other", waits_because(ReasonCode.CAPACITY_RELEASING, need=2))


def test_a_shrink_that_is_refused_leaves_everything_as_it_was() -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    scene.refuse("wide", RESIZE, serial=1)
    scene.expect("wide", runs).expect("other", is_now(State.QUEUED))
    assert width(scene, "wide") == 4


def test_a_growth_that_is_refused_gives_its_seats_back() -> None:
    scene = one_wide().submit(a_job("other", 2, tenant="b")).decide().finish("other")
    scene.stay_silent().decide().expect("wide", is_now(State.RESIZING))
    scene.refuse("wide", RESIZE, serial=2).expect("wide", runs)
    assert width(scene, "wide") == 2
    assert scene.brain.state.seating.held_on[0].keys() == set(
        scene.brain.state.seating.seat_rows[0]
    )


def test_an_old_answer_changes_nothing() -> None:
    scene = one_wide().submit(a_job("other", 2, tenant="b")).decide().finish("other")
    scene.stay_silent().decide()
    scene.done("wide", RESIZE, serial=1).expect("wide", is_now(State.RESIZING))
    scene.done("wide", RESIZE, serial=2).expect("wide", runs)
    scene.done("wide", RESIZE, serial=2).expect("wide", runs)


def test_only_who_is_known_to_be_live_is_resized() -> None:
    scene = a_scene().submit(a_job("wide", 4, width=(1, 4))).decide()
    scene.submit(a_job("other", 2, tenant="b")).decide()
    assert not scene.all(Resize)


def test_nobody_shrinks_for_a_job_that_finds_no_place_all_the_same() -> None:
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(2, 4))).decide().live("wide")
    scene.submit(a_job("gang", 3, max_nodes=1, tenant="b")).decide()
    assert not scene.all(Resize)


def test_what_one_tenant_has_too_much_of_goes_to_another_that_runs() -> None:
    scene = a_scene().submit(a_job("first", 4, width=(1, 4), tenant="a")).decide().live("first")
    scene.submit(a_job("second", 4, width=(1, 4), tenant="b")).decide().live("second")
    assert (width(scene, "first"), width(scene, "second")) == (2, 2)


def test_a_job_does_not_grow_again_before_its_time() -> None:
    scene = a_scene(hold=100.0).submit(a_job("other", 2), a_job("wide", 4, width=(1, 4)))
    scene.decide().live("wide").tick(5.0).finish("other").wait(50.0)
    assert width(scene, "wide") == 2
    scene.wait(60.0)
    assert width(scene, "wide") == 4


def beside_others(**fields: Any) -> Scene:
    """x and y on n0; z and a job of 2..4 on n1."""
    scene = a_scene(nodes=2, gpus=4)
    for job in ("x", "y", "z"):
        scene.submit(a_job(job, 2, tenant="b")).decide()
    scene.submit(a_job("wide", 4, width=(2, 4), **fields)).decide().live("wide")
    assert (scene.nodes("wide"), scene.nodes("z")) == ({"n1": 2}, {"n1": 2})
    return scene


def test_growth_stays_on_its_own_nodes_first() -> None:
    scene = beside_others().finish("x", "z").decide()
    assert scene.nodes("wide") == {"n1": 4}


def test_growth_goes_to_other_nodes_where_that_is_worth_it() -> None:
    scene = beside_others().finish("x").decide()
    assert scene.nodes("wide") == {"n1": 2, "n0": 2}


def test_growth_to_other_nodes_waits_for_no_measurement() -> None:
    untold = {"tell_curve": False, "tell_work": False}
    scene = beside_others(**untold).finish("x").decide()
    assert scene.nodes("wide") == {"n1": 2, "n0": 2}


def test_a_recipe_without_curves_does_not_mind_what_was_measured() -> None:
    untold = {"tell_curve": False, "tell_work": False}
    scene = beside_others(**untold)
    for gpus, speed in ((2, 10.0), (4, 9.0)):
        scene.send(
            JobMeasured(
                scene.now,
                JobId("wide"),
                scene.epoch("wide"),
                gpus,
                nodes=1,
                units_per_second=speed,
                seconds=60.0,
                work_done=100.0,
            )
        )
    scene.finish("x").decide()
    assert scene.nodes("wide") == {"n1": 2, "n0": 2}


def test_growth_that_would_make_it_slower_is_left() -> None:
    scene = beside_others(locality=Locality(per_node_doubling=5.0)).finish("x").wait(100.0)
    assert scene.nodes("wide") == {"n1": 2}


def test_a_limit_of_the_queue_bounds_growth() -> None:
    scene = a_scene().with_queues(a_queue("default", limit=3))
    scene.submit(a_job("wide", 4, width=(1, 4))).decide().live("wide").wait(30.0)
    assert width(scene, "wide") <= 3


# --- what the world does by itself


def left_of(scene: Scene, job: str, *kept: int) -> Placement:
    state = scene.brain.state
    assignment = state.seating.assignments[state.slot_of[job]]  # type: ignore[index]
    assert assignment is not None
    return assignment.placement.only(kept)


def test_seats_that_the_world_has_lost_are_let_go_and_the_job_goes_on() -> None:
    scene = one_wide().stay_silent()
    scene.report("wide", Phase.RUNNING, placement=left_of(scene, "wide", 0, 2), live=True)
    scene.expect("wide", runs)
    assert width(scene, "wide") == 2
    assert not scene.all(Stop)


def test_a_report_from_before_a_resize_takes_nothing_away() -> None:
    scene = one_wide().submit(a_job("other", 2, tenant="b")).decide()
    before = left_of(scene, "wide", 0, 1)
    scene.finish("other").decide()
    scene.report("wide", Phase.RUNNING, placement=before, serial=1)
    assert width(scene, "wide") == 4


def test_without_any_seat_it_must_start_anew() -> None:
    scene = one_wide().stay_silent()
    scene.report("wide", Phase.RUNNING, placement=left_of(scene, "wide"))
    scene.expect("wide", is_now(State.STOPPING))


def test_another_seat_leads_when_the_first_is_gone() -> None:
    scene = one_wide().stay_silent()
    scene.report("wide", Phase.RUNNING, placement=left_of(scene, "wide", 1, 2, 3), live=True)
    scene.expect("wide", runs)
    assert width(scene, "wide") == 3
    assert not scene.all(Stop)
    scene.submit(a_job("other", 2, tenant="b")).decide()
    assert 1 in scene.last(Resize, "wide").assignment.placement.numbers, "the first it has stays"


def test_a_lost_node_costs_a_live_job_its_seats_there_and_no_more() -> None:
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    head = scene.brain.state.seating.assignments[0].placement.seats[0].node  # type: ignore[union-attr]
    scene.lose({"n0": "n1", "n1": "n0"}[head]).expect("wide", runs)
    assert scene.nodes("wide") == {head: 2}
    assert not scene.all(Stop)


def test_a_node_that_shrinks_costs_a_live_job_its_seats_there_and_no_more() -> None:
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    scene.change(a_node("n1", 1)).expect("wide", runs)
    assert scene.nodes("wide") == {"n0": 2}
    assert not scene.all(Stop)


def test_a_job_that_does_not_leave_a_node_that_shrank_is_stopped() -> None:
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    scene.stay_silent().change(a_node("n1", 1)).expect("wide", is_now(State.RESIZING))
    scene.refuse("wide", RESIZE, serial=scene.last(Resize, "wide").serial)
    scene.expect("wide", is_now(State.STOPPING))
    assert scene.last(Stop, "wide").why == "node n1 has fewer GPUs"


def test_a_lost_node_with_the_head_costs_no_more() -> None:
    """Another seat leads; if none does, the world says that the workers are lost."""
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    head = scene.brain.state.seating.assignments[0].placement.seats[0].node  # type: ignore[union-attr]
    scene.lose(head).expect("wide", runs)
    assert head not in scene.nodes("wide")
    assert not scene.all(Stop)


def test_a_lost_node_with_all_seats_ends_the_incarnation() -> None:
    scene = a_scene(nodes=1, gpus=4).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    scene.stay_silent().lose("n0").expect("wide", is_now(State.STOPPING))


def test_whoever_only_joins_cannot_go_on_alone() -> None:
    """They have nothing to go on from yet: it begins again from what was saved."""
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 2, width=(1, 4)), a_job("other", 2))
    scene.decide().live("wide")
    (home,) = scene.nodes("wide")
    scene.stay_silent().finish("other").decide().expect("wide", is_now(State.RESIZING))
    assert len(scene.last(Resize, "wide").assignment.placement.nodes) == 2
    scene.lose(home).expect("wide", is_now(State.STOPPING))


def test_a_node_lost_in_the_middle_of_a_shrink() -> None:
    scene = a_scene(nodes=2, gpus=2).submit(a_job("wide", 4, width=(1, 4))).decide().live("wide")
    scene.stay_silent().submit(a_job("other", 1, tenant="b")).decide()
    leaving = scene.last(Resize, "wide")
    other = next(
        node for node in ("n0", "n1") if node not in leaving.assignment.placement.nodes[:1]
    )
    scene.lose(other).expect("wide", is_now(State.RESIZING))
    newest = scene.last(Resize, "wide")
    assert newest.serial == leaving.serial + 1
    scene.done("wide", RESIZE, serial=newest.serial).expect("wide", runs)
    assert set(scene.nodes("wide")) == set(newest.assignment.placement.nodes)


# --- messages that are lost, and brains


def test_a_resize_that_nobody_answers_is_looked_for_and_asked_for_again() -> None:
    scene = a_scene().with_settings(answer_seconds=50.0).submit(a_job("wide", 4, width=(1, 4)))
    scene.decide().live("wide").stay_silent()
    before = left_of(scene, "wide", 0, 1, 2, 3)
    scene.submit(a_job("other", 2, tenant="b")).decide().wait(60.0)
    assert scene.last(Probe).job == "wide"
    scene.report("wide", Phase.RUNNING, placement=before, serial=0)
    assert len(scene.all(Resize, "wide")) == 2
    assert scene.all(Resize)[0] == scene.all(Resize)[1]


def test_a_look_that_shows_what_was_asked_for_is_an_answer() -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    target = scene.last(Resize).assignment.placement
    scene.report("wide", Phase.RUNNING, placement=target, serial=1)
    scene.expect("wide", runs).expect("other", is_now(State.STARTING))


def test_progress_is_no_answer() -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    scene.report("wide", Phase.RUNNING, done=5.0).expect("wide", is_now(State.RESIZING))


def test_a_new_brain_adopts_a_job_in_the_middle_of_a_resize() -> None:
    scene = one_wide().submit(a_job("other", 2, tenant="b")).decide()
    both = left_of(scene, "wide", 0, 1)
    fresh = a_scene().submit(a_job("wide", 4, width=(1, 4)))
    fresh.report("wide", Phase.RUNNING, epoch=3, placement=both, serial=7, next_seat=9, live=True)
    fresh.expect("wide", runs).decide()
    assert fresh.last(Resize).serial == 8
    assert numbers(fresh, "wide") == {0, 1, 9, 10}


def test_a_new_brain_looks_again_when_a_resize_ends_that_it_has_not_ordered() -> None:
    fresh = a_scene().submit(a_job("wide", 4, width=(1, 4)))
    both = one_wide()
    placement = left_of(both, "wide", 0, 1, 2, 3)
    fresh.report("wide", Phase.RUNNING, epoch=3, placement=placement, serial=7, live=True)
    fresh.done("wide", RESIZE, serial=7)
    assert fresh.last(Probe).job == "wide"
    less = placement.only({0, 1})
    fresh.report("wide", Phase.RUNNING, placement=less, serial=7).expect("wide", runs)
    assert width(fresh, "wide") == 2


@pytest.mark.parametrize("end", ["cancel", "finish", "fail"])
def test_a_resize_does_not_outlive_its_job(end: str) -> None:
    scene = one_wide().stay_silent().submit(a_job("other", 2, tenant="b")).decide()
    getattr(scene, end)("wide")
    if end == "cancel":
        scene.expect("wide", is_now(State.STOPPING)).done("wide", Verb.STOP, kept=0.0)
    assert not scene.brain.state.seating.resizes
    scene.expect("other", is_now(State.STARTING))


def test_nobody_is_asked_for_widths_while_all_are_fixed() -> None:
    """A round costs no more under a recipe that resizes where there is nothing to resize."""
    asked: list[int] = []
    recipe = maxmin(spacing=1.0, min_run=0.0)

    def noting(snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        asked.append(len(slots))
        return recipe.size(snapshot, slots, supply)

    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(recipe, size=noting)
    scene.submit(a_job("fixed", 2), a_job("wider", 4)).decide()
    scene.expect("fixed", runs)
    assert asked == []
    scene.submit(a_job("ranged", 2, width=(1, 2))).decide().expect("ranged", runs)
    assert asked


def test_seats_on_offer_are_given_once_though_their_holder_has_to_go() -> None:
    """Three of its four GPUs are on offer when all four are reclaimed: nobody gets seven."""
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(afs_l(spacing=1.0, hold=0.0, min_run=0.0))
    scene.with_queues(a_queue("lent", 0), a_queue("owner", 8))
    scene.submit(a_job("elastic", 4, width=(1, 4), seconds=1e5, queue="lent")).decide()
    scene.live("elastic")
    scene.submit(a_job("gang", 4, seconds=10.0, queue="owner"))
    scene.submit(a_job("more", 3, seconds=20.0, queue="owner")).decide()
    scene.expect("gang", runs).expect("more", is_now(State.QUEUED))
