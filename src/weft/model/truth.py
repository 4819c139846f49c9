"""A truth: how a job really behaves, which only its world knows.

A simulated world, a trace, the laboratory and the benchmarks hold truths. Who decides never does:
`brain`, `policy` and `perf` cannot even import this module, and learn of a truth by what a world
reports. So a wrong claim is an ordinary case, and no benchmark can leak what it asks for.
"""

from dataclasses import dataclass
from typing import Protocol, Self

from weft.model.curve import Curve
from weft.model.host import HostCurve
from weft.model.ids import GpuType
from weft.model.loss import Loss
from weft.model.plan import ExecutionPlan
from weft.model.request import INDIFFERENT, GpuSpeed, JobRequest, Locality, WorkUnit
from weft.model.stages import StageProfile


@dataclass(frozen=True, slots=True)
class Work:
    """How much a job really has to do; see `WorkUnit` for what is counted."""

    amount: float
    unit: WorkUnit = WorkUnit.SECONDS


class StepTruth(Protocol):
    """How long a step of a job really takes under a plan, where its GPUs are."""

    def samples_per_second(
        self, plan: ExecutionPlan, gpus_by_node: tuple[int, ...], cores: float
    ) -> float:
        """With so many cores beside each GPU; 0 where the plan does not run there."""
        ...

    def as_asked(self, gpus: int) -> float:
        """Of so many GPUs on as few nodes as possible, under the plan as written."""
        ...


@dataclass(frozen=True, slots=True)
class Strain:
    """Shares of what the GPUs of a node have in common: the host's cores, PCIe, the network card.

    Of what a job takes, each of its GPUs takes so much; of what it minds, it is so much slower
    where others take all of it. The card matters to jobs on several nodes alone.
    """

    host: float = 0.0
    pcie: float = 0.0
    network: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTruth:
    """`asked_gpus` is the width at which a second of work takes a second.

    Without a `curve` the job scales without loss, without a `host` curve more cores than asked for
    do nothing, without `stages` it keeps a GPU busy all the time, and GPU types that are not named
    have speed 1. With `steps` its speed follows its plan, and nothing else. It `strains` what its
    neighbours on a node use too, and `minds` it when they do. Every
    `checkpoint_interval_seconds` of training it saves (0: never), and when it is stopped too if it
    `saves_on_demand`.
    """

    work: Work
    asked_gpus: int
    curve: Curve | None = None
    host: HostCurve | None = None
    loss: Loss | None = None
    stages: StageProfile | None = None
    steps: StepTruth | None = None
    gpu_types: tuple[GpuSpeed, ...] = ()
    locality: Locality = INDIFFERENT
    strains: Strain | None = None
    minds: Strain | None = None
    checkpoint_interval_seconds: float = 1800.0
    saves_on_demand: bool = False

    @classmethod
    def as_claimed(cls, request: JobRequest, amount: float) -> Self:
        """Of a job that has so much work and keeps whatever its request says."""
        return cls(
            work=Work(amount, request.unit),
            asked_gpus=request.width.asked_gpus,
            curve=None if request.curve is None else request.curve.curve,
            host=None if request.host is None else request.host.curve,
            stages=None if request.stages is None else request.stages.profile,
            gpu_types=request.gpu_types,
            locality=request.locality,
            checkpoint_interval_seconds=request.checkpoint_interval_seconds,
            saves_on_demand=request.saves_on_demand,
        )

    def relative_speed(self, width: int) -> float:
        """Speed on `width` GPUs, where the asked width is 1."""
        if width == self.asked_gpus:
            return 1.0
        if self.curve is None:
            return width / self.asked_gpus
        return self.curve.at(width) / self.curve.at(self.asked_gpus)

    def units_per_second(self, width: int) -> float:
        """Work done per second on `width` GPUs of speed 1, alone and well placed."""
        if self.work.unit is WorkUnit.SECONDS:
            return self.relative_speed(width)
        if self.steps is not None:
            return self.steps.as_asked(width)
        assert self.curve is not None, "samples without a curve"
        return self.curve.at(width)

    def type_speed(self, gpu_type: GpuType) -> float:
        return next((known.speed for known in self.gpu_types if known.type == gpu_type), 1.0)

    @property
    def seconds_as_asked(self) -> float:
        """How long all of it takes at the asked width; a job without GPUs takes its work."""
        pace = self.units_per_second(self.asked_gpus) if self.asked_gpus else 1.0
        return self.work.amount / pace
