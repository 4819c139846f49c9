"""A climb: floors first, then the surplus, rung by rung, to whom a rule says.

AFS and Optimus differ in one thing, who is the next to climb. All else is here: who gets its
floor, which ladder each job stands on, and what becomes of a rung that costs more than is left.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from weft.model.menu import Menus
from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.packing import Packing
from weft.policy.size.bids import Bids
from weft.policy.size.floors import floors_and_more
from weft.policy.size.width_ladder import Ladders, Ranges, Stride
from weft.policy.supply import Purse, Supply

MOMENT_SECONDS = 1.0
"""Of service: who has had none counts as having had that."""

LEAST_SPEED = 1e-9


@dataclass(frozen=True, slots=True)
class Climb:
    """Jobs on the first rungs of their ladders; the rest is as in the bids.

    `pool` is that of each rung: jobs of different pools never share a ladder.
    """

    ladders: Ladders
    first: Ints
    work: Floats
    attained: Floats
    seq: Ints
    pool: Ints

    def expected_work(self) -> Floats:
        """Remaining work; of a job of unknown length as much again as its attained service.

        Attained service is GPU-seconds, so it is that many seconds on the first rung.
        """
        ladders, first = self.ladders, self.first
        served_seconds = np.maximum(self.attained, MOMENT_SECONDS) / ladders.width[first]
        served = served_seconds * np.maximum(ladders.speed[first], LEAST_SPEED)
        return np.where(self.work > 0.0, self.work, served)


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbing(ABC):
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing.

    Jobs move by `grain_gpus` from their least width, or between the widths that `packing` allows. A
    `cautious` hand-out reads a menu that is being learnt at its low end below the width that a job
    has and at its high end above it: slow to take away what may matter, quick to try what may help.
    With `running_first` jobs that run get their least before any that wait. Without `hull` jobs
    climb their menus as they are, step by step, and a dip holds them up: as published, for
    comparison. With `anew` jobs that cannot be resized live climb too, for they may be started anew
    wider.
    """

    grain_gpus: int = 1
    packing: Packing = Packing.NONE
    cautious: bool = False
    running_first: bool = False
    hull: bool = True
    anew: bool = False

    def __call__(self, snapshot: Snapshot, slots: Ints, supply: Supply) -> Ints:
        bids = self.weighed(snapshot, slots, Bids.of(snapshot, slots, supply))
        stride = Stride.on(snapshot.nodes, grain_gpus=self.grain_gpus, packing=self.packing)

        def climb_on(widths: Ints, purse: Purse) -> Ints:
            return self._climbed_all(snapshot.menus, bids, widths, stride=stride, purse=purse)

        return floors_and_more(supply, *self._claims(bids, stride), fill=climb_on)

    def weighed(self, snapshot: Snapshot, slots: Ints, bids: Bids) -> Bids:
        """The same bids, or some of them made to count for more or less."""
        return bids

    @abstractmethod
    def climbed(self, climb: Climb, purse: Purse) -> Ints:
        """The rung on which each job stands when what there is has been handed out."""

    def _claims(self, bids: Bids, stride: Stride) -> tuple[Ints, Ints]:
        """The least width of each job, and what it is owed before anybody else gets anything."""
        least = stride.least(bids.least, bids.most)
        served = (bids.held > 0) & self.running_first
        return least, np.where(bids.stuck, bids.held, np.where(served, least, 0))

    def _climbed_all(
        self, menus: Menus, bids: Bids, widths: Ints, *, stride: Stride, purse: Purse
    ) -> Ints:
        """Climb, and climb again what is left of ladders whose next rung costs more than there is.

        A rung that does not fit whole is offered in part: the ladder is drawn anew up to what is
        left, and whoever gains by that climbs on. Every pass hands something out or is the last.
        """
        widths, useful = widths.copy(), bids.useful(menus, widths)
        still = bids.stuck & (not self.anew)
        climbing, within = np.flatnonzero((widths > 0) & (widths < useful) & ~still), useful
        while True:
            climbing = climbing[np.array(purse.left)[bids.pool[climbing]] > 0]
            if not len(climbing):
                return widths
            before = widths[climbing]
            climb = self._climb(menus, bids.of_rows(climbing), before, within[climbing], stride)
            widths[climbing] = climb.ladders.width[self.climbed(climb, purse)]
            if within is not useful and (widths[climbing] == before).all():
                return widths
            within = np.minimum(useful, widths + np.array(purse.left)[bids.pool])
            climbing = climbing[widths[climbing] < within[climbing]]

    def _climb(self, menus: Menus, bids: Bids, widths: Ints, most: Ints, stride: Stride) -> Climb:
        ranges, number = Ranges(
            bids.menu, widths, most, self._held(menus, bids), bids.pool
        ).distinct()
        ladders, first, pool = Ladders.of(menus, ranges, stride, hull=self.hull)
        return Climb(ladders, first[number], bids.work, bids.attained, bids.seq, pool)

    def _held(self, menus: Menus, bids: Bids) -> Ints:
        """The width that each job has, where a cautious hand-out looks at it; else -1."""
        if not self.cautious:
            return np.full(len(bids.held), -1)
        unsure = (menus.low != menus.high).any(axis=1)
        return np.where(unsure[bids.menu], bids.held, -1)
