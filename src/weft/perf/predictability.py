"""Whether a job is predictable: computed from what is known of it, never declared.

A job is predictable once its remaining work has been known to within a quarter, to both sides, on
three checks in a row; a single check that finds more than that takes it back. Checks that follow
each other closely would find the same three times over: the next one counts when the job has done a
tenth more than at the last. A job whose total was stated has nothing to prove.
"""

import math

import numpy as np
import numpy.typing as npt

from weft.perf.total import Total

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

BAND = 0.25
PREDICTABLE_AFTER = 3
CHECK_GROWTH = 1.1


def checked(so_far: int, total: Total, done: float) -> int:
    """Checks in a row that found the interval of what is left narrow, with this one."""
    if total.exact:
        return max(so_far, PREDICTABLE_AFTER)
    left = total.remaining(done)
    narrow = left.low >= (1 - BAND) * left.likely and left.high <= (1 + BAND) * left.likely
    return so_far + 1 if narrow and 0 < left.likely < math.inf else 0


def streaks(so_far: Ints, low: Floats, likely: Floats, high: Floats, *, done: Floats) -> Ints:
    """The same of many jobs at once, from columns of totals; NaN: nobody knows."""
    left = likely - done
    with np.errstate(invalid="ignore"):
        narrow = (
            (left > 0)
            & (left < np.inf)
            & (low - done >= (1 - BAND) * left)
            & (high - done <= (1 + BAND) * left)
        )
        exact = (low == high) & np.isfinite(likely)
    found = np.where(narrow, so_far + 1, 0)
    return np.where(exact, np.maximum(so_far, PREDICTABLE_AFTER), found)


def predictable(steady: Ints) -> Bools:
    """By the number of checks in a row that found the interval narrow."""
    found: Bools = steady >= PREDICTABLE_AFTER
    return found


def check_is_due(done: float, done_at_last_check: float) -> bool:
    """Whether so much has been done since that looking again tells something new."""
    return done >= CHECK_GROWTH * done_at_last_check
