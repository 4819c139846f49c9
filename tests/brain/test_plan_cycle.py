"""A language model goes through five plans by one brain's decisions, as others come and go."""

from dataclasses import replace

import pytest

from tests.brain.test_switching import ALWAYS, EVERY, generous, offer
from tests.builders import Scene, a_cluster, a_job, a_node, given, runs
from tests.five_plans import (
    BOTH,
    CLAIMS,
    CYCLE,
    FORETOLD_SECONDS,
    MOST_GPUS,
    SHARED,
    SPLIT,
    STAGES,
    WHOLE,
)
from weft.brain.instruction import Preempt, Resize, Start
from weft.brain.state.plan_book import where
from weft.model.ids import JobId
from weft.model.job import Job
from weft.reconcile.plans import told

FOREVER = 1e9


def a_language_model() -> Job:
    """How long it takes nobody knows; what it offers beyond the usual it tells when it runs."""
    job = a_job("job", 1, width=(1, MOST_GPUS))
    splits = replace(CLAIMS.claim(frozenset(ALWAYS)), open=True)
    return Job(replace(job.request, splits=splits, work=None, curve=None), job.truth)


def begun(*, others: int = 3, single_seats: bool = True) -> Scene:
    """On what so many others leave of a node; all of the other node is taken."""
    cluster = a_cluster(a_node("n0", 4), a_node("n1", 4))
    world = given(cluster).with_recipe(generous()).with_settings(single_seats=single_seats)
    world.submit(a_job("wide", 3, seconds=FOREVER)).decide()
    for name in ("fourth", *(f"other{number}" for number in range(others))):
        world.submit(a_job(name, 1, seconds=FOREVER)).decide()
    world.submit(a_language_model()).decide()
    return offer(world.wait(10_000.0), *EVERY)


def runs_as(world: Scene) -> tuple[int, str]:
    state = world.expect("job", runs).brain.state
    held = state.seating.assignments[state.slot_of[JobId("job")]]
    assert held is not None
    return held.width, told(held.plan, held.width)


@pytest.mark.parametrize("single_seats", [True, False])
def test_it_goes_through_all_plans_and_is_never_stopped(*, single_seats: bool) -> None:
    world = begun(single_seats=single_seats)
    seen = [runs_as(world)]
    for number in range(3):
        seen.append(runs_as(world.finish(f"other{number}").decide()))
    world.change(a_node("n0", 5)).submit(a_job("fifth", 1)).decide().expect("fifth", runs)
    assert runs_as(world) == BOTH, "what it runs as is as good as it was"
    for name, gpus in (("pair", 2), ("single", 1)):
        seen.append(runs_as(world.submit(a_job(name, gpus)).decide().expect(name, runs)))
    assert tuple(seen) == CYCLE
    assert runs_as(world.finish("fifth").decide()) == STAGES
    assert world.nodes("job") == {"n1": 1, "n0": 1}
    assert len(world.all(Start, "job")) == 1
    assert not world.all(Preempt)
    assert len(world.all(Resize, "job")) == len(CYCLE)


def test_its_steps_are_foretold_to_take_what_other_tests_let_them_take() -> None:
    world = begun()
    state = world.brain.state
    slot, found = state.slot_of[JobId("job")], {}
    for number in range(4):
        options, held = state.plan_book.options(slot, state.spec(slot)), state.placement(slot)
        assert options is not None
        found[runs_as(world)] = options.step(state.plans[slot], where(held), 1.0).seconds
        if number < 3:
            world.finish(f"other{number}").decide()
    wanted = {way: FORETOLD_SECONDS[way] for way in found}
    assert len(found) == 4
    assert found == pytest.approx(wanted, rel=0.01)


def test_a_gpu_that_is_little_use_is_used_by_whom_it_costs_a_second() -> None:
    """A third GPU makes it a tenth faster: not worth a restart, and else it would be idle."""
    world = begun().finish("other0").decide().finish("other1").decide()
    assert runs_as(world) == SHARED
    assert not world.all(Preempt)


def test_seats_are_added_beside_its_own_before_a_network_is_between() -> None:
    """A fuller node would be the better fit for another job, and not for more of this one."""
    world = begun().finish("other0", "other1", "fourth").decide()
    assert runs_as(world) == SPLIT
    assert world.nodes("job") == {"n1": 2}


def test_a_node_with_fewer_cores_than_gpus_is_used_whole_by_who_books_none() -> None:
    """Its forecasts count on a core beside each GPU, which is not what it asked for."""
    world = given(a_cluster(a_node("n0", 4, cpus=1.9))).with_recipe(generous())
    world.submit(*(a_job(f"other{number}", 1) for number in range(3))).decide()
    world.submit(a_language_model()).decide()
    offer(world.wait(10_000.0), *EVERY)
    seen = [runs_as(world.finish(f"other{number}").decide()) for number in range(3)]
    assert tuple(seen) == CYCLE[1:4]


def test_a_job_that_comes_in_a_switch_gets_what_it_would_have_got_after_it() -> None:
    world = begun(others=1)
    assert runs_as(world)[0] == SHARED[0]
    world.stay_silent().finish("other0").decide()
    asked = world.last(Resize, "job")
    assert (asked.assignment.width, told(asked.assignment.plan, 4)) == BOTH
    world.submit(a_job("triple", 3)).wait(10.0)
    assert world.last(Resize, "job") == asked, "nothing is taken back half way"
    world.answer_again().done("job", asked.verb, serial=asked.serial).decide()
    assert runs_as(world.expect("triple", runs)) == WHOLE
