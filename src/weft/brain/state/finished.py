"""What finished jobs have needed of service: the latest of them, handed out in lots."""

from copy import copy

import numpy as np

from weft.model.samples import NO_SAMPLES, Samples
from weft.model.snapshot import Floats

HISTORY = 10_000
FIRST_LOT, LOT = 100, 500
"""Handed out anew after so many more ends: a distribution does not change with one job."""


class Finished:
    """A ring of service totals; `samples` changes only with every lot."""

    def __init__(self) -> None:
        self._latest: Floats = np.zeros(HISTORY)
        self.count = 0
        self.samples = NO_SAMPLES

    def add(self, gpu_seconds: float) -> None:
        self._latest[self.count % HISTORY] = gpu_seconds
        self.count += 1
        if self.count % (FIRST_LOT if self.count < LOT else LOT) == 0:
            self.samples = Samples(self._latest[: min(self.count, HISTORY)].copy())

    def copied(self) -> "Finished":
        twin = copy(self)
        twin._latest = self._latest.copy()
        return twin
