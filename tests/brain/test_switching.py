"""Jobs whose program has told what it offers go to another plan while they train."""

from dataclasses import replace

from tests.brain.test_replan import a_model, by
from tests.builders import Scene, a_cluster, a_job, a_node, given, runs
from weft.brain.event import InstructionRefused, JobMeasured, Phase, PlansOffered, Verb
from weft.brain.instruction import Preempt, Resize, Start
from weft.model.capability import Capability
from weft.model.ids import JobId, NodeId
from weft.model.job import Job
from weft.model.placement import Placement, Seat
from weft.model.plan import ExecutionPlan
from weft.model.state import State
from weft.policy.recipe import Recipe

LONG = 50_000.0
ALWAYS = (Capability.DATA, Capability.FSDP2, Capability.HYBRID)
EVERY = (*ALWAYS, Capability.TENSOR, Capability.PIPELINE)


def generous() -> Recipe:
    return by(own_budget=1.0, budget=10.0)


def a_script(name: str = "job", *, width: tuple[int, int] = (1, 8)) -> Job:
    """One that trains with the library: what it offers beyond the usual it tells when it runs."""
    job = a_model(name, width[1], width=width, offers=frozenset(ALWAYS))
    assert job.request.splits is not None
    splits = replace(job.request.splits, open=True)
    return Job(replace(job.request, splits=splits), job.truth)


def scene(recipe: Recipe | None = None) -> Scene:
    cluster = a_cluster(a_node("n0", 8))
    return given(cluster).with_recipe(recipe or generous()).with_settings(single_seats=True)


def offer(world: Scene, *offers: Capability, job: str = "job") -> Scene:
    done = world._work_done(JobId(job)) or 0.0
    world.report(job, Phase.RUNNING, live=True, done=done)
    return world.send(PlansOffered(world.now, JobId(job), world.epoch(job), offers))


def beside(gpus: int) -> Scene:
    """A script on what another job leaves of the node, for long enough to be worth a change."""
    world = scene().submit(a_job("other", gpus, seconds=1e6)).decide()
    world.submit(a_script()).decide()
    return offer(world.wait(LONG), *EVERY)


def plan_of(world: Scene) -> ExecutionPlan:
    state = world.brain.state
    slot = state.slot_of[JobId("job")]
    held = state.seating.assignments[slot]
    assert held is not None
    assert held.plan == state.plans[slot]
    return held.plan


def test_it_grows_into_what_comes_free_without_a_stop() -> None:
    world = beside(7).finish("other").decide()
    asked = world.last(Resize, "job").assignment
    assert asked.width > 1
    assert asked.plan.fits_width(asked.width)
    assert not world.all(Preempt)
    assert len(world.all(Start, "job")) == 1
    assert plan_of(world.expect("job", runs)) == asked.plan
    assert world.brain.state.plan_book.entry(world.brain.state.slot_of[JobId("job")]).restarts == 0


def test_seats_that_it_has_it_keeps() -> None:
    world = beside(7)
    before = world.brain.state.placement(world.brain.state.slot_of[JobId("job")])
    after = world.finish("other").decide().last(Resize, "job").assignment.placement
    assert before.numbers < after.numbers


def test_seats_beside_its_own_are_on_the_same_node() -> None:
    """What is foretold of its next plan is of one node, not of two with a network between."""
    world = beside(7).finish("other").decide()
    state = world.brain.state
    slot = state.slot_of[JobId("job")]
    found, spec = state.plan_book.options(slot, state.spec(slot)), state.spec(slot)
    assert found is not None
    wide = world.nodes("job")["n0"]
    best = found.best_on((wide,), max(spec.cpus_per_gpu, 1.0))
    assert best is not None
    assert plan_of(world) == best.plan


def test_until_its_program_has_told_it_is_started_anew() -> None:
    world = scene().submit(a_job("other", 7, seconds=1e6)).decide().submit(a_script()).decide()
    world.live("job").wait(LONG).finish("other").decide()
    assert world.all(Preempt, "job")
    assert not world.all(Resize)


def test_what_it_told_in_another_life_opens_choices_and_no_switch() -> None:
    """After a failure its agent is another one, which has not told anything."""
    world = beside(7).fail("job").wait(5_000.0)
    state = world.expect("job", runs).brain.state
    slot = state.slot_of[JobId("job")]
    found = state.plan_book.options(slot, state.spec(slot))
    assert found is not None
    assert Capability.TENSOR in found.bounds.offers
    assert not state.plan_book.can_switch(slot, world.epoch("job"))


def test_more_is_offered_by_its_own_word_alone() -> None:
    world = scene().submit(a_script()).decide()
    state = world.brain.state

    def offers() -> frozenset[Capability]:
        found = state.plan_book.options(0, state.spec(0))
        assert found is not None
        return found.bounds.offers

    assert offers() == {*ALWAYS}
    offer(world, *EVERY)
    assert offers() == {*EVERY}
    named = a_model("named", 8, offers=frozenset({Capability.DATA, Capability.TENSOR}))
    world = scene().submit(named).decide()
    state = world.brain.state
    offer(world, *EVERY, job="named")
    assert offers() == {Capability.DATA, Capability.TENSOR}


