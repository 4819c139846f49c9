"""What a change is worth, what it costs, and the changes that are not made."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as given_values
from hypothesis import strategies as st

from tests.builders import Scene, a_cluster, a_job, a_snapshot, given, runs
from weft.brain.event import InstructionDone, Verb
from weft.brain.instruction import Preempt, Resize, Start
from weft.brain.round.worth import (
    Change,
    price_seconds,
    seconds_saved,
    worth_growing,
    worth_restarting,
)
from weft.brain.state.measured_cost import REMEMBERED, MeasuredCost
from weft.model.ids import JobId
from weft.model.menu import Menus
from weft.model.snapshot import Ints, Snapshot
from weft.model.state import State
from weft.policy.recipe import Recipe, Resizing
from weft.policy.recipes import afs_l, even, weave
from weft.policy.size.requested import Size
from weft.policy.supply import Supply

NAN = float("nan")
LINEAR, FLAT = np.arange(9.0), np.minimum(np.arange(9.0), 1.0)
DIPPING = np.array([0.0, 4.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
MENUS = Menus.of([(row, row, row) for row in (LINEAR, FLAT, DIPPING)])


def running(left: float, width: int = 2, menu: int = 0, **columns: Any) -> dict[str, Any]:
    """With so much work left, and as much behind it as `work_done` says."""
    done = float(columns.get("work_done", 0.0))
    work = {"work_total": left + done, "width": width, "menu": menu}
    return {"state": State.RUNNING, "live": True, **work, **columns}


def scene(*rows: dict[str, Any], resize: float = 0.0, restart: float = 0.0) -> Snapshot:
    snapshot = a_snapshot(*rows, menus=MENUS)
    return replace(snapshot, resize_seconds=resize, restart_seconds=restart)


def saved(*rows: dict[str, Any], goals: list[int]) -> list[float]:
    return list(seconds_saved(scene(*rows), np.arange(len(rows)), np.array(goals)))


def growing(snapshot: Snapshot, goals: list[int], **resizing: Any) -> list[int]:
    slots = np.arange(len(goals))
    return list(worth_growing(snapshot, slots, np.array(goals), Resizing(**resizing)))


def restarting(snapshot: Snapshot, goals: list[int], **resizing: Any) -> list[int]:
    slots = np.arange(len(goals))
    return list(worth_restarting(snapshot, slots, np.array(goals), Resizing(**resizing)))


# --- what a change costs --------------------------------------------------------------------------


def price(change: Change, *rows: dict[str, Any], least: float = 5.0) -> list[float]:
    """A resize takes 8 seconds, a stop and a start 30; it is 1000 o'clock."""
    snapshot = scene(*rows, resize=8.0, restart=30.0)
    return list(
        price_seconds(
            snapshot, np.arange(len(rows)), change, Resizing(worth=1.0, least_cost_seconds=least)
        )
    )


def test_a_live_resize_loses_no_work() -> None:
    assert price(Change.RESIZE, running(9.0, saves_every_seconds=1800.0)) == [8.0]
    assert price(Change.RESIZE, running(9.0), least=20.0) == [20.0]


def test_a_restart_loses_what_is_expected_not_to_be_saved() -> None:
    saving = running(9.0, started=0.0)
    hourly, never = (running(9.0, started=0.0, saves_every_seconds=s) for s in (600.0, np.inf))
    assert price(Change.RESTART, saving, hourly, never) == [30.0, 330.0, 1030.0]


def test_nobody_loses_more_than_it_has_trained_since_it_started() -> None:
    fresh = running(9.0, started=990.0, saves_every_seconds=600.0)
    assert price(Change.RESTART, fresh) == [40.0]


@pytest.mark.parametrize(
    ("every", "on_demand", "lost"),
    [(1800.0, False, 1800.0), (1800.0, True, 0.0), (0.0, False, np.inf), (0.0, True, 0.0)],
)
def test_a_stop_can_lose_what_lies_between_two_checkpoints(
    every: float, on_demand: bool, lost: float
) -> None:
    job = a_job(checkpoint_interval_seconds=every, saves_on_demand=on_demand)
    state = given(a_cluster(nodes=1)).submit(job).brain.state
    assert state.jobs.saves_every_seconds[0] == lost


