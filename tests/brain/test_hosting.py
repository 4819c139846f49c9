"""Cores and memory beside the GPUs: what is owed, what is fed, and who gets it back."""

from typing import Any

import pytest

from tests.builders import Scene, a_cluster, a_job, a_node, given, is_now, runs, seats
from weft.brain.event import Fed, JobMeasured, Phase, Verb
from weft.brain.instruction import Feed, Preempt, Probe, Start
from weft.model.host import HostCurve, PerGpu
from weft.model.ids import JobId
from weft.model.job import Job
from weft.model.placement import Placement, Seat
from weft.model.state import State
from weft.policy.host.shares import HostShares
from weft.policy.recipe import Passing, Recipe, Rounds, Yielding
from weft.policy.recipes import RECIPES, sensitivity

HUNGRY = HostCurve.by_cores([(1, 0.3), (3, 1.0), (6, 1.9), (12, 2.9)])
MODEST = HostCurve.by_cores([(1, 0.9), (3, 1.0), (6, 1.2)])
INDOLENT = HostCurve.by_cores([(1, 1.0)])


def recipe(*, hold: float = 0.0, **fields: Any) -> Recipe:
    return Recipe(
        name="hosted",
        order=RECIPES["fifo"]().order,
        rounds=Rounds(spacing_seconds=1.0),
        passing=Passing.ANYBODY,
        host=HostShares(hold_seconds=hold),
        **fields,
    )


def a_scene(gpus: int = 4, cpus: float = 12.0, *, nodes: int = 1, **fields: Any) -> Scene:
    """Three cores per GPU, unless said otherwise."""
    named = [a_node(f"n{i}", gpus, cpus=cpus, memory_gib=1000.0) for i in range(nodes)]
    return given(a_cluster(*named)).with_recipe(recipe(**fields))


def hosted(name: str, curve: HostCurve, gpus: int = 1, **fields: Any) -> Job:
    return a_job(name, gpus, cpus_per_gpu=3.0, memory_gib_per_gpu=10.0, host=curve, **fields)


def started(scene: Scene, *jobs: Job) -> Scene:
    """They run, their world can feed them, and what follows from that is done."""
    scene.submit(*jobs).decide().tunable(*(job.id for job in jobs))
    return scene.wait(30.0)


def cores(scene: Scene, job: str) -> float:
    """What each GPU of the job has by now: owed and fed."""
    state = scene.brain.state
    slot = state.slot_of[JobId(job)]
    row = state.seating.seat_rows[slot][0]
    owed = float(state.seats.cpus[row]) / int(state.seats.gpus[row])
    return owed + state.fed(slot).cores


def speed(scene: Scene, job: str) -> float:
    state = scene.brain.state
    return float(state.jobs.speed[state.slot_of[JobId(job)]])


def test_what_one_job_leaves_is_fed_to_the_one_that_gains_by_it() -> None:
    scene = started(a_scene(), hosted("a", HUNGRY), hosted("b", INDOLENT), hosted("c", INDOLENT))
    assert (cores(scene, "a"), cores(scene, "b")) == (10.0, 1.0)
    assert speed(scene, "a") == pytest.approx(HUNGRY.at(PerGpu(10.0)))


def test_without_a_share_for_the_host_everybody_has_what_was_asked() -> None:
    node = a_node("n0", 4, cpus=12.0, memory_gib=1000.0)
    scene = given(a_cluster(node)).with_recipe(RECIPES["srtf"]())
    scene.submit(hosted("a", HUNGRY), hosted("b", INDOLENT)).decide().tunable("a", "b").wait(30.0)
    assert (cores(scene, "a"), cores(scene, "b")) == (3.0, 3.0)
    assert scene.all(Feed) == [] and speed(scene, "a") == 1.0


def test_a_job_without_a_host_curve_keeps_what_it_asks_for() -> None:
    plain = a_job("plain", 1, cpus_per_gpu=5.0)
    scene = started(a_scene(), plain, hosted("a", HUNGRY))
    assert (cores(scene, "plain"), cores(scene, "a")) == (5.0, 7.0)


def test_nobody_is_fed_where_the_world_cannot_do_it() -> None:
    scene = a_scene().submit(hosted("a", HUNGRY), hosted("b", INDOLENT)).decide().wait(30.0)
    assert scene.all(Feed) == [] and cores(scene, "a") == 3.0


def test_a_newcomer_waits_for_what_it_is_owed_until_it_is_given_back() -> None:
    scene = started(a_scene(), hosted("a", HUNGRY))
    assert cores(scene, "a") == 12.0
    scene.stay_silent().submit(hosted("b", MODEST)).decide()
    scene.expect("b", is_now(State.ADMITTED))
    call_back = scene.last(Feed, "a")
    assert call_back.cores == pytest.approx(6.0), "three of twelve are owed to b, three to a"
    scene.answer_again().done("a", Verb.FEED, serial=call_back.serial)
    scene.expect("b", runs)
    assert cores(scene, "b") == 3.0 and scene.all(Preempt) == []


