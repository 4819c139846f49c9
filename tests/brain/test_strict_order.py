"""Strict order in a long queue: only its head is put in order, and nobody is forgotten."""

from tests.builders import Scene, a_cluster, a_job, given, is_now, jobs, runs, waits_because
from weft.model.reason import ReasonCode
from weft.model.state import State
from weft.policy.recipes import fifo


def a_long_queue(count: int, *, nodes: int) -> Scene:
    scene = given(a_cluster(nodes=nodes, gpus=8)).with_recipe(fifo())
    return scene.submit(*jobs(count, "job", 1)).decide()


def test_all_of_a_long_queue_start_where_there_is_room() -> None:
    scene = a_long_queue(300, nodes=40)
    for i in (0, 63, 64, 65, 128, 299):
        scene.expect(f"job{i}", runs)


def test_a_long_queue_starts_in_order_until_the_first_that_does_not_fit() -> None:
    scene = a_long_queue(300, nodes=25)
    scene.expect("job199", runs).expect("job200", is_now(State.QUEUED))
    scene.expect("job299", waits_because(ReasonCode.PRIORITY_BEHIND))


def test_whoever_came_first_starts_first_when_room_comes_back() -> None:
    scene = a_long_queue(200, nodes=1).finish("job3").decide()
    scene.expect("job8", runs).expect("job9", is_now(State.QUEUED))
    scene.submit(a_job("last", 1)).decide().expect("last", is_now(State.QUEUED))
