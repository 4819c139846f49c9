"""Plans on Kubernetes: whoever dies in a change of one, in the end the job computes as decided."""

from dataclasses import replace
from typing import Final

import pytest

from tests.kube.operator.small_world import SmallWorld
from tests.language_model import MODEL
from weft.kube.reports.payload import OrderAnswer
from weft.model.capability import Capability
from weft.model.ids import JobId
from weft.model.plan import AS_WRITTEN, ExecutionPlan

RECIPE: Final = "rubick(spacing=0.5, budget=1.0, gate=0.5)"
COMMANDS: Final = {"data": "train --dp {data}", "tensor": "train --tp {tensor}"}
MOMENTS: Final = 11  # writes from the first of the stop to the last of the start
SWITCHING: Final = 18  # the same of a switch to two GPUs and of one back
SOON_SECONDS: Final = 60.0


def of_flags() -> SmallWorld:
    """A program of flags on the one GPU that two others leave, for two minutes."""
    world = SmallWorld({"n0": 2, "n1": 2}, RECIPE, live=False)
    for name, gpus in (("wide", "2"), ("beside", "1")):
        world.submit(name, gpus)
    world.submit("job", "1..2", model=MODEL, plans=COMMANDS, duration="10h")
    for _ in range(60):
        world.act(2.0)
        world.kubelets()
    assert (world.state("job"), world.placement("job").width) == ("Running", 1)
    return world


@pytest.mark.parametrize("moment", range(MOMENTS))
def test_an_operator_that_dies_in_a_restart_for_a_plan_keeps_nobody_waiting(moment: int) -> None:
    """The next one knows what jobs have had, by which changes are paid for, and goes on."""
    world = of_flags()
    world.cancel("beside")
    world.crash_after = moment
    began = world.now
    while world.state("job") != "Running" or world.placement("job").width != 2:
        world.act(1.0)
        world.kubelets()
        assert world.now - began < SOON_SECONDS, f"{world.state('job')} after {moment} writes"
    assert world.crashes == 1
    assert world.observed("job").epoch == 2
    plan = world.observed("job").plan
    assert plan is not None
    assert plan.fits_width(2)


EVERY: Final = tuple(Capability(name) for name in ("data", "fsdp2", "tensor", "pipeline"))


def of_a_script() -> SmallWorld:
    """One that trains with the library on the one GPU that two others leave, long since."""
    world = SmallWorld({"n0": 2, "n1": 2}, RECIPE, offers=EVERY)
    for name, gpus in (("wide", "2"), ("beside", "1")):
        world.submit(name, gpus)
    world.submit("job", "1..2", model=MODEL, duration="10h", checkpoint={"path": "/ckpt"})
    for _ in range(60):
        world.act(2.0)
        world.kubelets()
    assert (world.state("job"), world.placement("job").width) == ("Running", 1)
    return world


def test_a_job_goes_to_other_plans_and_widths_while_it_trains() -> None:
    world = of_a_script()
    world.cancel("beside")
    world.settle()
    check(world, 2)
    world.submit("short", "1")
    world.settle()
    check(world, 1)
    assert world.state("short") == "Running"
    world.cancel("short")
    world.settle()
    check(world, 2)
    first, second, third = world.orders["job"]
    assert (first.plan, first.width, first.leaving) == ("tensor=2", 2, ())
    assert (second.plan, second.width, second.leaving) == ("replicated", 1, (1,))
    assert (third.plan, third.width) == ("tensor=2", 2)
    assert [order.serial for order in world.orders["job"]] == [1, 2, 3]


def test_no_pod_leaves_before_the_plan_is_reached_that_does_without_it() -> None:
    """The plan before needs all of its workers."""
    world = of_a_script()
    world.cancel("beside")
    world.settle()
    world.submit("short", "1")
    for _ in range(20):
        world.act(1.0)
    assert world.observed("job").order is not None
    assert world.alive("job") == {0, 1}
    assert world.alive("short") == set()
    world.settle()
    assert (world.alive("job"), len(world.alive("short"))) == ({0}, 1)


def test_a_node_that_fails_its_probe_says_nothing_against_a_plan_over_it() -> None:
    world = SmallWorld({"n0": 1, "n1": 1}, RECIPE, offers=EVERY)
    world.rules = replace(world.rules, gang_probe_gpus=2)
    world.submit("beside", "1")
    world.submit("job", "1..2", model=MODEL, duration="10h", checkpoint={"path": "/ckpt"})
    for_a_while(world, 60)
    (other,) = {*world.nodes} - {*world.placement("job").nodes}
    world.ill = {other}
    world.cancel("beside")
    for_a_while(world, 40)
    assert (world.alive("job"), world.orders) == ({0}, {})
    world.ill.clear()
    for _ in range(3):  # what it answered is forgotten, and the node looked at again
        for_a_while(world, 30)
        world.book.touch(other)
    for_a_while(world, 60)
    assert [(order.width, order.serial) for order in world.orders["job"]] == [(2, 2)]
    check(world, 2)


def for_a_while(world: SmallWorld, times: int) -> None:
    for _ in range(times):
        world.act(2.0)
        world.kubelets()


def test_a_plan_that_is_not_reached_costs_nothing_and_is_not_tried_again() -> None:
    world = of_a_script()
    world.stuck = True
    world.cancel("beside")
    world.settle()
    assert len({order.plan for order in world.orders["job"]}) == len(world.orders["job"])
    tried = len(world.orders["job"])
    check(world, 1)
    world.settle()
    assert len(world.orders["job"]) == tried
    assert world.observed("job").plan in (AS_WRITTEN, ExecutionPlan(data=1))


def test_a_head_that_never_answers_is_not_waited_for_without_end() -> None:
    world = of_a_script()
    world.cancel("beside")
    world.answers["job"] = OrderAnswer(0, reached=False)
    world._answer = lambda name: None  # type: ignore[method-assign]
    world.settle()
    assert world.observed("job").order is not None
    for _ in range(3):
        world.settle()
    assert world.observed("job").serial > 1, "another plan is tried"
    assert 0 in world.alive("job")


@pytest.mark.parametrize("moment", range(SWITCHING))
def test_a_crash_at_any_moment_of_two_switches_changes_nothing_in_the_end(moment: int) -> None:
    world = of_a_script()
    world.crash_after = moment
    world.cancel("beside")
    world.settle()
    check(world, 2)
    world.submit("short", "1")
    world.settle()
    check(world, 1)
    assert world.state("short") == "Running"
    assert world.crashes == 1


def check(world: SmallWorld, width: int) -> None:
    """It never stopped; what runs is what is on record, and what the brain believes."""
    job, slot = world.observed("job"), world.brain.state.slot_of[JobId("lab/job")]
    assert (job.state, job.epoch, job.order, job.joining) == ("Running", 1, None, frozenset())
    assert world.placement("job").width == width
    assert world.alive("job") == set(world.placement("job").numbers) == world.believed("job")
    assert world.brain.state.plans[slot] == (job.plan or AS_WRITTEN)
    assert job.plan is not None
    assert job.plan.fits_width(width)