# --- seconds --------------------------------------------------------------------------------------


def test_what_is_saved_is_the_difference_of_what_is_left() -> None:
    assert saved(running(100.0), goals=[4]) == [100 / 2 - 100 / 4]
    assert saved(running(100.0, work_done=900.0), goals=[4]) == [25.0], "what is done is done"
    assert saved(running(100.0, scale=0.5), goals=[4]) == [50.0]
    assert saved(running(0.0), goals=[8]) == [0.0]


def test_work_goes_on_between_two_events() -> None:
    at_work = running(100.0, mark=980.0, speed=2.0)
    assert saved(at_work, goals=[4]) == [60 / 2 - 60 / 4]


def test_width_that_brings_nothing_saves_nothing_and_a_dip_costs() -> None:
    assert saved(running(100.0, menu=1), goals=[8]) == [0.0]
    assert saved(running(100.0, menu=2, width=1), goals=[2]) == [25.0 - 50.0]


def test_whose_end_nobody_knows_has_as_much_before_it_as_behind_it() -> None:
    unknown = running(NAN, work_done=100.0, work_total=NAN)
    assert saved(unknown, running(100.0), goals=[4, 4]) == [25.0, 25.0]


def test_a_job_that_exceeded_its_declared_work_is_expected_to_need_as_much_more() -> None:
    exceeded = running(-40.0, work_done=100.0)
    assert saved(exceeded, goals=[4]) == [40.0 / 2 - 40.0 / 4]
    assert saved(running(NAN, work_total=NAN), goals=[4]) == [0.0], "it has just begun"


def test_without_a_speed_there_is_nothing_to_save() -> None:
    """Of a job in units that nobody has told yet, with work and without."""
    rows = running(100.0, scale=0.0), running(0.0, scale=0.0)
    assert saved(*rows, goals=[4, 4]) == [0.0, 0.0]


# --- growing --------------------------------------------------------------------------------------


def test_a_growth_is_made_from_worth_times_the_cost_on() -> None:
    just, hardly = running(100.0), running(99.0)
    assert growing(scene(just, hardly, resize=12.5), [4, 4], worth=2.0) == [0]
    assert growing(scene(just, hardly, resize=12.0), [4, 4], worth=2.0) == [0, 1]
    assert growing(scene(just, hardly, resize=13.0), [4, 4], worth=2.0) == []


def test_what_it_is_believed_to_cost_at_least_counts_where_less_was_measured() -> None:
    snapshot = scene(running(100.0), resize=1.0)
    assert growing(snapshot, [4], worth=2.0, least_cost_seconds=12.5) == [0]
    assert growing(snapshot, [4], worth=2.0, least_cost_seconds=13.0) == []


def test_without_worth_whoever_is_to_be_wider_grows_and_nobody_else() -> None:
    snapshot = scene(running(1e-6), running(1e9), running(1e9), resize=1e6)
    assert growing(snapshot, [3, 2, 1]) == [0]


def test_the_order_is_kept() -> None:
    snapshot = scene(running(100.0), running(1.0), running(1000.0), resize=1.0)
    slots = np.array([2, 1, 0])
    found = worth_growing(snapshot, slots, np.full(3, 4), Resizing(worth=2.0))
    assert found.tolist() == [2, 0]


@given_values(
    st.lists(st.tuples(st.integers(1, 8), st.integers(0, 8), st.floats(0, 1e6)), min_size=1),
    st.floats(0.0, 100.0),
    st.sampled_from([0.0, 1.0, 2.0]),
)
def test_only_growths_and_all_that_pay(
    jobs: list[tuple[int, int, float]], resize: float, worth: float
) -> None:
    snapshot = scene(*(running(left, width) for width, _, left in jobs), resize=resize)
    goals = [goal for _, goal, _ in jobs]
    found = growing(snapshot, goals, worth=worth)
    for slot, (width, goal, left) in enumerate(jobs):
        pays = goal > width and (not worth or left / width - left / goal >= worth * resize)
        assert (slot in found) == pays


