"""Samples: what finished jobs have needed, as a value that stays the same for a while.

What is derived from many samples is costly, so the brain hands out the same object until enough
has come in to make a difference; whoever derives something from it keeps that by the object.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Samples:
    """GPU-seconds of service by finished job; two of these are equal only if they are the same."""

    gpu_seconds: npt.NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.gpu_seconds)


NO_SAMPLES = Samples(np.zeros(0))
