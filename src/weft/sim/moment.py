"""A moment of a world: what it knows and its brain does not, as values.

A brain knows what it decided and what it was told. When a start that is under way will be there,
which wake-ups are set, and how far each run really is: only the world can say that. A world that
begins in the middle is given a brain and such a moment; truths are no part of it.
"""

from dataclasses import dataclass
from typing import NamedTuple

from weft.brain.event import Fed, Phase, Verb
from weft.model.decision import NO_PARTY
from weft.model.ids import JobId, PartyId
from weft.model.placement import Placement
from weft.model.plan import AS_WRITTEN, ExecutionPlan


class Order(NamedTuple):
    """In which order the things that a run awaits were put down; it decides between equal times."""

    change: int = 0
    end: int = 0
    news: int = 0


UNFED, ANY_ORDER = Fed(), Order()


@dataclass(frozen=True, slots=True, kw_only=True)
class InFlight:
    """One run. `work_done` is counted up to `since`, which lies ahead while a pause lasts.

    `party` names those who take turns with it. `ready_at` is when the start, the stop or the resize
    to `target` that is under way is answered. `saved` is what was checkpointed before `since`, and
    `begun` when training began. Without `units_per_second` a run is as fast as its truth says.
    `foreseen` is when its pace changed last, and `version` how often; `told` is its last
    measurement and `news` the number of the next.
    """

    job: JobId
    epoch: int
    phase: Phase
    placement: Placement
    plan: ExecutionPlan = AS_WRITTEN
    party: PartyId = NO_PARTY
    work_done: float = 0.0
    since: float = 0.0
    units_per_second: float | None = None
    saved: float = 0.0
    begun: float = 0.0
    ready_at: float = 0.0
    target: Placement | None = None
    serial: int = 0
    next_seat: int = 0
    fed: Fed = UNFED
    stop_verb: Verb = Verb.STOP
    foreseen: float = 0.0
    version: int = 0
    told: float = 0.0
    news: int = 0
    order: Order = ANY_ORDER


@dataclass(frozen=True, slots=True)
class Moment:
    """All runs in the order in which they began, and the wake-ups that were asked for."""

    runs: tuple[InFlight, ...] = ()
    wakes: tuple[float, ...] = ()