# --- restarting -----------------------------------------------------------------------------------


def test_nobody_is_started_anew_unless_the_recipe_says_so() -> None:
    assert restarting(scene(running(1e9)), [8]) == []
    assert restarting(scene(running(1e9)), [8], restarts=True) == [0]
    assert restarting(scene(running(1e9)), [2], restarts=True) == []


def test_a_restart_saves_at_least_twice_what_it_costs() -> None:
    snapshot = scene(running(400.0), running(399.0), resize=1e9, restart=50.0)
    assert restarting(snapshot, [4, 4], restarts=True) == [0]
    assert restarting(snapshot, [4, 4], restarts=True, worth=1.0) == [0]
    assert restarting(snapshot, [4, 4], restarts=True, worth=3.0) == []


def test_a_restart_that_was_never_measured_still_costs_something() -> None:
    snapshot = scene(running(8.0), running(7.0))
    assert restarting(snapshot, [4, 4], restarts=True) == [0]
    assert restarting(snapshot, [4, 4], restarts=True, least_cost_seconds=5.0) == []


# --- what was measured ----------------------------------------------------------------------------


def measured(*seconds: float) -> MeasuredCost:
    found = MeasuredCost()
    for one in seconds:
        found = found.with_one(one)
    return found


def test_a_toll_is_the_mean_of_what_was_measured() -> None:
    assert (MeasuredCost().seconds, MeasuredCost().count) == (0.0, 0)
    assert measured(4.0, 8.0, 6.0) == MeasuredCost(6.0, 3)


def test_of_many_the_older_ones_count_ever_less() -> None:
    found = measured(*[10.0] * (10 * REMEMBERED), *[20.0] * REMEMBERED)
    assert found.count == REMEMBERED
    assert 15.0 < found.seconds < 20.0
    assert measured(*[10.0] * 1000, *[20.0] * 1000).seconds == pytest.approx(20.0, abs=1e-3)


@given_values(st.lists(st.floats(0.0, 1e4), min_size=1, max_size=120))
def test_a_toll_lies_between_the_least_and_the_most(seconds: list[float]) -> None:
    found = measured(*seconds)
    assert min(seconds) - 1e-6 <= found.seconds <= max(seconds) + 1e-6
    if len(seconds) <= REMEMBERED:
        assert found.seconds == pytest.approx(sum(seconds) / len(seconds), abs=1e-6)


def width(scene: Scene, job: str) -> int:
    state = scene.brain.state
    return int(state.jobs.width[state.slot_of[JobId(job)]])


def resized(scene: Scene, job: str, *, paused: float | None) -> Scene:
    """The resize that was asked for last is done."""
    asked = scene.last(Resize, job)
    return scene.send(
        InstructionDone(
            scene.now,
            asked.job,
            asked.epoch,
            Verb.RESIZE,
            None,
            asked.serial,
            paused_seconds=paused,
        )
    )


def narrowed(recipe: Recipe, *, seconds: float, paused: float | None) -> Scene:
    """A job that shrank to 2 of 4 GPUs for another, which is about to leave; so long stood still.

    Its work is `seconds` on 4 GPUs; nothing of it has been done.
    """
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(recipe)
    scene.submit(a_job("wide", 4, width=(1, 4), seconds=seconds)).decide().live("wide")
    scene.submit(a_job("other", 2, seconds=1.0)).decide().stay_silent()
    return resized(scene, "wide", paused=paused)


def test_what_changes_cost_is_learnt_from_the_answers() -> None:
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(even(hold=0.0)).stay_silent()
    scene.submit(a_job("wide", 4, width=(1, 4))).decide().tick(30.0).done("wide", Verb.START)
    scene.live("wide").submit(a_job("other", 1)).decide().tick(3.0)
    resized(scene, "wide", paused=0.5)
    snapshot = scene.brain.state.snapshot(scene.now)
    assert (snapshot.resize_seconds, snapshot.restart_seconds) == (0.5, 30.0)
    scene.cancel("wide").tick(7.0).done("wide", Verb.STOP, kept=0.0)
    assert scene.brain.state.snapshot(scene.now).restart_seconds == 37.0


