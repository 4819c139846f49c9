"""The table of a job's life: every edge is named here, every other one raises."""

import itertools

import pytest

from weft.brain.state.lifecycle import LEGAL, check_transition
from weft.model.errors import IllegalTransition, ProtocolError
from weft.model.ids import JobId
from weft.model.state import State

Q, A, S, R = State.QUEUED, State.ADMITTED, State.STARTING, State.RUNNING
RESIZING, STOPPING = State.RESIZING, State.STOPPING
DONE, FAILED, CANCELLED = State.SUCCEEDED, State.FAILED, State.CANCELLED

EDGES = {
    (Q, A): "a round pledged it seats",
    (Q, S): "a round gave it free seats",
    (Q, R): "a rebuilt brain found it running",
    (Q, STOPPING): "a rebuilt brain found an incarnation that must go",
    (Q, FAILED): "the retry budget is spent",
    (Q, CANCELLED): "cancelled before it ever ran",
    (A, S): "its pledged seats are free",
    (A, Q): "its pledged seats were lost",
    (A, CANCELLED): "cancelled while others made room for it",
    (S, R): "the start was acknowledged",
    (S, Q): "the start was refused",
    (S, STOPPING): "cancelled, or a node was lost, while it started",
    (S, DONE): "finished before the acknowledgement arrived",
    (S, FAILED): "failed while it started, and is not retried",
    (R, RESIZING): "its width changes",
    (R, STOPPING): "preempted, cancelled, or a worker was lost",
    (R, Q): "failed and is retried",
    (R, DONE): "finished",
    (R, FAILED): "failed for good",
    (RESIZING, R): "resized",
    (RESIZING, STOPPING): "stopped while it was resized",
    (RESIZING, Q): "failed while it was resized",
    (RESIZING, DONE): "finished while it was resized",
    (RESIZING, FAILED): "failed for good while it was resized",
    (STOPPING, Q): "preempted: it waits again",
    (STOPPING, A): "moved: its next seats are assigned",
    (STOPPING, DONE): "finished before it could be stopped",
    (STOPPING, CANCELLED): "cancelled, and now gone",
    (STOPPING, FAILED): "failed for good while it stopped",
}
OTHERS = sorted(set(itertools.product(State, State)) - set(EDGES))


@pytest.mark.parametrize(("old", "new"), sorted(EDGES))
def test_a_named_edge_is_legal(old: State, new: State) -> None:
    check_transition(JobId("job"), old, new)


@pytest.mark.parametrize(("old", "new"), OTHERS)
def test_every_other_edge_raises_and_names_the_job(old: State, new: State) -> None:
    with pytest.raises(IllegalTransition, match=f"job lost cannot go from {old.name} to") as error:
        check_transition(JobId("lost"), old, new)
    assert isinstance(error.value, ProtocolError)
    assert error.value.hint


def test_the_table_speaks_of_every_state_and_leaves_final_ones_alone() -> None:
    assert set(LEGAL) == set(State)
    assert {state for state, following in LEGAL.items() if not following} == {
        state for state in State if state.final
    }


def test_only_states_between_start_and_stop_hold_seats() -> None:
    assert [state for state in State if state.holds_seats] == [S, R, RESIZING, STOPPING]
