"""A job: what a person asks for, before anybody has decided anything.

Widths are ranges from the first day (AFS, Pollux), plans are alternatives (Rubick), speeds are
given per GPU type (Gavel), and the cost of being spread is part of the job (Philly, section 4 of
the study: a 16-GPU job over eight servers instead of two loses a third of its utilisation).
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.host import HostCurve
from weft.model.ids import DEFAULT_QUEUE, DEFAULT_TENANT, GpuType, JobId, QueueId, TenantId
from weft.model.loss import Loss
from weft.model.plan import AS_WRITTEN, ExecutionPlan


class WorkUnit(StrEnum):
    """What a job's work is counted in."""

    SECONDS = "seconds"
    SAMPLES = "samples"


@dataclass(frozen=True, slots=True)
class Work:
    """How much a job has to do.

    `seconds` means seconds of training at the asked width, alone, well placed, on a GPU of
    speed 1; `samples` needs the job's curve to become time. `known` is False where only the
    world knows the amount: policies must then treat it as absent.
    """

    amount: float
    unit: WorkUnit = WorkUnit.SECONDS
    known: bool = True


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
class Job:
    """One training job as submitted. `gpu_types` empty means any type at speed 1.

    `cpus` and `memory_gib` are the needs of a job without GPUs; one with GPUs states them per GPU.
    `host` says how its speed hangs on them; without it a job needs what it asks for, and more does
    not speed it up. Of `loss` the brain may know the target; the course only the world knows. Jobs
    of one tenant with the same `program` are alike, so that one tells something of the next.
    """

    id: JobId
    width: Width
    work: Work
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
    curve: Curve | None = None
    host: HostCurve | None = None
    loss: Loss | None = None
    plans: tuple[ExecutionPlan, ...] = (AS_WRITTEN,)
    checkpoint_interval_seconds: float = 1800.0
    preemptible: bool = True
    shareable: bool = False
    max_retries: int = 3
    model: str = ""
    program: str = ""

    def __post_init__(self) -> None:
        if self.width.max_gpus == 0 and self.cpus <= 0:
            raise SpecError(f"job {self.id} asks for nothing", hint="ask for gpus or for cpus")
        if not (math.isfinite(self.work.amount) and self.work.amount >= 0):
            raise SpecError(
                f"job {self.id} has work of {self.work.amount}",
                hint="work is a finite number of seconds or samples, at least 0",
            )
        if self.work.unit is WorkUnit.SAMPLES and self.curve is None:
            raise SpecError(
                f"job {self.id} counts samples but has no curve", hint="give samples/s by width"
            )
        if self.host is not None and self.cpus_per_gpu <= 0:
            raise SpecError(
                f"job {self.id} has a host curve but asks for no cores",
                hint="say at how many cores per GPU its speed is 1",
            )

    def with_work(self, work: Work) -> "Job":
        return replace(self, work=work)

    def relative_speed(self, width: int) -> float:
        """Speed on `width` GPUs, where the asked width is 1; linear without a curve."""
        asked = self.width.asked_gpus
        if width == asked:
            return 1.0
        if self.curve is None:
            return width / asked
        return self.curve.at(width) / self.curve.at(asked)

    def units_per_second(self, width: int) -> float:
        """Work done per second on `width` GPUs of speed 1, alone and well placed."""
        if self.work.unit is WorkUnit.SECONDS:
            return self.relative_speed(width)
        assert self.curve is not None
        return self.curve.at(width)

    def type_speed(self, gpu_type: GpuType) -> float:
        """Speed on that GPU type; 0 where the job does not accept it."""
        if not self.gpu_types:
            return 1.0
        for accepted in self.gpu_types:
            if accepted.type == gpu_type:
                return accepted.speed
        return 0.0
