"""A decision: what one round wants changed.

It carries width, plan and placement for every job it touches, even where a recipe leaves them as
requested, so that elastic widths and plans are values and not new types.
"""

from dataclasses import dataclass

from weft.model.ids import JobId, NodeId, PartyId
from weft.model.placement import Placement
from weft.model.plan import AS_WRITTEN, ExecutionPlan

NO_PARTY = PartyId("")
"""Of a job that has its GPUs to itself."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a job is to run on: width, plan, seats and company, decided together.

    Jobs with the same `party` take turns on the same GPUs; nobody else has one.
    """

    width: int
    placement: Placement
    plan: ExecutionPlan = AS_WRITTEN
    party: PartyId = NO_PARTY


@dataclass(frozen=True, slots=True)
class Grant:
    """`job` gets `assignment`; where seats are still held it starts once they are free."""

    job: JobId
    assignment: Assignment


@dataclass(frozen=True, slots=True)
class Joining:
    """`job` takes turns with `company` on seats of theirs, as is foretold.

    `cycle_seconds` is how long it takes until all had their turns, `slowdowns` are those of the
    job and of its company in that order, none above `cap`; `aggregate` is the work of all by that
    of one alone.
    """

    job: JobId
    company: tuple[JobId, ...]
    assignment: Assignment
    cycle_seconds: float
    slowdowns: tuple[float, ...]
    aggregate: float
    cap: float


@dataclass(frozen=True, slots=True)
class Preemption:
    """`job` gives up its seats so that `beneficiary` can start; `reclaim` if they were lent."""

    job: JobId
    beneficiary: JobId
    reclaim: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one round.

    `fed` are the jobs that get other cores or memory beyond what they are owed; `reservation` names
    a blocked job and the nodes kept for it.
    """

    at: float
    grants: tuple[Grant, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    resizes: tuple[Grant, ...] = ()
    moves: tuple[Grant, ...] = ()
    joins: tuple[Joining, ...] = ()
    fed: tuple[JobId, ...] = ()
    reservation: tuple[JobId, tuple[NodeId, ...]] | None = None
