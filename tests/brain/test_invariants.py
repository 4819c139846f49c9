"""Each promise is broken by hand, and the breach is found."""

from collections.abc import Callable

import pytest

from tests.builders import Scene, a_cluster, a_job, a_queue, given, jobs
from weft.brain.invariants import Breach, check, check_job, check_touched, demand
from weft.brain.state.brain_state import BrainState
from weft.model.decision import Assignment, Decision, Grant, Preemption
from weft.model.errors import InvariantBreach
from weft.model.ids import JobId
from weft.model.placement import Placement
from weft.model.state import State
from weft.policy.recipes import srtf


def a_healthy_scene() -> Scene:
    """Two jobs run on one of two nodes, one waits, one is pledged what another gives up."""
    scene = given(a_cluster(nodes=2, gpus=8)).with_recipe(srtf(min_run=0.0, spacing=1.0))
    scene.submit(a_job("a", 4, seconds=1.0), a_job("b", 4, seconds=2.0))
    scene.submit(a_job("long", 8, seconds=1e5)).decide().stay_silent()
    scene.submit(a_job("pledged", 8, seconds=9.0), a_job("waits", 8, seconds=1e6)).decide()
    assert check(scene.brain.state) == []
    return scene


def slot(state: BrainState, job: str) -> int:
    return state.slot_of[JobId(job)]


def first_row(state: BrainState, job: str) -> int:
    return state.seating.seat_rows[slot(state, job)][0]


def a_seat_grows(state: BrainState) -> None:
    row = first_row(state, "a")
    state.seats.gpus[row] = 5
    state.seating.held_on[int(state.seats.node[row])][row] = 5
    state.jobs.width[slot(state, "a")] = 5
    state.jobs.max_gpus[slot(state, "a")] = 5


def a_node_shrinks(state: BrainState) -> None:
    state.nodes.gpus[:] = 7


def a_pledge_too_many(state: BrainState) -> None:
    state.seats.releasing[first_row(state, "long")] = False


def a_seat_vanishes(state: BrainState) -> None:
    state.seats.gpus[first_row(state, "a")] = 3


def a_width_out_of_range(state: BrainState) -> None:
    state.jobs.min_gpus[slot(state, "a")] = 5


def a_waiting_job_holds_a_seat(state: BrainState) -> None:
    state.jobs.state[slot(state, "b")] = State.QUEUED
    state.jobs.reason[slot(state, "b")] = 1


def a_pledge_without_admission(state: BrainState) -> None:
    state.jobs.state[slot(state, "pledged")] = State.QUEUED


def a_running_job_with_a_pledge(state: BrainState) -> None:
    state.seats.pledged[first_row(state, "b")] = True


def a_seat_without_a_job(state: BrainState) -> None:
    state.jobs.active[slot(state, "a")] = False


def a_job_forgotten(state: BrainState) -> None:
    del state.slot_of[JobId("waits")]


def a_job_both_over_and_alive(state: BrainState) -> None:
    state.close(slot(state, "a"), State.SUCCEEDED, 5.0)
    state.slot_of[JobId("a")] = slot(state, "b")


def a_wait_without_reason(state: BrainState) -> None:
    state.jobs.reason[slot(state, "waits")] = 0


def a_reason_without_wait(state: BrainState) -> None:
    state.jobs.reason[slot(state, "a")] = 1


def a_pledge_on_a_lost_node(state: BrainState) -> None:
    state.nodes.present[state.seats.node[first_row(state, "pledged")]] = False


def a_pledge_on_a_cordoned_node(state: BrainState) -> None:
    state.nodes.cordoned[state.seats.node[first_row(state, "pledged")]] = True


def a_move_to_a_lost_node(state: BrainState) -> None:
    assignment = state.seating.assignments[slot(state, "a")]
    assert assignment is not None
    state.next_assignment[slot(state, "long")] = assignment
    state.nodes.present[state.node_row[assignment.placement.nodes[0]]] = False


