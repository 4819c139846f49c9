"""A request: what a person asks for, before anybody has decided anything.

Widths are ranges from the first day (AFS, Pollux), plans are alternatives (Rubick), speeds are
given per GPU type (Gavel), and what being spread costs is part of it (Philly, section 4 of the
study: a 16-GPU job over eight servers instead of two loses a third of its utilisation).

It is all that the brain gets of a job. How the job really behaves is its *truth*
(`weft.model.truth`), which only a world knows, and of which the brain hears by reports alone.
"""

import math
from dataclasses import dataclass
from enum import StrEnum

from weft.model.claim import CurveClaim, HostClaim, PlanClaim, StageClaim, WorkClaim
from weft.model.errors import SpecError
from weft.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, GpuType, JobId, QueueId, TenantId
from weft.model.plan import AS_WRITTEN, ExecutionPlan
from weft.model.suit import UNDEMANDING, Demand


class WorkUnit(StrEnum):
    """What a job's work is counted in.

    `SECONDS` are seconds of training at the asked width, alone, well placed, on a GPU of speed 1.
    `SAMPLES`, and `STEPS` of the optimizer, become time by the job's speed, which a curve or a
    model's shape claims or a measurement tells.
    """

    SECONDS = "seconds"
    SAMPLES = "samples"
    STEPS = "steps"


@dataclass(frozen=True, slots=True)
class Width:
    """GPUs of a job: the range it can run on, and what it asked for."""

    min_gpus: int
    max_gpus: int
    asked_gpus: int

    def __post_init__(self) -> None:
        if not 0 <= self.min_gpus <= self.asked_gpus <= self.max_gpus:
            raise SpecError(
                f"width {self.min_gpus}..{self.max_gpus} does not hold the asked {self.asked_gpus}",
                hint="write gpus: min..max with 0 <= min <= max",
            )

    @classmethod
    def fixed(cls, gpus: int) -> "Width":
        return cls(gpus, gpus, gpus)

    @property
    def elastic(self) -> bool:
        return self.min_gpus < self.max_gpus


@dataclass(frozen=True, slots=True)
class GpuSpeed:
    """A GPU type that the job accepts, and its speed relative to the job's reference type."""

    type: GpuType
    speed: float = 1.0


@dataclass(frozen=True, slots=True)
class Locality:
    """What being spread costs: slowdown per doubling of the nodes, and of the racks, used.

    Two servers instead of one cost about 15 %, eight about half (Philly); 0 means: no cost.
    """

    per_node_doubling: float = 0.15
    per_rack_doubling: float = 0.10

    def slowdown(self, *, nodes: int, fewest_nodes: int, racks: int = 1) -> float:
        """Factor >= 1 by which training is slower than on the fewest nodes in one rack."""
        over_nodes = math.log2(nodes / fewest_nodes) if nodes > fewest_nodes else 0.0
        over_racks = math.log2(racks) if racks > 1 else 0.0
        return (1.0 + self.per_node_doubling * over_nodes) * (
            1.0 + self.per_rack_doubling * over_racks
        )


INDIFFERENT = Locality(0.0, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRequest:
    """One job as submitted. `gpu_types` empty means any type at speed 1.

    `cpus` and `memory_gib` are the needs of a job without GPUs; one with GPUs states them per GPU.
    `work`, `curve`, `host` and `stages` are claims; None means that nobody has said anything, and
    what can be measured is measured. `target_loss` is where training is to end, if its owner names
    that. A job that `saves_on_demand` writes a checkpoint when it is told to stop; any other one
    falls back to its last. One that does not `yields` keeps its seats from those who rank before it
    until the world reports otherwise: it has saved something, or has had them long enough. Jobs of
    one tenant with the same `program` are alike, so one tells of the next. One that is `shareable`
    may take turns with others on the same GPUs.

    `splits` is what the job's model and program allow of plans. The first of `plans` is the one it
    was submitted with; where more are listed, no other is chosen. A `guaranteed` job never runs
    with less than what it asked for under that plan is foretold to do.
    """

    id: JobId
    width: Width
    submit_seconds: float = 0.0
    tenant: TenantId = DEFAULT_TENANT
    queue: QueueId = DEFAULT_QUEUE
    priority: int = 0
    cpus: float = 0.0
    cpus_per_gpu: float = 0.0
    memory_gib: float = 0.0
    memory_gib_per_gpu: float = 0.0
    gpu_types: tuple[GpuSpeed, ...] = ()
    locality: Locality = Locality()
    max_nodes: int | None = None
    demand: Demand = UNDEMANDING
    unit: WorkUnit = WorkUnit.SECONDS
    work: WorkClaim | None = None
    curve: CurveClaim | None = None
    host: HostClaim | None = None
    stages: StageClaim | None = None
    splits: PlanClaim | None = None
    guaranteed: bool = False
    target_loss: float | None = None
    plans: tuple[ExecutionPlan, ...] = (AS_WRITTEN,)
    checkpoint_interval_seconds: float = 1800.0
    saves_on_demand: bool = False
    preemptible: bool = True
    yields: bool = True
    shareable: bool = False
    max_retries: int = 3
    model: str = ""
    program: str = ""

    def __post_init__(self) -> None:
        if self.width.max_gpus == 0 and self.cpus <= 0:
            raise SpecError(f"job {self.id} asks for nothing", hint="ask for gpus or for cpus")
        if self.work is not None:
            demand_amount(self.id, self.work.amount)
        linear = self.curve is not None and self.curve.curve is None
        if self.unit is not WorkUnit.SECONDS and linear:
            raise SpecError(
                f"job {self.id} counts {self.unit} and claims a curve without speeds",
                hint=f"give {self.unit}/s by width, or claim nothing",
            )
        if self.host is not None and self.host.curve is not None:
            demand_cores(self.id, self.cpus_per_gpu)

    def units_per_second(self, width: int) -> float:
        """Work per second that is claimed of `width` GPUs of speed 1, alone and well placed.

        NaN where samples or steps are counted and nobody has claimed a speed. Of seconds there is
        one per second at the asked width, whoever says what; others are in proportion without a
        curve.
        """
        curve = None if self.curve is None else self.curve.curve
        asked = self.width.asked_gpus
        if self.unit is not WorkUnit.SECONDS:
            return math.nan if curve is None else curve.at(width)
        if width == asked:
            return 1.0
        return width / asked if curve is None else curve.at(width) / curve.at(asked)

    @property
    def saves_every_seconds(self) -> float:
        """Training that a stop can lose: 0 where it saves on demand, infinite where it never does.

        On average it is half of that.
        """
        if self.saves_on_demand:
            return 0.0
        interval = self.checkpoint_interval_seconds
        return interval if interval > 0 else math.inf

    def type_speed(self, gpu_type: GpuType) -> float:
        """Claimed speed on that GPU type; 0 where the job does not accept it."""
        if not self.gpu_types:
            return 1.0
        for accepted in self.gpu_types:
            if accepted.type == gpu_type:
                return accepted.speed
        return 0.0


def demand_amount(job: JobId, amount: float) -> None:
    """Work is a number, whoever says it."""
    if not (math.isfinite(amount) and amount >= 0):
        raise SpecError(
            f"job {job} has work of {amount}",
            hint="work is a finite number of seconds or samples, at least 0",
        )


def demand_cores(job: JobId, cpus_per_gpu: float) -> None:
    """A host curve is relative to what is asked for."""
    if cpus_per_gpu <= 0:
        raise SpecError(
            f"job {job} has a host curve but asks for no cores",
            hint="say at how many cores per GPU its speed is 1",
        )
