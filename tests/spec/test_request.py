"""From a job file to the request that the brain gets."""

from dataclasses import replace

import pytest

from weft.model.claim import ClaimSource, CurveClaim, HostClaim, StageClaim, WorkClaim
from weft.model.errors import SpecError
from weft.model.ids import JobId, QueueId, TenantId
from weft.model.request import GpuSpeed, JobRequest, Width
from weft.model.stages import StageProfile
from weft.spec.reading import parse_job_file
from weft.spec.request import to_request


def job_of(text: str) -> JobRequest:
    file = parse_job_file(text)
    return to_request(file, id=JobId("lab/vit"), tenant=TenantId("lab"), submit_seconds=12.5)


def test_everything_that_was_written_is_known() -> None:
    text = """
    run: x
    resources: {gpus: 4..16, gpu_type: [H100, A100], cpus_per_gpu: 8, memory_per_gpu: 64GiB}
    nodes: 2
    queue: research
    priority: 7
    preemptible: false
    duration: 2h
    retry: {limit: 1}
    checkpoint: {every: 10m}
    shareable: true
    stages: {storage_seconds: 0.5, gpu_seconds: 1, step_seconds: 1.2, gpu_memory: 9GiB}
    """
    job = job_of(text)
    stages = StageProfile(
        iteration_seconds=1.2, storage_seconds=0.5, gpu_seconds=1.0, gpu_memory_bytes=9 * 2**30
    )
    assert replace(job, program="") == JobRequest(
        id=JobId("lab/vit"),
        tenant=TenantId("lab"),
        queue=QueueId("research"),
        submit_seconds=12.5,
        width=Width(4, 16, 16),
        work=WorkClaim(7200.0, ClaimSource.USER),
        priority=7,
        cpus_per_gpu=8.0,
        memory_gib_per_gpu=64.0,
        gpu_types=(GpuSpeed("H100"), GpuSpeed("A100")),  # type: ignore[arg-type]
        max_nodes=2,
        checkpoint_interval_seconds=600.0,
        preemptible=False,
        max_retries=1,
        curve=None,
        host=HostClaim.indifferent(),
        saves_on_demand=True,
        stages=StageClaim(stages, ClaimSource.USER),
        shareable=True,
    )
    assert job.program


def test_what_was_not_written_is_usual() -> None:
    job = job_of("run: x")
    assert job.width == Width.fixed(1)
    assert job.work is None
    assert not job.saves_on_demand
    assert (job.shareable, job.stages) == (False, None)
    assert (job.max_nodes, job.gpu_types, job.checkpoint_interval_seconds) == (None, (), 1800.0)


def test_a_job_without_gpus() -> None:
    job = job_of("run: x\nresources: {gpus: 0, cpus: 16, memory: 32GiB}")
    assert job.width == Width.fixed(0)
    assert (job.cpus, job.memory_gib, job.cpus_per_gpu) == (16.0, 32.0, 0.0)


# --- how it scales --------------------------------------------------------------------------------


@pytest.mark.parametrize("gpus", ["1", "8", "8..8", "1..8"])
def test_how_fast_it_is_is_left_to_be_learnt(gpus: str) -> None:
    """At one width too: what is left of the steps that a script states hangs on it."""
    assert job_of(f"run: x\nresources: {{gpus: {gpus}}}").curve is None


def test_a_job_without_gpus_has_nothing_to_learn() -> None:
    asked = job_of("run: x\nresources: {gpus: 0, cpus: 4}")
    assert asked.curve == CurveClaim.linear()


# --- which program it is --------------------------------------------------------------------------


def program(text: str) -> str:
    return job_of(text).program


def test_equal_commands_in_equal_images_are_one_program() -> None:
    one = program("run: python train.py\nimage: torch:2")
    wider = "resources: {gpus: 1..8}\npriority: 3\nduration: 2h"
    assert program(f"run: python train.py\nimage: torch:2\n{wider}") == one
    file = parse_job_file("run: python train.py\nimage: torch:2")
    other = to_request(file, id=JobId("else/b"), tenant=TenantId("else"), submit_seconds=99.0)
    assert other.program == one, "whoever submits it, and when"


def test_another_command_image_or_folder_is_another_program() -> None:
    found = {
        program(text)
        for text in (
            "run: python train.py",
            "run: python train.py --lr 2",
            "run: python train.py\nimage: torch:2",
            "run: python train.py\nimage: torch:3",
            "run: python train.py\nworkdir: /data",
            "run: /datapython train.py",
        )
    }
    assert len(found) == 6
    assert all(found)


def test_a_fingerprint_is_the_same_tomorrow() -> None:
    """It is compared between runs of Weft: no salt may be in it."""
    assert program("run: x") == "7dee234d0bf46478"


# --- in whose company -----------------------------------------------------------------------------


def test_a_step_without_a_length_is_as_long_as_its_stages() -> None:
    job = job_of("run: x\nstages: {storage_seconds: 0.25, network_seconds: 0.5}")
    assert job.stages is not None
    assert job.stages.profile.iteration_seconds == 0.75
    assert job.stages.profile.gpu_memory_bytes is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stages: {}", "no time"),
        ("stages: {gpu_seconds: 0}", "no time"),
        ("stages: {gpu_seconds: -1}", "gpu_seconds"),
        ("stages: {gpu_seconds: .nan}", "gpu_seconds"),
        ("stages: {gpu_seconds: 90000}", "gpu_seconds"),
        ("stages: {gpu_seconds: 2, step_seconds: 1}", "longer than the step of 1 s"),
        ("stages: {gpu_seconds: 1, gpu_memory: 9}", "gpu_memory"),
        ("stages: {gpu_seconds: 1, gpu_memory: 900TB}", "gpu_memory"),
        ("stages: {gpu: 1}", "gpu"),
        ("shareable: 1", "shareable"),
        ("shareable: true\nresources: {gpus: 0, cpus: 1}", "none to share"),
    ],
)
def test_stages_that_cannot_be_are_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(SpecError, match=said) as raised:
        job_of(f"run: x\n{text}")
    assert raised.value.hint