def a_seat_narrows_without_a_word(state: BrainState) -> None:
    state.vacancy.room(counts_host=state.counts_host)
    state.seats.gpus[first_row(state, "a")] = 3


def a_waiting_job_uncounted(state: BrainState) -> None:
    state.queued -= 1


def a_range_uncounted(state: BrainState) -> None:
    state.jobs.max_gpus[slot(state, "a")] = 6


CORRUPTIONS: list[tuple[str, Callable[[BrainState], None]]] = [
    ("no GPU is given twice", a_seat_grows),
    ("no GPU is given twice", a_node_shrinks),
    ("no GPU is given twice", a_pledge_too_many),
    ("nothing is pledged on what is gone", a_pledge_on_a_lost_node),
    ("nothing is pledged on what is gone", a_pledge_on_a_cordoned_node),
    ("nothing is pledged on what is gone", a_move_to_a_lost_node),
    ("all or nothing", a_seat_vanishes),
    ("all or nothing", a_width_out_of_range),
    ("all or nothing", a_waiting_job_holds_a_seat),
    ("all or nothing", a_pledge_without_admission),
    ("all or nothing", a_running_job_with_a_pledge),
    ("all or nothing", a_seat_without_a_job),
    ("no job is lost", a_job_forgotten),
    ("no job is lost", a_job_both_over_and_alive),
    ("every wait has a reason", a_wait_without_reason),
    ("every wait has a reason", a_reason_without_wait),
    ("what is kept is what is there", a_seat_narrows_without_a_word),
    ("what is kept is what is there", a_waiting_job_uncounted),
    ("what is kept is what is there", a_range_uncounted),
]


@pytest.mark.parametrize(
    ("promise", "corrupt"), CORRUPTIONS, ids=lambda x: getattr(x, "__name__", "")
)
def test_a_broken_promise_is_found(promise: str, corrupt: Callable[[BrainState], None]) -> None:
    state = a_healthy_scene().brain.state
    corrupt(state)
    assert promise in [breach.promise for breach in check(state)]


def test_one_job_and_its_nodes_can_be_checked_alone() -> None:
    state = a_healthy_scene().brain.state
    for job in ("a", "b", "long", "pledged", "waits", "nobody"):
        assert check_job(state, JobId(job)) == []
    a_seat_grows(state)
    assert [breach.promise for breach in check_job(state, JobId("b"))] == ["no GPU is given twice"]
    assert "no GPU is given twice" in [breach.promise for breach in check_job(state, JobId("a"))]
    state = a_healthy_scene().brain.state
    a_seat_vanishes(state)
    (breach,) = check_job(state, JobId("a"))
    assert breach == Breach(
        "all or nothing", "job a is RUNNING at width 4 of 4..4 and holds 3, pledged 0"
    )


def test_a_lost_node_may_hold_more_than_it_has() -> None:
    state = a_healthy_scene().cancel("pledged").brain.state
    state.nodes.gpus[:] = 0
    state.nodes.present[:] = False
    assert check(state) == []
    assert check_job(state, JobId("a")) == []


def test_a_breach_raises_with_its_details() -> None:
    demand([])
    with pytest.raises(InvariantBreach, match="quota: too much; priority: upside down") as error:
        demand([Breach("quota", "too much"), Breach("priority", "upside down")])
    assert "journal" in error.value.hint


# --- decisions ----------------------------------------------------------------------------------


def a_grant(job: str) -> Grant:
    return Grant(JobId(job), Assignment(1, Placement(())))


def promises(state: BrainState, decision: Decision) -> list[str]:
    return [breach.promise for breach in check(state, decision)]


NAMED: list[tuple[str, str, Callable[[BrainState], None]]] = [
    ("a", "no GPU is given twice", a_seat_grows),
    ("pledged", "no GPU is given twice", a_pledge_too_many),
    ("pledged", "nothing is pledged on what is gone", a_pledge_on_a_lost_node),
    ("a", "all or nothing", a_seat_vanishes),
    ("pledged", "all or nothing", a_pledge_without_admission),
    ("a", "every wait has a reason", a_reason_without_wait),
]


