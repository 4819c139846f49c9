"""A copied brain goes its own way: a forecast disturbs nothing."""

from tests.builders import Scene, a_cluster, a_job, a_node, a_queue, a_request, given, jobs
from weft.brain.brain import Brain
from weft.brain.event import (
    Event,
    JobCancelled,
    JobFinished,
    JobSubmitted,
    NodeAdded,
    NodeLost,
    QueueChanged,
    Tick,
)
from weft.brain.invariants import check
from weft.model.ids import JobId, NodeId
from weft.model.snapshot import JobColumns
from weft.policy.recipes import srtf

WHAT_COMES: list[Event] = [
    JobFinished(5.0, JobId("job0"), 1),
    JobSubmitted(5.0, a_request("new", 4, seconds=1.0)),
    JobCancelled(5.0, JobId("job1")),
    Tick(6.0),
    NodeAdded(6.0, a_node("n9")),
    NodeLost(7.0, NodeId("n0")),
    QueueChanged(7.0, a_queue("default", limit=5)),
    QueueChanged(7.0, a_queue("more")),
    Tick(8.0),
    Tick(200.0),
]


def a_busy_scene() -> Scene:
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(*jobs(5, gpus=3, seconds=100.0)).decide().stay_silent()
    return scene.submit(a_job("short", 8, seconds=1.0)).decide()


def seen(brain: Brain) -> list[object]:
    """All that a brain knows, as plain values."""
    state = brain.state
    return [
        brain.now,
        brain.rounds,
        {name: getattr(state.jobs, name).tolist() for name in JobColumns.__slots__},
        state.seats.gpus.tolist(),
        state.seats.slot.tolist(),
        state.waits.booked.tolist(),
        state.finished.count,
        dict(state.slot_of),
        dict(state.closed),
        state.node_ids[:],
        state.nodes.present.tolist(),
        state.tree,
        [dict(rows) for rows in state.seating.held_on],
        [list(rows) for rows in state.seating.seat_rows],
        dict(state.seating.admitted),
        list(state.seating.assignments),
    ]


def test_what_happens_to_the_copy_does_not_happen_to_the_original() -> None:
    brain = a_busy_scene().brain
    before = seen(brain)
    twin = brain.copied()
    assert seen(twin) == before
    for event in WHAT_COMES:
        twin.handle(event)
    assert seen(brain) == before
    assert seen(twin) != before
    assert check(brain.state) == []


def test_what_happens_to_the_original_does_not_happen_to_the_copy() -> None:
    brain = a_busy_scene().brain
    twin = brain.copied()
    before = seen(twin)
    for event in WHAT_COMES:
        brain.handle(event)
    assert seen(twin) == before


def test_a_copy_decides_what_the_original_would_have_decided() -> None:
    brain = a_busy_scene().brain
    twin = brain.copied()
    assert [twin.handle(event) for event in WHAT_COMES] == [
        brain.handle(event) for event in WHAT_COMES
    ]
    assert seen(twin) == seen(brain)
