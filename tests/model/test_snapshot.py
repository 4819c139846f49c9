"""Columns and the snapshot: views that cannot be written to, and one row as an object."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.builders import a_cluster, a_job
from tests.builders import given as scene_of
from weft.model.snapshot import NodeColumns
from weft.model.state import State


@given(st.integers(0, 20), st.integers(0, 20))
def test_columns_grow_without_losing_anything(rows: int, more: int) -> None:
    columns = NodeColumns.empty(rows)
    columns.gpus[:] = np.arange(rows)
    bigger = columns.grown(rows + more)
    assert bigger.gpus.tolist() == [*range(rows), *([0] * more)]
    assert len(bigger.present) == rows + more


def test_a_frozen_view_shares_the_values_and_refuses_writing() -> None:
    columns = NodeColumns.empty(4)
    view = columns.frozen(2)
    columns.gpus[0] = 8
    assert view.gpus.tolist() == [8, 0]
    with pytest.raises(ValueError, match="read-only"):
        view.gpus[0] = 1
    assert columns.gpus.flags.writeable


def test_copied_columns_are_independent() -> None:
    columns = NodeColumns.empty(2)
    twin = columns.copied()
    columns.cpus[0] = 3.0
    assert twin.cpus.tolist() == [0.0, 0.0]


def test_slots_are_found_by_state() -> None:
    scene = scene_of(a_cluster(nodes=1, gpus=1)).submit(a_job("a"), a_job("b")).decide()
    snapshot = scene.brain.state.snapshot(scene.now)
    assert len(snapshot.slots()) == 2
    assert len(snapshot.slots(State.RUNNING)) == len(snapshot.slots(State.QUEUED)) == 1
    assert snapshot.slots(State.RUNNING, State.QUEUED).tolist() == snapshot.slots().tolist()
    assert snapshot.slots(State.STOPPING).tolist() == []


def test_service_and_work_are_carried_forward_to_now() -> None:
    scene = scene_of(a_cluster(nodes=1, gpus=8)).submit(a_job("job", 4, seconds=100.0)).decide()
    view = scene.brain.state.snapshot(30.0).job(0)
    assert (view.attained_gpu_seconds, view.remaining_seconds) == (120.0, 70.0)
    assert (view.state, view.width, view.epoch, view.id) == (State.RUNNING, 4, 1, "job")
    assert scene.brain.state.snapshot(100.0).job(0).remaining_seconds == 0.0


def test_a_job_that_exceeded_its_work_is_expected_to_need_as_much_more() -> None:
    scene = scene_of(a_cluster(nodes=1, gpus=8)).submit(a_job("job", 4, seconds=100.0)).decide()
    at_the_end, later = (scene.brain.state.snapshot(at) for at in (100.0, 500.0))
    one = np.array([0])
    assert later.remaining_seconds(one).tolist() == [400.0]
    assert at_the_end.exceeds_total(one).tolist() == [False]
    assert later.exceeds_total(one).tolist() == [True]


def test_what_nobody_knows_is_not_a_number() -> None:
    unknown = a_job("job", tell_work=False)
    scene = scene_of(a_cluster(nodes=1)).submit(unknown).decide()
    snapshot = scene.brain.state.snapshot(1.0)
    assert np.isnan(snapshot.remaining_seconds(np.array([0]))).all()


def test_an_empty_slot_holds_no_job() -> None:
    scene = scene_of(a_cluster(nodes=1)).submit(a_job("job")).decide().finish("job")
    with pytest.raises(AssertionError, match="holds no job"):
        scene.brain.state.snapshot(1.0).job(0)