def test_a_resize_of_which_nobody_says_how_long_it_paused_is_not_counted() -> None:
    scene = narrowed(afs_l(hold=0.0, spacing=1.0), seconds=100.0, paused=None)
    assert scene.brain.state.resize_cost == MeasuredCost()


@pytest.mark.parametrize(("paused", "grows"), [(40.0, True), (60.0, False)])
def test_under_afs_a_growth_that_saves_too_little_is_not_asked_for(
    paused: float, grows: bool
) -> None:
    """100 s are left with 4 GPUs and 200 s with 2: a growth may cost 50 s twice over."""
    scene = narrowed(afs_l(hold=0.0, spacing=1.0), seconds=100.0, paused=paused)
    resizes = len(scene.all(Resize))
    scene.answer_again().finish("other").decide()
    assert (width(scene, "wide") == 4) == grows
    assert (len(scene.all(Resize)) > resizes) == grows


def test_without_worth_it_grows_whatever_that_costs() -> None:
    scene = narrowed(afs_l(hold=0.0, spacing=1.0, worth=0.0), seconds=100.0, paused=1e6)
    scene.answer_again().finish("other").decide()
    assert width(scene, "wide") == 4


# --- jobs that cannot be resized live -------------------------------------------------------------


def all_of_it(snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
    """As wide as each may be, whether it can be resized live or not."""
    widths: Ints = snapshot.jobs.max_gpus[slots].copy()
    return widths


def stuck(*, seconds: float, start: float, size: Size | None = all_of_it, **fields: Any) -> Scene:
    """Half of the node, of a job that knows nothing of Weft; starts take so long on the mean.

    It has `seconds` left if it had the whole node; the other half has just become free.
    """
    recipe = weave(hold=0.0, spacing=1.0)
    scene = given(a_cluster(nodes=1, gpus=4)).with_recipe(recipe, size=size or recipe.size)
    scene.submit(a_job("other", 2)).decide().stay_silent()
    scene.submit(a_job("plain", 4, width=(1, 4), seconds=seconds, **fields)).decide()
    scene.tick(2 * start).done("plain", Verb.START).expect("plain", runs)
    assert width(scene, "plain") == 2
    assert scene.brain.state.snapshot(scene.now).restart_seconds == start
    return scene.answer_again().finish("other")


@pytest.mark.parametrize("size", [all_of_it, None])
def test_it_is_started_anew_where_that_saves_twice_what_it_costs(size: Size | None) -> None:
    """The saving is as much as is left with all GPUs."""
    scene = stuck(seconds=250.0, start=100.0, size=size).decide().expect("plain", runs)
    assert width(scene, "plain") == 4
    assert (len(scene.all(Preempt, "plain")), len(scene.all(Start, "plain"))) == (1, 2)
    assert not scene.all(Resize)


@pytest.mark.parametrize("size", [all_of_it, None])
def test_it_is_left_alone_where_that_saves_less(size: Size | None) -> None:
    scene = stuck(seconds=199.0, start=100.0, size=size).decide().wait(100.0)
    assert (width(scene, "plain"), len(scene.all(Start, "plain"))) == (2, 1)


def test_other_recipes_do_not_start_it_anew() -> None:
    scene = stuck(seconds=1e6, start=1.0)
    scene.brain.context.recipe = replace(afs_l(hold=0.0), size=all_of_it)
    scene.wait(600.0).expect("plain", runs)
    assert width(scene, "plain") == 2


def test_a_job_that_may_not_be_stopped_is_not_started_anew() -> None:
    scene = stuck(seconds=1e6, start=1.0, preemptible=False).decide().wait(600.0)
    assert not scene.all(Preempt)
    assert width(scene, "plain") == 2


def test_it_is_not_started_anew_before_its_time() -> None:
    scene = stuck(seconds=1e6, start=1.0)
    scene.brain.context.recipe = replace(weave(hold=500.0, spacing=1.0), size=all_of_it)
    scene.wait(400.0)
    assert not scene.all(Preempt)
    scene.wait(200.0).expect("plain", runs)
    assert width(scene, "plain") == 4
