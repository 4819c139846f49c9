"""A job's two halves: what is told of it, how it behaves, and who can see which."""

import subprocess
import sys
from dataclasses import replace

import pytest

from tests.builders import a_job
from weft.model.claim import ClaimSource, CurveClaim, HostClaim, WorkClaim
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.host import HostCurve
from weft.model.ids import GpuType, JobId
from weft.model.job import Job
from weft.model.loss import LossCurve
from weft.model.request import GpuSpeed, JobRequest, Locality, Width, WorkUnit
from weft.model.truth import JobTruth, Work

CURVE = Curve(((1, 10.0), (4, 30.0)))
HOST = HostCurve.by_cores([(2.0, 1.0), (4.0, 1.5)])
LOSS = LossCurve(0.1, 0.2, 0.5, target=0.9)
DECIDING = ("weft.brain", "weft.policy", "weft.perf")
HIDDEN = ("weft.model.truth", "weft.model.job", "weft.model.loss")


def told(**fields: object) -> Job:
    facts = {"work": Work(600.0, WorkUnit.SAMPLES), "curve": CURVE, "host": HOST, "loss": LOSS}
    words = {"id": JobId("job"), "width": Width(1, 4, 2), "cpus_per_gpu": 2.0}
    return Job.told(**{**words, **facts, **fields})  # type: ignore[arg-type]


# --- who can see it -------------------------------------------------------------------------------


@pytest.mark.parametrize("room", DECIDING)
def test_whoever_decides_cannot_even_name_the_truth(room: str) -> None:
    """All modules of the room, imported in a process of their own, bring nothing of it along."""
    code = (
        "import importlib, pkgutil, sys; room = importlib.import_module(sys.argv[1]);"
        "names = [m.name for m in pkgutil.walk_packages(room.__path__, room.__name__ + '.')];"
        "assert len(names) > 5; [importlib.import_module(name) for name in names];"
        "print(*sorted(sys.modules), sep='\\n')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, room], check=True, capture_output=True, text=True
    )
    assert "weft.model.request" in done.stdout.split()
    assert not {*HIDDEN} & {*done.stdout.split()}


# --- a row that tells everything, or not ----------------------------------------------------------


def test_a_row_tells_what_it_is_unless_it_is_kept_back() -> None:
    job = told()
    source = ClaimSource.TRACE
    assert job.request.work == WorkClaim(600.0, source)
    assert job.request.curve == CurveClaim(CURVE, source)
    assert job.request.host == HostClaim(HOST, source)
    assert (job.request.target_loss, job.request.unit) == (0.9, WorkUnit.SAMPLES)
    silent = told(tell_work=False, tell_curve=False, tell_host=False)
    claims = (silent.request.work, silent.request.curve, silent.request.host)
    assert claims == (None, None, None)
    assert silent.truth == job.truth


def test_to_claim_that_it_scales_without_loss_is_not_to_say_nothing() -> None:
    plain = Job.told(id=JobId("a"), width=Width(1, 4, 4), work=Work(60.0))
    assert plain.request.curve == CurveClaim.linear(ClaimSource.TRACE)
    assert plain.request.host == HostClaim.indifferent(ClaimSource.TRACE)
    silent = Job.told(id=JobId("a"), width=Width(1, 4, 4), work=Work(60.0), tell_curve=False)
    assert silent.request.curve is None


@pytest.mark.parametrize(
    ("width", "said", "saves"),
    [
        (Width(1, 4, 4), None, True),
        (Width.fixed(4), None, False),
        (Width.fixed(4), True, True),
        (Width(1, 4, 4), False, False),
    ],
)
def test_jobs_with_a_range_save_on_demand_unless_it_is_said(
    width: Width, said: bool | None, saves: bool
) -> None:
    job = Job.told(id=JobId("a"), width=width, work=Work(60.0), saves_on_demand=said)
    assert (job.request.saves_on_demand, job.truth.saves_on_demand) == (saves, saves)


def test_a_job_can_be_made_to_save_on_demand() -> None:
    plain = Job.told(id=JobId("a"), width=Width.fixed(4), work=Work(60.0))
    saving = Job.told(id=JobId("a"), width=Width.fixed(4), work=Work(60.0), saves_on_demand=True)
    assert plain != saving == plain.saving_on_demand()


def test_a_truth_may_differ_from_all_that_is_claimed() -> None:
    job = told()
    truth = replace(job.truth, locality=Locality(0.9, 0.9), curve=Curve(((1, 1.0),)))
    wrong = replace(job, truth=replace(truth, gpu_types=(GpuSpeed(GpuType("v100"), 0.5),)))
    assert wrong.request == job.request
    assert wrong.truth.units_per_second(4) == 1.0 != wrong.request.units_per_second(4)
    assert wrong.truth.type_speed(GpuType("v100")) == 0.5
    assert wrong.truth.type_speed(GpuType("h100")) == 1.0, "nothing is known against it"


def test_what_a_request_claims_can_be_taken_as_the_truth() -> None:
    request = replace(told().request, saves_on_demand=False, checkpoint_interval_seconds=60.0)
    truth = JobTruth.as_claimed(request, 99.0)
    assert (truth.work, truth.curve, truth.host) == (Work(99.0, WorkUnit.SAMPLES), CURVE, HOST)
    assert (truth.checkpoint_interval_seconds, truth.saves_on_demand) == (60.0, False)
    assert Job(request, truth).truth.seconds_as_asked == 99.0 / CURVE.at(2)


# --- what cannot be -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes", [{"asked_gpus": 1}, {"work": Work(5.0)}], ids=["another width", "another unit"]
)
def test_both_halves_count_work_alike(changes: dict[str, object]) -> None:
    job = told()
    with pytest.raises(SpecError, match="count work differently"):
        Job(job.request, replace(job.truth, **changes))  # type: ignore[arg-type]


def test_a_claim_of_samples_needs_speeds() -> None:
    with pytest.raises(SpecError, match="without speeds"):
        JobRequest(
            id=JobId("a"),
            width=Width.fixed(1),
            unit=WorkUnit.SAMPLES,
            curve=CurveClaim.linear(),
        )


def test_a_job_without_gpus_takes_its_work() -> None:
    assert a_job("host", 0, cpus=2.0, seconds=50.0).truth.seconds_as_asked == 50.0
