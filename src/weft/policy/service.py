"""Service told coarsely: levels that double.

Whoever serves the job with the least service first turns jobs of nearly equal service round without
end. With levels, jobs of a level are equal, and a job passes as many as its service doubles: on
Philly's cluster 0e4a51 `afs-p` then resizes a job twice instead of thirty times, and jobs are done
no later. Attained service says what is left only to its order of magnitude anyway: of a job that
has run for a time t, heavy-tailed lengths let another t be expected.
"""

import numpy as np

from weft.model.snapshot import Floats, Ints, Snapshot

HELD_FACTOR = 2.0
FIRST_LEVEL_GPU_SECONDS = 60.0
ROUNDING_GPU_SECONDS = 1e-6


def service_level(attained: Floats) -> Floats:
    """0 below the first border, and one more with each doubling."""
    served = (attained + ROUNDING_GPU_SECONDS) / FIRST_LEVEL_GPU_SECONDS
    level: Floats = np.where(served < 1.0, 0.0, 1.0 + np.floor(np.log2(np.maximum(served, 1.0))))
    return level


def level_ends(level: Floats) -> Floats:
    """The GPU-seconds at which the next level begins."""
    ends: Floats = FIRST_LEVEL_GPU_SECONDS * np.exp2(level)
    return ends


def held_service(snapshot: Snapshot, slots: Ints) -> tuple[Floats, Floats]:
    """What each has had, and how fast that grows; of those who run, half.

    So whoever runs gives way to one that has had less than half of it, and not to its equals, with
    whom it would change places without end: a job is turned out as often as its service doubles.
    """
    attained, rate = snapshot.attained(slots), snapshot.jobs.gpu_rate[slots]
    return np.where(rate > 0, attained / HELD_FACTOR, attained), rate / HELD_FACTOR
