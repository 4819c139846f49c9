"""From what a person wrote to the request that the brain gets."""

from dataclasses import replace
from hashlib import blake2b

from weft.model.claim import CurveClaim, HostClaim, PlanClaim, StageClaim, WorkClaim
from weft.model.ids import GpuType, JobId, QueueId, TenantId
from weft.model.request import GpuSpeed, JobRequest, Width, WorkUnit
from weft.spec.job_file import JobSpec
from weft.spec.plan_rules import ANY_PROGRAM
from weft.spec.quantity import duration_seconds


def to_request(spec: JobSpec, *, id: JobId, tenant: TenantId, submit_seconds: float) -> JobRequest:
    """The job as submitted; the larger end of its GPU range is what it asks for.

    Nobody knows how fast it is before it is measured, at one width or at several. One with a range
    runs under Weft's own runtime, which saves when it is told to stop, unless it has commands by
    plan or runs as one process: these go on from whatever checkpoint there is.
    """
    asked = spec.resources
    width = asked.width
    splits = splits_of(spec)
    return JobRequest(
        id=id,
        width=Width(width.least, width.most, width.most),
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
        unit=WorkUnit.STEPS if splits is not None and not spec.duration else WorkUnit.SECONDS,
        work=_work(spec),
        curve=None if width.most else CurveClaim.linear(),
        host=HostClaim.indifferent(),
        stages=None if spec.stages is None else StageClaim(spec.stages.profile),
        splits=splits,
        shareable=spec.shareable,
        saves_on_demand=width.least < width.most and spec.plans is None and spec.starts_per_gpu,
        program=_program(spec),
    )


def splits_of(spec: JobSpec) -> PlanClaim | None:
    """What the job's model and its program allow of plans, if it says so.

    A script tells its offers when it runs; until then it is taken for one without hints.
    """
    if spec.model is None:
        return None
    if spec.plans is not None:
        return spec.plans.claim(spec.model)
    return replace(spec.model.claim(ANY_PROGRAM), open=spec.model.offers is None)


def _program(spec: JobSpec) -> str:
    """Jobs that run the same command in the same image are runs of one program."""
    declared = () if spec.nproc_per_node is None else (str(spec.nproc_per_node),)
    said = "\0".join((spec.image or "", spec.workdir or "", spec.run, *declared))
    return blake2b(said.encode(), digest_size=8).hexdigest()


def _work(spec: JobSpec) -> WorkClaim | None:
    if spec.duration is None:
        return None
    return WorkClaim(float(duration_seconds(spec.duration)))
