"""A claim: what somebody says of a job beforehand. It may be missing, and it may be wrong.

A request carries claims and no facts, so that whoever decides has to live with a person's guess, a
row of a log and silence alike. What a claim is worth shows only when the job is measured.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from weft.model.capability import WITHOUT_HINTS, Capability, PlanFamily
from weft.model.curve import Curve
from weft.model.errors import SpecError
from weft.model.host import HostCurve
from weft.model.plan import ExecutionPlan
from weft.model.shape import ModelShape
from weft.model.stages import StageProfile


class ClaimSource(StrEnum):
    """Who says so."""

    USER = "user"
    """The owner, in the job file: an estimate, and often a generous one."""
    TRACE = "trace"
    """A row of a workload, which tells what was recorded: as right as the record."""
    MEASURED = "measured"
    """Workers of the job, or of an earlier run of its program."""
    IN_TURNS = "in turns"
    """The same while it took turns with others, so by little their doing too."""


@dataclass(frozen=True, slots=True)
class WorkClaim:
    """How much work there is in all, in the unit of the request."""

    amount: float
    source: ClaimSource = ClaimSource.USER


@dataclass(frozen=True, slots=True)
class CurveClaim:
    """How speed goes with the width; without a `curve`: as the GPUs, without loss.

    To claim that is not to say nothing. A job that claims it is believed, and one that claims
    nothing is measured.
    """

    curve: Curve | None = None
    source: ClaimSource = ClaimSource.USER

    @classmethod
    def linear(cls, source: ClaimSource = ClaimSource.USER) -> Self:
        return cls(None, source)


@dataclass(frozen=True, slots=True)
class HostClaim:
    """How speed hangs on cores and host memory; without a `curve`: what is asked for is enough.

    Of a job that claims nothing it is found out what more cores do.
    """

    curve: HostCurve | None = None
    source: ClaimSource = ClaimSource.USER

    @classmethod
    def indifferent(cls, source: ClaimSource = ClaimSource.USER) -> Self:
        return cls(None, source)


@dataclass(frozen=True, slots=True)
class StageClaim:
    """Where the time of an iteration goes at the asked width, alone.

    Of a job that claims nothing it is not known whose company it could bear, so it runs alone.
    """

    profile: StageProfile
    source: ClaimSource = ClaimSource.USER


@dataclass(frozen=True, slots=True)
class StepPoint:
    """One step that was measured: the plan, the GPUs by node, the cores beside each GPU."""

    plan: ExecutionPlan
    gpus_by_node: tuple[int, ...]
    cores: float
    seconds: float


@dataclass(frozen=True, slots=True)
class PlanClaim:
    """What a job's model is, and what its program can run; `batch` is the global batch in samples.

    Of a job that claims nothing the plan stays as written. `points` were measured beforehand, of
    this model on such nodes; without them steps are foretold from the shape alone. A job that has
    commands by `families` runs no plan that none of them carries. One that is `open` may turn out
    to offer more when it runs.
    """

    shape: ModelShape
    batch: int
    offers: tuple[Capability, ...] = tuple(sorted(WITHOUT_HINTS))
    points: tuple[StepPoint, ...] = ()
    source: ClaimSource = ClaimSource.USER
    families: tuple[PlanFamily, ...] = ()
    open: bool = False

    def __post_init__(self) -> None:
        if self.batch < 1:
            raise SpecError(
                f"a global batch of {self.batch} cannot be",
                hint="give the samples of one step, at least 1",
            )
