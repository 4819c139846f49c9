"""A climb: floors first, then the surplus, rung by rung, to whom a rule says.

AFS and Optimus differ in one thing, who is the next to climb. All else is here: what there is to
hand out, who gets its floor, and which ladder each job stands on.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from weft.model.curves import Curves
from weft.model.snapshot import Floats, Ints, Snapshot
from weft.policy.size.available import available_gpus
from weft.policy.size.bids import Bids
from weft.policy.size.floors import floors
from weft.policy.size.ladder import Ladders, Ranges, Stride


@dataclass(frozen=True, slots=True)
class Climb:
    """Jobs on the first rungs of their ladders; the rest is as in the bids."""

    ladders: Ladders
    first: Ints
    work: Floats
    attained: Floats
    seq: Ints


@dataclass(frozen=True, slots=True, kw_only=True)
class Climbing(ABC):
    """Widths of the given jobs, first to last in rank; 0 for those who get nothing.

    Jobs move by `grain_gpus` from their least width, or between network-packed widths. A `cautious`
    hand-out reads a curve that is being learnt at its low end below the width that a job has and at
    its high end above it: slow to take away what may matter, quick to try what may help. With
    `running_first` jobs that run get their least before any that wait. Without `hull` jobs climb
    their curves as they are, step by step, and a dip holds them up: as published, for comparison.
    """

    grain_gpus: int = 1
    packed: bool = False
    cautious: bool = False
    running_first: bool = False
    hull: bool = True

    def __call__(self, snapshot: Snapshot, slots: Ints) -> Ints:
        bids = Bids.of(snapshot, slots)
        stride = Stride.on(snapshot.nodes, grain_gpus=self.grain_gpus, packed=self.packed)
        least, owed = self._claims(bids, stride)
        widths, left = floors(least, owed, available_gpus(snapshot, slots))
        climbers = np.flatnonzero((widths > 0) & (widths < bids.most) & ~bids.stuck)
        if left and len(climbers):
            climb = self._climb(snapshot.curves, bids.of_rows(climbers), widths[climbers], stride)
            widths[climbers] = climb.ladders.width[self.climbed(climb, left)]
        return widths

    @abstractmethod
    def climbed(self, climb: Climb, left: int) -> Ints:
        """The rung on which each job stands when `left` GPUs are handed out."""

    def _claims(self, bids: Bids, stride: Stride) -> tuple[Ints, Ints]:
        """The least width of each job, and what it is owed before anybody else gets anything."""
        least = stride.least(bids.least, bids.most)
        served = (bids.held > 0) & self.running_first
        return least, np.where(bids.stuck, bids.held, np.where(served, least, 0))

    def _climb(self, curves: Curves, bids: Bids, widths: Ints, stride: Stride) -> Climb:
        useful = bids.useful(curves, widths)
        ranges, number = Ranges(bids.curve, widths, useful, self._held(curves, bids)).distinct()
        ladders, first = Ladders.of(curves, ranges, stride, hull=self.hull)
        return Climb(ladders, first[number], bids.work, bids.attained, bids.seq)

    def _held(self, curves: Curves, bids: Bids) -> Ints:
        """The width that each job has, where a cautious hand-out looks at it; else -1."""
        if not self.cautious:
            return np.full(len(bids.held), -1)
        unsure = (curves.low != curves.high).any(axis=1)
        return np.where(unsure[bids.curve], bids.held, -1)
