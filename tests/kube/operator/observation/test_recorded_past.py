"""What a job has had, for an operator that comes after others."""

from typing import Any

import pytest

from tests.kube.looks import NOW, a_job
from weft.kube.operator.status.patches import stamp

WRITTEN = {"attainedGpuSeconds": 50.0, "updatedAt": stamp(NOW - 10.0)}


@pytest.mark.parametrize(
    ("state", "past", "had"),
    [
        ("Running", {}, 16 * 100.0),
        ("Running", WRITTEN, 50.0 + 16 * 10.0),
        ("Resizing", WRITTEN, 50.0 + 16 * 10.0),
        ("Running", WRITTEN | {"updatedAt": stamp(NOW - 300.0)}, 50.0 + 16 * 100.0),
        ("Running", {"attainedGpuSeconds": 50.0}, 50.0),  # by an operator that wrote no times
        ("Queued", WRITTEN, 50.0),
        ("Running", WRITTEN | {"updatedAt": stamp(NOW + 60.0)}, 50.0),  # another clock
    ],
)
def test_what_it_had_is_what_was_written_and_what_came_since(
    state: str, past: dict[str, Any], had: float
) -> None:
    decision = {"at": stamp(NOW - 100.0), "width": 16}
    job = a_job(state, 1, decision=decision, status={"past": past} if past else {})
    assert job.past_by(NOW).attained_gpu_seconds == pytest.approx(had)


def test_of_one_that_never_ran_there_is_nothing() -> None:
    assert a_job().past_by(NOW) == a_job().past
