"""How a job computes is part of its assignment, and stays so whatever happens to its seats."""

from tests.builders import Scene, a_cluster, a_job, given, runs, seats
from weft.brain.event import Phase, Verb
from weft.brain.instruction import Preempt, Resize, Start
from weft.model.ids import JobId, NodeId
from weft.model.placement import Placement, Seat
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.request import Locality
from weft.policy.recipes import maxmin, weave

BY_TWO = ExecutionPlan(tensor=2, recompute=True)
TWO_NODES = a_cluster(nodes=2, gpus=8)


def adopted(scene: Scene, *, gpus: int = 4, width: tuple[int, int] | None = None) -> Scene:
    """A job that a brain before this one let compute by tensor parallelism."""
    scene.stay_silent().submit(a_job("job", gpus, width=width, seconds=1e6))
    found = Placement(tuple(Seat(NodeId("n0"), 1, number=number) for number in range(gpus)))
    return scene.report("job", Phase.RUNNING, epoch=3, placement=found, plan=BY_TWO, live=True)


def assigned(scene: Scene) -> ExecutionPlan:
    state = scene.brain.state
    assignment = state.seating.assignments[state.slot_of[JobId("job")]]
    assert assignment is not None
    return assignment.plan


def test_a_job_computes_as_written_unless_somebody_said_otherwise() -> None:
    scene = given(TWO_NODES).submit(a_job("job", 4)).decide()
    assert scene.last(Start).assignment.plan == AS_WRITTEN


def test_it_survives_adoption() -> None:
    assert assigned(adopted(given(TWO_NODES)).expect("job", runs)) == BY_TWO


def test_it_survives_a_resize_that_is_decided() -> None:
    scene = adopted(given(TWO_NODES).with_recipe(maxmin(hold=0.0)), width=(1, 8)).decide()
    resize = scene.last(Resize)
    assert (resize.assignment.width, resize.assignment.plan) == (8, BY_TWO)
    scene.done("job", Verb.RESIZE, serial=resize.serial).expect("job", runs)
    assert assigned(scene) == BY_TWO


def test_it_survives_a_lost_node() -> None:
    scene = given(TWO_NODES).with_recipe(maxmin(hold=0.0)).stay_silent()
    scene.submit(a_job("job", 4, width=(2, 4)))
    found = Placement((Seat(NodeId("n0"), 2, number=0), Seat(NodeId("n1"), 2, number=1)))
    scene.report("job", Phase.RUNNING, epoch=3, placement=found, plan=BY_TWO, live=True)
    assert scene.lose("n1").last(Resize).assignment.plan == BY_TWO


def test_it_survives_a_restart_of_the_job() -> None:
    scene = adopted(given(TWO_NODES)).fail("job").tick(60.0).submit(a_job("nudge")).decide()
    start = scene.last(Start, "job")
    assert (start.epoch, start.assignment.plan) == (4, BY_TWO)


def test_it_survives_a_restart_of_the_brain_while_the_job_waits() -> None:
    scene = given(TWO_NODES).submit(a_job("job", 4))
    scene.report("job", Phase.ABSENT, epoch=3, plan=BY_TWO).decide()
    assert scene.last(Start).assignment.plan == BY_TWO


def test_it_survives_a_move() -> None:
    scene = given(a_cluster(nodes=3, gpus=4)).with_recipe(weave()).stay_silent()
    for name, found in {"a": seats(n0=2), "b": seats(n1=2)}.items():
        scene.submit(a_job(name, 2, seconds=1e6))
        scene.report(name, Phase.RUNNING, epoch=1, placement=found)
    scene.submit(a_job("job", 4, seconds=1e5, locality=Locality()))
    spread = Placement((Seat(NodeId("n0"), 2, number=0), Seat(NodeId("n1"), 2, number=1)))
    scene.report("job", Phase.RUNNING, epoch=3, placement=spread, plan=BY_TWO)
    while not scene.all(Preempt) and scene.now < 600.0:
        scene.tick(30.0)
    scene.done("job", Verb.PREEMPT, kept=10.0)
    start = scene.last(Start, "job")
    assert (start.assignment.placement.nodes, start.assignment.plan) == (("n2",), BY_TWO)


def test_the_next_job_in_the_row_begins_as_written() -> None:
    scene = adopted(given(TWO_NODES)).finish("job").submit(a_job("next")).decide()
    assert scene.last(Start, "next").assignment.plan == AS_WRITTEN
