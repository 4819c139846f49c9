"""From what a person wrote to the job that the brain knows."""

from hashlib import blake2b
from typing import Final

from weft.model.curve import Curve
from weft.model.ids import GpuType, JobId, QueueId, TenantId
from weft.model.job import GpuSpeed, Job, Width, Work
from weft.spec.job_file import JobSpec
from weft.spec.quantity import duration_seconds

UNKNOWN_WORK: Final = Work(0.0, known=False)


def to_job(spec: JobSpec, *, id: JobId, tenant: TenantId, submit_seconds: float) -> Job:
    """The job as submitted; the larger end of its GPU range is what it asks for."""
    asked = spec.resources
    width = asked.width
    return Job(
        id=id,
        width=Width(width.least, width.most, width.most),
        work=_work(spec),
        submit_seconds=submit_seconds,
        tenant=tenant,
        queue=QueueId(spec.queue),
        priority=spec.priority,
        cpus=asked.cpus or 0.0,
        cpus_per_gpu=asked.cpus_per_gpu or 0.0,
        memory_gib=spec.memory_gib,
        memory_gib_per_gpu=spec.memory_gib_per_gpu,
        gpu_types=tuple(GpuSpeed(GpuType(name)) for name in asked.gpu_type or ()),
        max_nodes=spec.nodes,
        checkpoint_interval_seconds=float(spec.checkpoint_seconds),
        preemptible=spec.preemptible,
        max_retries=spec.retry.limit,
        curve=_curve(width.least, width.most),
        program=_program(spec),
    )


def _curve(least: int, most: int) -> Curve | None:
    """Nobody knows how a job scales before it has been measured; without loss, until then."""
    if least == most or most < 1:
        return None
    points = tuple((gpus, float(gpus)) for gpus in sorted({max(least, 1), most}))
    return Curve(points, known=False)


def _program(spec: JobSpec) -> str:
    """Jobs that run the same command in the same image are runs of one program."""
    said = "\0".join((spec.image or "", spec.workdir or "", spec.run))
    return blake2b(said.encode(), digest_size=8).hexdigest()


def _work(spec: JobSpec) -> Work:
    if spec.duration is None:
        return UNKNOWN_WORK
    return Work(float(duration_seconds(spec.duration)))
