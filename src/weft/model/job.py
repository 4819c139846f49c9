"""A job as a row of a workload: what was asked for, beside how it really behaves.

The two halves never meet in a decision. The request is what a world hands to the brain, the truth
is what the world itself goes by.
"""

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

from weft.model.claim import ClaimSource, CurveClaim, HostClaim, PlanClaim, StageClaim, WorkClaim
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.host import HostCurve
from weft.model.ids import JobId, QueueId, TenantId
from weft.model.loss import Loss
from weft.model.plan import ExecutionPlan
from weft.model.request import (
    GpuSpeed,
    JobRequest,
    Locality,
    Width,
    WorkUnit,
    demand_amount,
    demand_cores,
)
from weft.model.stages import StageProfile
from weft.model.suit import Demand
from weft.model.truth import JobTruth, StepTruth, Work

FROM_TRACE = ClaimSource.TRACE
LINEAR, ENOUGH = CurveClaim.linear(FROM_TRACE), HostClaim.indifferent(FROM_TRACE)
"""What most rows claim of their curve and of their cores, made once."""


class Asked(TypedDict, total=False):
    """What may be asked for beside name and width: fields of a request that claim nothing."""

    submit_seconds: float
    tenant: TenantId
    queue: QueueId
    priority: int
    cpus: float
    cpus_per_gpu: float
    memory_gib: float
    memory_gib_per_gpu: float
    gpu_types: tuple[GpuSpeed, ...]
    locality: Locality
    max_nodes: int | None
    demand: Demand
    plans: tuple[ExecutionPlan, ...]
    checkpoint_interval_seconds: float
    preemptible: bool
    yields: bool
    shareable: bool
    splits: PlanClaim | None
    guaranteed: bool
    max_retries: int
    model: str
    program: str


@dataclass(frozen=True, slots=True)
class Job:
    """A request and its truth, which count work in one unit and from one width."""

    request: JobRequest
    truth: JobTruth

    def __post_init__(self) -> None:
        request, truth = self.request, self.truth
        demand_amount(request.id, truth.work.amount)
        if truth.work.unit is not WorkUnit.SECONDS and truth.curve is None and truth.steps is None:
            raise SpecError(
                f"job {self.id} counts {truth.work.unit} but has no curve",
                hint=f"give {truth.work.unit}/s by width",
            )
        if truth.host is not None:
            demand_cores(request.id, request.cpus_per_gpu)
        alike = request.width.asked_gpus == truth.asked_gpus
        if not alike or request.unit is not truth.work.unit:
            raise SpecError(
                f"request and truth of job {self.id} count work differently",
                hint="give both the same unit and the same asked width",
            )

    @classmethod
    def told(  # noqa: PLR0913 - a row has that many columns, all by name
        cls,
        *,
        id: JobId,
        width: Width,
        work: Work,
        curve: Curve | None = None,
        host: HostCurve | None = None,
        loss: Loss | None = None,
        stages: StageProfile | None = None,
        steps: StepTruth | None = None,
        tell_work: bool = True,
        tell_curve: bool = True,
        tell_host: bool = True,
        saves_on_demand: bool | None = None,
        **asked: Unpack[Asked],
    ) -> "Job":
        """A job that behaves as it says; what is not told it claims nothing of.

        Jobs with a range of GPUs run under Weft's own runtime, which saves on demand; of others
        that is not expected, unless it is said.
        """
        saves = width.elastic if saves_on_demand is None else saves_on_demand
        request = JobRequest(
            id=id,
            width=width,
            unit=work.unit,
            work=WorkClaim(work.amount, FROM_TRACE) if tell_work else None,
            curve=_curve_claim(curve, work.unit) if tell_curve else None,
            host=_host_claim(host) if tell_host else None,
            stages=None if stages is None else StageClaim(stages, FROM_TRACE),
            target_loss=None if loss is None else loss.target,
            saves_on_demand=saves,
            **asked,
        )
        truth = JobTruth(
            work=work,
            asked_gpus=width.asked_gpus,
            curve=curve,
            host=host,
            loss=loss,
            stages=stages,
            steps=steps,
            gpu_types=request.gpu_types,
            locality=request.locality,
            checkpoint_interval_seconds=request.checkpoint_interval_seconds,
            saves_on_demand=saves,
        )
        return cls(request, truth)

    def saving_on_demand(self) -> "Job":
        """The same job, losing nothing when it is stopped: what published simulators assume."""
        return Job(
            replace(self.request, saves_on_demand=True), replace(self.truth, saves_on_demand=True)
        )

    @property
    def id(self) -> JobId:
        return self.request.id

    @property
    def width(self) -> Width:
        return self.request.width

    @property
    def tenant(self) -> TenantId:
        return self.request.tenant

    @property
    def submit_seconds(self) -> float:
        return self.request.submit_seconds

    @property
    def work(self) -> Work:
        """What it really has to do."""
        return self.truth.work


def _curve_claim(curve: Curve | None, unit: WorkUnit) -> CurveClaim | None:
    """Samples or steps without a curve are no claim; the row is refused for them."""
    if curve is None and unit is not WorkUnit.SECONDS:
        return None
    return LINEAR if curve is None else CurveClaim(curve, FROM_TRACE)


def _host_claim(host: HostCurve | None) -> HostClaim:
    return ENOUGH if host is None else HostClaim(host, FROM_TRACE)
