"""What a job says of its speed, as the brain hears it."""

from dataclasses import replace

import pytest

from tests.local.builders import NOW, a_started, seats
from weft.agent.reports.profile import Profile
from weft.agent.reports.speed import Measured
from weft.brain.event import JobMeasured
from weft.local.reconcile.observation import ObservedWorker, Status
from weft.local.record.entry import Entry, Progress
from weft.local.status_writer import measured
from weft.model.claim import WorkClaim
from weft.model.stages import StageProfile
from weft.model.state import State

HALFWAY = Progress(step=99, total=200, metrics={"loss": 0.5})
TOLD = Status(2, 2, progress=HALFWAY)
SPEED = Measured(number=3, width=2, steps_per_second=4.0, seconds=10.0)


def two_wide() -> Entry:
    roomy = tuple(replace(seat, cpus=3.0) for seat in seats(0, 1))
    return a_started(State.RUNNING, 0, 1, seats=roomy)


def test_a_job_without_a_duration_counts_steps() -> None:
    event = measured(two_wide(), None, TOLD, SPEED, NOW)
    assert event == JobMeasured(
        NOW, two_wide().id, 1, 2, 1, 4.0, 10.0, 100.0, cpus=6.0, work_total=200.0, loss=0.5
    )


def test_a_job_with_a_duration_counts_its_seconds() -> None:
    event = measured(two_wide(), WorkClaim(1000.0), TOLD, SPEED, NOW)
    assert event is not None
    assert (event.units_per_second, event.work_done, event.work_total) == (20.0, 500.0, None)


def test_a_speed_is_a_fact_of_the_width_that_it_was_measured_at() -> None:
    event = measured(two_wide(), None, TOLD, replace(SPEED, width=3), NOW)
    assert event is not None
    assert (event.gpus, event.cpus) == (3, 0.0), "whose processors those were is not known"


def test_a_job_without_gpus_has_a_speed_too() -> None:
    alone = a_started(seats=(replace(seats(0)[0], gpus=0, cpus=2.0, devices=()),))
    event = measured(alone, None, TOLD, replace(SPEED, width=1), NOW)
    assert event is not None
    assert (event.gpus, event.cpus) == (0, 2.0)


@pytest.mark.parametrize(
    ("work", "progress"),
    [(WorkClaim(1000.0), Progress(step=99)), (None, Progress(total=200))],
)
def test_what_cannot_be_counted_is_not_told(work: WorkClaim | None, progress: Progress) -> None:
    assert measured(two_wide(), work, Status(2, 2, progress=progress), SPEED, NOW) is None


PROFILE = Profile(2, 0.5, 0.1, 0.05, 0.3, 0.2, peak_bytes=1 << 30)


def test_what_steps_do_alone_is_told_with_a_speed() -> None:
    event = measured(two_wide(), None, replace(TOLD, profile=PROFILE), SPEED, NOW)
    assert event is not None
    assert event.stages == StageProfile(
        iteration_seconds=0.5,
        storage_seconds=0.1,
        cpu_seconds=0.05,
        gpu_seconds=0.3,
        network_seconds=0.2,
    )
    on_gpus = replace(TOLD, profile=PROFILE, workers=(ObservedWorker(0, "active", device=0),))
    event = measured(two_wide(), None, on_gpus, SPEED, NOW)
    assert event is not None and event.stages is not None
    assert event.stages.gpu_memory_bytes == 1 << 30, "what a process has is memory of its GPU"


def test_steps_of_another_width_or_beyond_all_measure_tell_nothing() -> None:
    for profile in (replace(PROFILE, width=1), replace(PROFILE, step_seconds=1e9)):
        event = measured(two_wide(), None, replace(TOLD, profile=profile), SPEED, NOW)
        assert event is not None and event.stages is None


def test_what_steps_do_in_turns_is_told_apart() -> None:
    event = measured(two_wide(), None, replace(TOLD, profile_in_turns=PROFILE), SPEED, NOW)
    assert event is not None and event.stages is None
    assert event.stages_in_turns is not None
    assert event.stages_in_turns.gpu_seconds == PROFILE.gpu_seconds


def test_a_speed_in_company_is_told_as_such() -> None:
    event = measured(two_wide(), WorkClaim(1000.0), TOLD, replace(SPEED, shared=True), NOW)
    assert event is not None
    assert (event.shared_steps_per_second, event.units_per_second) == (4.0, 20.0)
    event = measured(two_wide(), None, TOLD, SPEED, NOW)
    assert event is not None and event.shared_steps_per_second is None
