"""A table of what was measured, with straight lines between in logarithms.

Doubling the width multiplies the speed by about the same factor for a while, so lines are straight
where both axes are logarithms. Beyond the measured widths the last line goes on, but no steeper
than free scaling and not downwards: neither is a promise that two points can make.
"""

import numpy as np

from weft.model.curves import Floats
from weft.perf.evidence import Evidence


def tabled(evidence: Evidence, widths: Floats, across: Floats) -> Floats:
    """Logarithms of the speeds there; a table knows widths and not nodes."""
    at = np.log(widths)
    if not len(evidence):
        return at
    known, logs = _by_width(evidence)
    line = np.interp(at, known, logs)
    first, last = _end_slopes(known, logs)
    line += first * np.minimum(at - known[0], 0.0)
    line += last * np.maximum(at - known[-1], 0.0)
    return np.asarray(line)


def _by_width(evidence: Evidence) -> tuple[Floats, Floats]:
    """Each width once: the mean over spreads, by certainty."""
    if (np.diff(evidence.widths) > 0).all():
        return np.log(evidence.widths), evidence.logs
    known, place = np.unique(evidence.widths, return_inverse=True)
    weight = np.bincount(place, 1.0 / evidence.variances)
    return np.log(known), np.bincount(place, evidence.logs / evidence.variances) / weight


def _end_slopes(known: Floats, logs: Floats) -> tuple[float, float]:
    if len(known) == 1:
        return 1.0, 1.0
    slopes = np.clip(np.diff(logs) / np.diff(known), 0.0, 1.0)
    return float(slopes[0]), float(slopes[-1])
