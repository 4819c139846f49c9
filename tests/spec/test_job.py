"""From a job file to the job that the brain knows."""

from weft.model.ids import JobId, QueueId, TenantId
from weft.model.job import GpuSpeed, Job, Width, Work
from weft.spec.job import to_job
from weft.spec.reading import parse_job_file


def job_of(text: str) -> Job:
    file = parse_job_file(text)
    return to_job(file, id=JobId("lab/vit"), tenant=TenantId("lab"), submit_seconds=12.5)


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
    """
    assert job_of(text) == Job(
        id=JobId("lab/vit"),
        tenant=TenantId("lab"),
        queue=QueueId("research"),
        submit_seconds=12.5,
        width=Width(4, 16, 16),
        work=Work(7200.0),
        priority=7,
        cpus_per_gpu=8.0,
        memory_gib_per_gpu=64.0,
        gpu_types=(GpuSpeed("H100"), GpuSpeed("A100")),  # type: ignore[arg-type]
        max_nodes=2,
        checkpoint_interval_seconds=600.0,
        preemptible=False,
        max_retries=1,
    )


def test_what_was_not_written_is_usual() -> None:
    job = job_of("run: x")
    assert job.width == Width.fixed(1)
    assert not job.work.known
    assert (job.max_nodes, job.gpu_types, job.checkpoint_interval_seconds) == (None, (), 1800.0)


def test_a_job_without_gpus() -> None:
    job = job_of("run: x\nresources: {gpus: 0, cpus: 16, memory: 32GiB}")
    assert job.width == Width.fixed(0)
    assert (job.cpus, job.memory_gib, job.cpus_per_gpu) == (16.0, 32.0, 0.0)