def test_no_plan_is_tried_twice_also_not_what_was_asked_for() -> None:
    world = beside(7).stay_silent().finish("other").decide()
    tried = 0
    while len(asked := world.all(Resize, "job")) > tried:
        tried = len(asked)
        world.refuse("job", Verb.RESIZE, serial=asked[-1].serial).expect("job", runs)
        world.wait(400.0)
    plans = [one.assignment.plan for one in asked]
    assert len(plans) == len(set(plans)) > 1


def test_a_plan_that_is_not_reached_is_not_tried_again() -> None:
    world = beside(7).stay_silent().finish("other").decide()
    asked = world.last(Resize, "job")
    world.refuse("job", Verb.RESIZE, serial=asked.serial).expect("job", runs)
    before = plan_of(world)
    assert before.data == 1
    world.wait(5_000.0)
    tried = [one.assignment.plan for one in world.all(Resize, "job")]
    assert tried.count(asked.assignment.plan) == 1
    assert plan_of(world) == before


def test_a_plan_that_was_not_even_begun_may_be_tried_again() -> None:
    """A node that it was to grow onto was not well: that says nothing against the plan."""
    world = beside(7).stay_silent().finish("other").decide()
    asked = world.last(Resize, "job")
    why, epoch = "n1: disk: dead", world.epoch("job")
    world.send(
        InstructionRefused(
            world.now, JobId("job"), epoch, Verb.RESIZE, why, asked.serial, untried=True
        )
    )
    world.expect("job", runs).wait(5_000.0)
    tried = [one.assignment.plan for one in world.all(Resize, "job")]
    assert tried.count(asked.assignment.plan) > 1


def test_what_the_world_settled_on_is_the_old_plan() -> None:
    """Its agent gave up: the seats are there, and the plan is the one it had."""
    world = beside(7)
    slot = world.brain.state.slot_of[JobId("job")]
    before = world.brain.state.placement(slot)
    world.stay_silent().finish("other").decide()
    asked = world.last(Resize, "job")
    world.report("job", Phase.RUNNING, placement=before, serial=asked.serial)
    assert world.state("job") is State.RUNNING
    assert world.nodes("job") == {"n0": 1}
    assert asked.assignment.plan in world.brain.state.plan_book.entry(slot).unreached


def test_a_speed_of_before_is_not_taken_for_that_of_after() -> None:
    """What was measured on one GPU is told when the job has eight."""
    world = beside(7)
    late = JobMeasured(world.now, JobId("job"), world.epoch("job"), 1, 1, 1.0, 1e4, 1e6)
    world.finish("other").decide().expect("job", runs)
    book = world.brain.state.plan_book
    before = book.corrections
    world.send(late)
    assert book.corrections == before
    world.send(replace(late, gpus=world.nodes("job")["n0"]))
    assert book.corrections != before


def test_it_makes_room_and_trains_on() -> None:
    world = scene().submit(a_script()).decide()
    offer(world.wait(LONG), *EVERY).decide()
    assert world.nodes("job") == {"n0": 8}
    world.submit(a_job("short", 1)).decide()
    assert not world.all(Preempt)
    asked = world.last(Resize, "job").assignment
    assert 1 <= asked.width < 8
    assert asked.plan.fits_width(asked.width)
    world.expect("short", runs).expect("job", runs)


def test_it_makes_no_room_for_whom_no_seat_suits() -> None:
    world = scene().submit(a_script()).decide()
    offer(world.wait(LONG), *EVERY).decide()
    before = len(world.all(Resize))
    world.submit(a_job("odd", 1, types=(("other", 1.0),))).wait(1_000.0)
    assert len(world.all(Resize)) == before


def test_who_is_not_stopped_makes_room_all_the_same() -> None:
    world = scene().submit(a_script()).decide()
    offer(world.wait(LONG), *EVERY).decide()
    world.report("job", Phase.RUNNING, yields=False, done=1e6)
    world.submit(a_job("short", 1)).decide()
    assert not world.all(Preempt)
    world.expect("short", runs).expect("job", runs)


def test_a_brain_that_begins_takes_the_plan_on_record() -> None:
    """Another one had ordered it; that it was reached, the world tells when it looks."""
    world = scene().stay_silent().submit(a_script())
    there = Placement(tuple(Seat(NodeId("n0"), 1, number=number) for number in range(2)))
    world.report("job", Phase.RUNNING, epoch=1, placement=there, plan=ExecutionPlan(data=2))
    split = ExecutionPlan(data=1, tensor=2)
    world.report("job", Phase.RUNNING, epoch=1, placement=there, plan=split)
    assert plan_of(world) == split