@pytest.mark.parametrize(
    ("job", "promise", "corrupt"), NAMED, ids=lambda x: getattr(x, "__name__", "")
)
def test_what_a_decision_names_is_checked_alone(
    job: str, promise: str, corrupt: Callable[[BrainState], None]
) -> None:
    state = a_healthy_scene().brain.state
    named = Decision(0.0, grants=(a_grant(job),))
    assert check_touched(state, named) == []
    corrupt(state)
    assert promise in [breach.promise for breach in check_touched(state, named)]
    assert check_touched(state, Decision(0.0)) == [], "it names nobody"


def test_a_queue_that_was_given_too_much_is_found() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).with_queues(a_queue("default", limit=4), a_queue("b"))
    scene.submit(*jobs(4)).decide()
    state = scene.brain.state
    granted = Decision(0.0, grants=(a_grant("job0"),))
    assert promises(state, granted) == []
    state.set_tree(state.tree.with_queue(a_queue("default", limit=3)))
    assert promises(state, granted) == ["quota"]
    assert promises(state, Decision(0.0)) == [], "nobody was given anything"


def test_a_preemption_for_nothing_is_found() -> None:
    state = a_healthy_scene().brain.state
    useless = Preemption(JobId("a"), JobId("waits"))
    assert promises(state, Decision(0.0, preemptions=(useless,))) == ["no idle preemption"]
    useful = Decision(0.0, (a_grant("waits"),), (useless,))
    assert promises(state, useful) == []


def test_the_preemption_of_a_firm_job_is_found() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("firm", preemptible=False)).decide()
    scene.submit(a_job("next")).decide()
    decision = Decision(0.0, (a_grant("next"),), (Preemption(JobId("firm"), JobId("next")),))
    assert promises(scene.brain.state, decision) == ["no idle preemption"]


def test_an_inverted_priority_is_found_unless_the_seats_were_lent() -> None:
    scene = given(a_cluster(nodes=1, gpus=8)).submit(a_job("high", priority=2), a_job("low"))
    scene.decide()
    for reclaim, found in ((False, ["priority"]), (True, [])):
        preempted = Preemption(JobId("high"), JobId("low"), reclaim)
        decision = Decision(0.0, (a_grant("low"),), (preempted,))
        assert promises(scene.brain.state, decision) == found


def test_what_is_taken_from_a_queue_that_has_no_more_than_its_guarantee_is_found() -> None:
    for guaranteed, found in ((4, True), (3, False)):
        queues = a_queue("a", guaranteed), a_queue("b", 4)
        scene = given(a_cluster(nodes=1, gpus=8)).with_queues(*queues)
        scene.submit(a_job("mine", 4, queue="a"), a_job("theirs", 4, queue="b")).decide()
        state = scene.brain.state
        state.seating.mark_releasing(slot(state, "mine"))
        taken = Preemption(JobId("mine"), JobId("theirs"), reclaim=True)
        given_to = Grant(JobId("theirs"), Assignment(4, Placement(())))
        promises = {breach.promise for breach in check(state, Decision(0.0, (given_to,), (taken,)))}
        assert ("guarantee" in promises) is found


def test_whoever_moves_held_its_seats_while_others_were_reclaimed() -> None:
    scene = given(a_cluster(nodes=1, gpus=9)).with_queues(a_queue("a", 4), a_queue("b", 4))
    scene.submit(*(a_job(name, gpus, queue="a") for name, gpus in (("mine", 4), ("moved", 1))))
    state = scene.submit(a_job("theirs", 4, queue="b")).decide().brain.state
    for name in ("mine", "moved"):
        state.seating.mark_releasing(slot(state, name))
    taken = Preemption(JobId("mine"), JobId("theirs"), reclaim=True)
    given_to = Grant(JobId("theirs"), Assignment(4, Placement(())))
    for moves, found in (((), True), ((a_grant("moved"),), False)):
        decision = Decision(0.0, (given_to,), (taken,), moves=moves)
        assert ("guarantee" in {breach.promise for breach in check(state, decision)}) is found
