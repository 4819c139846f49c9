"""A recipe: one composition of small choices that makes a whole scheduler.

Order says who goes first, size how wide, place where; the rest says when rounds happen, who may
pass a blocked job, and when a running job gives way. Nobody writes a second loop: the round in
`brain.round` serves them all.
"""

from dataclasses import dataclass
from enum import Enum

import numpy as np

from weft.model.snapshot import Bools, Floats
from weft.policy.host.shares import HostShares
from weft.policy.order.ranking import Order
from weft.policy.packing import Packing
from weft.policy.place.packing import Place, best_fit
from weft.policy.place.patience import PATIENT, Patience
from weft.policy.plans.planning import Planning
from weft.policy.share.sharing import Regrouping, Sharing
from weft.policy.size.requested import Size, as_requested
from weft.policy.waiting import BOUNDED, Waiting


class Passing(Enum):
    """Who may start while a job before it cannot."""

    NOBODY = "nobody"
    ANYBODY = "anybody"
    HARMLESS = "harmless"


@dataclass(frozen=True, slots=True)
class Rounds:
    """When to decide: at events, at least `spacing_seconds` apart, or every `period_seconds`."""

    spacing_seconds: float = 1.0
    period_seconds: float | None = None
    after_starts: bool = False


LITTLE_SECONDS = 300.0
"""So much training may be lost, once in a row, so that a better-ranked job need not wait."""


@dataclass(frozen=True, slots=True)
class Yielding:
    """When a running job gives way to one that ranks before it.

    A job keeps its seats for `min_run_seconds` after each start, which bounds how often it can be
    preempted (900 s: four times an hour), and up to its first checkpoint, unless it has hardly run
    yet. `reshuffle` places everybody anew in every round, as some published simulators do: it
    knows no quota. With `regrouping` it also says anew who takes turns with whom. With `by_loss`
    not the worst-ranked go first but, of the lowest priority, those who lose least by it.
    """

    min_run_seconds: float = 900.0
    reshuffle: bool = False
    regrouping: Regrouping | None = None
    by_loss: bool = False

    def may_go(self, ran_seconds: Floats, saves_every_seconds: Floats, spared: Bools) -> Bools:
        """Which jobs yield, so long after their start.

        Whoever is stopped before its first checkpoint has run for nothing. So it yields before it
        has run for long, or when it has saved; the first only once in a row, or jobs that take
        turns would never end.
        """
        early = (ran_seconds <= LITTLE_SECONDS) & ~spared
        kept = ran_seconds >= self.min_run_seconds
        found: Bools = kept & (early | (ran_seconds >= saves_every_seconds))
        return found

    def go_after_seconds(self, saves_every_seconds: Floats) -> tuple[Floats, Floats]:
        """How long after its start each job may begin to yield, early and when it has saved."""
        least = np.full(len(saves_every_seconds), self.min_run_seconds)
        early = np.where(least <= LITTLE_SECONDS, least, np.inf)
        return early, np.maximum(least, saves_every_seconds)


@dataclass(frozen=True, slots=True)
class Reserving:
    """The first gang that has been blocked for `after_seconds` gets nodes kept for it.

    Only gangs of `least_gpus`: whoever needs a single GPU takes the next that comes free, but
    behind a stream of such jobs a whole node never comes by chance.
    """

    after_seconds: float = 1800.0
    least_gpus: int = 2


@dataclass(frozen=True, slots=True)
class Resizing:
    """Widths of running jobs follow what `size` says, for those that can be resized live.

    Jobs with a range get their seats in pieces of `grain_gpus`, and grow and shrink by whole
    pieces: a pod's GPUs cannot change. A job does not grow within `hold_seconds` of its start or
    of its last resize, nor unless that is expected to save `worth` times what a resize has been
    measured to cost, or is believed to cost at least, and `least_saving` of its remaining time;
    `hold_share` of that time is held too, where it is longer. It shrinks at any time, because
    somebody waits. With a `packing` a job grows only to one node or to whole nodes. With `restarts`
    a job is stopped and started anew, wider if it cannot be resized live, on fewer nodes if it is
    spread, where that saves as many times what a restart costs. With `compact` it rather begins
    narrower than spread, and does not grow to another node for less than half of what its curve
    promises.
    With `explore` a job whose curve nobody knows is measured at several widths.
    """

    grain_gpus: int = 1
    hold_seconds: float = 60.0
    hold_share: float = 0.0
    worth: float = 0.0
    least_saving: float = 0.0
    least_cost_seconds: float = 0.0
    packing: Packing = Packing.NONE
    restarts: bool = False
    compact: bool = False
    explore: bool = True


@dataclass(frozen=True, slots=True)
class Defragmenting:
    """Running jobs move together for a gang to which enough GPUs are free, but not side by side.

    It is done once the gang's waiting has cost `worth` times as many GPU seconds as the moves do.
    Nobody moves within `stay_seconds` of its last start, so at most so often. The `most_asked`
    gangs that rank highest are looked at in a round.
    """

    worth: float = 2.0
    stay_seconds: float = 3600.0
    most_asked: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A named scheduler."""

    name: str
    order: Order
    size: Size = as_requested
    place: Place = best_fit
    patience: Patience = PATIENT
    rounds: Rounds = Rounds()
    passing: Passing = Passing.ANYBODY
    yielding: Yielding | None = None
    resizing: Resizing | None = None
    host: HostShares | None = None
    sharing: Sharing | None = None
    planning: Planning | None = None
    reserving: Reserving | None = None
    defragmenting: Defragmenting | None = None
    waiting: Waiting = BOUNDED