def test_a_job_without_gpus_gets_its_cores_the_same_way() -> None:
    scene = started(a_scene(), hosted("a", HUNGRY))
    scene.submit(a_job("cpu", 0, cpus=8.0)).decide().expect("cpu", runs)
    assert cores(scene, "a") == 4.0


def test_and_keeps_them_from_those_who_would_only_go_faster() -> None:
    scene = a_scene().submit(a_job("cpu", 0, cpus=8.0)).decide()
    scene = started(scene, hosted("a", HUNGRY))
    assert cores(scene, "a") == 4.0
    scene.finish("cpu").wait(30.0)
    assert cores(scene, "a") == 12.0


def test_no_gpu_job_starts_below_its_fair_speed_beside_jobs_without_gpus() -> None:
    scene = a_scene().submit(a_job("cpu", 0, cpus=10.0)).decide()
    scene.submit(hosted("a", HUNGRY)).decide().expect("a", is_now(State.QUEUED))
    scene.finish("cpu").decide().expect("a", runs)


def test_a_better_use_takes_cores_over() -> None:
    scene = started(a_scene(), hosted("a", MODEST), hosted("b", INDOLENT))
    assert cores(scene, "a") == 6.0
    started(scene, hosted("c", HUNGRY))
    assert (cores(scene, "c"), cores(scene, "a")) == (8.0, 3.0)
    scene.finish("c").wait(30.0)
    assert cores(scene, "a") == 6.0


def test_a_job_is_left_alone_for_a_while_after_each_change() -> None:
    scene = started(a_scene(hold=600.0), hosted("a", MODEST), hosted("b", INDOLENT))
    started(scene, hosted("c", HUNGRY))
    assert (cores(scene, "a"), cores(scene, "c")) == (6.0, 3.0)
    scene.wait(600.0)
    assert (cores(scene, "a"), cores(scene, "c")) == (3.0, 8.0)


def test_but_not_where_a_job_waits_for_what_it_is_owed() -> None:
    scene = started(a_scene(hold=600.0), hosted("a", HUNGRY))
    scene.submit(hosted("b", MODEST)).decide().expect("b", runs)


def test_a_job_on_two_nodes_is_fed_on_both() -> None:
    scene = started(a_scene(gpus=2, cpus=8.0, nodes=2), hosted("wide", HUNGRY, 4))
    assert cores(scene, "wide") == 4.0
    started(scene.finish("wide"), hosted("three", HUNGRY, 3), hosted("one", MODEST))
    assert cores(scene, "three") == 4.0, "two of its GPUs have a node of eight cores"
    assert cores(scene, "one") == 4.0


# --- what the world says --------------------------------------------------------------------------


def fed_in_silence() -> tuple[Scene, Feed]:
    """`a` is to be fed nine cores, and nobody has answered yet."""
    scene = a_scene().submit(hosted("a", HUNGRY)).decide().stay_silent().tunable("a").decide()
    return scene, scene.last(Feed, "a")


def test_a_refusal_leaves_everything_as_it_was() -> None:
    scene, feed = fed_in_silence()
    scene.refuse("a", Verb.FEED, serial=feed.serial)
    assert cores(scene, "a") == 3.0 and speed(scene, "a") == 1.0


def test_what_is_under_way_is_held_already_but_speeds_nobody_up() -> None:
    scene, feed = fed_in_silence()
    assert cores(scene, "a") == 12.0 and speed(scene, "a") == 1.0
    scene.done("a", Verb.FEED, serial=feed.serial + 1)
    assert speed(scene, "a") == 1.0, "that is an answer to something else"
    scene.done("a", Verb.FEED, serial=feed.serial)
    assert speed(scene, "a") == pytest.approx(2.9)


def test_silence_is_probed_and_a_lost_feeding_is_said_again() -> None:
    scene, feed = fed_in_silence()
    scene.wait(200.0)
    assert scene.last(Probe).job == "a"
    scene.report("a", Phase.RUNNING, placement=seats(n0=1), tunable=True, fed=Fed())
    again = scene.all(Feed, "a")[-1]
    assert again == feed and len(scene.all(Feed, "a")) == 2
    scene.report("a", Phase.RUNNING, tunable=True, fed=Fed(9.0, 0.0, feed.serial))
    assert speed(scene, "a") == pytest.approx(2.9)


def test_a_job_that_stops_while_it_is_fed_gives_everything_back() -> None:
    scene, _ = fed_in_silence()
    scene.cancel("a").done("a", Verb.STOP).answer_again()
    scene.submit(a_job("cpu", 0, cpus=12.0)).decide().expect("cpu", runs)


