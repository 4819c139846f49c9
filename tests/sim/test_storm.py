"""One large job that fails again and again drives few others out."""

import pytest

from benchmarks.failures.storm import ENDS, FAILURES, LARGE, lived, preempted
from weft.brain.brain import Settings

PART = 8


@pytest.mark.parametrize("cause", ENDS)
def test_a_large_job_that_fails_drives_out_two_others_a_failure_at_most(cause: str) -> None:
    record = lived(ENDS[cause], PART, Settings())
    failures = record.jobs[LARGE].failures
    assert failures >= FAILURES - 3
    assert preempted(record) <= 2 * failures


def test_without_what_is_kept_it_drives_out_as_many_as_have_taken_its_place() -> None:
    record = lived(ENDS["a service"], PART, Settings(keep_seats_seconds=0.0))
    assert preempted(record) > 5 * record.jobs[LARGE].failures