def test_what_a_fresh_brain_finds_fed_is_not_given_away_twice() -> None:
    scene = a_scene().stay_silent().submit(hosted("a", HUNGRY))
    placement = Placement((Seat(scene.brain.state.node_ids[0], 1, 3.0, 10.0),))
    scene.report(
        "a", Phase.RUNNING, epoch=2, placement=placement, tunable=True, fed=Fed(9.0, 0.0, 4)
    )
    scene.submit(a_job("cpu", 0, cpus=6.0)).decide().expect("cpu", is_now(State.ADMITTED))
    feed = scene.last(Feed, "a")
    assert (feed.serial, feed.epoch, feed.cores) == (5, 2, 3.0)
    scene.done("a", Verb.FEED, serial=5)
    assert scene.last(Start, "cpu").assignment.placement.seats[0].cpus == 6.0


# --- service --------------------------------------------------------------------------------------


def test_service_is_the_dominant_share() -> None:
    scene = a_scene(gpus=4, cpus=12.0)
    scene.submit(hosted("a", MODEST), a_job("cpu", 0, cpus=6.0)).decide().wait(100.0)
    state = scene.brain.state
    snapshot = state.snapshot(scene.now)
    order = [state.slot_of[JobId(name)] for name in ("a", "cpu")]
    one, half = snapshot.attained_shares(snapshot.slots(State.RUNNING)[order]).tolist()
    assert half == pytest.approx(2.0 * one), "half of the cores is as much as two of four GPUs"


def test_under_sensitivity_neither_kind_of_job_starves_the_other() -> None:
    """Jobs without GPUs hold all cores; a job with one has had less, and gets its turn."""
    node = a_node("n0", 4, cpus=12.0, memory_gib=1000.0)
    scene = given(a_cluster(node)).with_recipe(sensitivity(hold=0.0, min_run=60.0))
    scene.submit(a_job("cpu", 0, cpus=12.0, seconds=1e6)).decide().wait(600.0)
    scene.submit(hosted("a", HUNGRY, seconds=1e6)).wait(900.0)
    scene.expect("a", runs).expect("cpu", is_now(State.QUEUED))
    scene.wait(20_000.0)
    assert len(scene.all(Start, "cpu")) > 1, "nor is it shut out for ever"


def test_a_copy_goes_its_own_way() -> None:
    scene = started(a_scene(), hosted("a", HUNGRY), hosted("b", INDOLENT))
    twin = scene.brain.copied()
    scene.finish("b").wait(30.0)
    assert cores(scene, "a") == 12.0
    assert twin.state.fed(twin.state.slot_of[JobId("a")]).cores == 8.0


def test_yielding_and_feeding_go_together() -> None:
    """A long job that is fed everything yields its GPU, and the newcomer needs no third party."""
    scene = a_scene(gpus=1, cpus=12.0, yielding=Yielding(min_run_seconds=0.0))
    started(scene, hosted("a", HUNGRY, priority=0))
    scene.submit(hosted("b", HUNGRY, priority=5)).decide()
    scene.expect("b", runs).expect("a", is_now(State.QUEUED))


# --- curves that nobody has stated ----------------------------------------------------------------


def measured(scene: Scene, job: str, cores: float, speed: float) -> Scene:
    event = JobMeasured(
        scene.now,
        JobId(job),
        scene.epoch(job),
        gpus=1,
        nodes=1,
        units_per_second=speed,
        seconds=60.0,
        work_done=1.0,
        cpus=cores,
    )
    return scene.send(event).wait(30.0)


def untold(name: str) -> Job:
    return hosted(name, HUNGRY, tell_host=False)


def test_a_job_of_which_nothing_is_known_is_owed_what_it_asks_for_and_tries_more() -> None:
    scene = started(a_scene(), untold("a"))
    assert cores(scene, "a") == 3.0, "nothing is believed before anything is measured"
    measured(scene, "a", 3.0, 50.0)
    assert cores(scene, "a") == 6.0
    measured(scene, "a", 6.0, 97.0)
    assert cores(scene, "a") == 12.0


def test_what_was_tried_in_vain_is_given_back_to_whoever_gains() -> None:
    scene = started(a_scene(), untold("a"), hosted("b", INDOLENT))
    measured(measured(scene, "a", 3.0, 50.0), "a", 6.0, 50.5)
    started(scene, hosted("c", HUNGRY))
    assert (cores(scene, "a"), cores(scene, "c")) == (3.0, 8.0)


def test_a_plain_recipe_learns_nothing_of_cores() -> None:
    node = a_node("n0", 4, cpus=12.0, memory_gib=1000.0)
    scene = given(a_cluster(node)).with_recipe(RECIPES["srtf"]())
    scene.submit(untold("a")).decide().tunable("a")
    measured(scene, "a", 3.0, 50.0)
    assert scene.all(Feed) == []
