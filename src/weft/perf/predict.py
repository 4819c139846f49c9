"""What a job would do at a width at which it has not been measured.

Three lines are drawn through the measured points: through a table of them, by a fit of shares of
time, and by a smooth line that leans on what training jobs are like. Each fails in its own way: a
table knows nothing beyond its ends, a fit cannot follow what its shares do not describe, and a
belief is slow to change. So the one in the middle is taken, width by width. The interval is that of
the smooth line. Without any point, speeds are relative to one GPU.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from weft.model.curves import Floats
from weft.perf.evidence import Evidence
from weft.perf.fitted import fitted
from weft.perf.point import Point
from weft.perf.prediction import Prediction
from weft.perf.smooth import smooth
from weft.perf.table import tabled

SUPERLINEAR = 1.25
"""Speed per GPU is not believed to rise with the width by more than this factor."""

Line = Callable[[Evidence, Floats, Floats], Floats]
"""Logarithms of speeds at places, which are widths and whether they lie across nodes."""


def predict(points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
    """By the middle one of the three lines: the predictor to use."""
    return concluded(Evidence.of(points), widest=widest, node_gpus=node_gpus)


def predict_by_table(points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
    """By what was measured and straight lines between."""
    return concluded(Evidence.of(points), widest=widest, node_gpus=node_gpus, line=tabled)


def predict_by_fit(points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
    """By shares of time that cannot be negative."""
    return concluded(Evidence.of(points), widest=widest, node_gpus=node_gpus, line=fitted)


def predict_by_belief(points: Sequence[Point], *, widest: int, node_gpus: int) -> Prediction:
    """By the smooth line."""
    return concluded(Evidence.of(points), widest=widest, node_gpus=node_gpus, line=_smooth_line)


def concluded(
    evidence: Evidence, *, widest: int, node_gpus: int, line: Line | None = None
) -> Prediction:
    """All widths on the fewest nodes, and on more; by that line, or by the middle one."""
    if widest < 1:
        return Prediction(*np.zeros((3, 1)))
    widths, across = _places(widest, node_gpus)
    belief, doubt = smooth(evidence, widths, across)
    likely = _middle(evidence, widths, across, belief)
    if line is not None:
        likely = line(evidence, widths, across)
    least, most = _bounds(evidence, widths)
    low = np.maximum(likely - doubt, np.minimum(likely, least))
    high = np.minimum(likely + doubt, np.maximum(likely, most))
    packed, spread = _rows(np.exp(np.stack([likely, low, high])), widest)
    return replace(packed, spread=spread, cores=evidence.cores, cpus_per_gpu=evidence.cpus_per_gpu)


def middle_line(evidence: Evidence, widths: Floats, across: Floats) -> Floats:
    """The middle one of the three lines, in logarithms."""
    return _middle(evidence, widths, across, _smooth_line(evidence, widths, across))


def _middle(evidence: Evidence, widths: Floats, across: Floats, belief: Floats) -> Floats:
    table, fit = tabled(evidence, widths, across), fitted(evidence, widths, across)
    lower, upper = np.minimum(table, fit), np.maximum(table, fit)
    return np.asarray(np.clip(belief, lower, upper))


def _smooth_line(evidence: Evidence, widths: Floats, across: Floats) -> Floats:
    return smooth(evidence, widths, across)[0]


def _places(widest: int, node_gpus: int) -> tuple[Floats, Floats]:
    """Every width on the fewest nodes, then those that fit into a node on more than one."""
    packed = np.arange(1.0, widest + 1.0)
    spread = np.arange(2.0, min(widest, node_gpus) + 1.0)
    across = np.concatenate([packed > node_gpus, np.ones_like(spread)])
    return np.concatenate([packed, spread]), across


def _bounds(evidence: Evidence, widths: Floats) -> tuple[Floats, Floats]:
    """Between which the interval stays: speed per GPU hardly rises with the width."""
    free, allowance = np.log(widths), np.log(SUPERLINEAR)
    if not len(evidence):
        return np.full_like(free, -np.inf), free + allowance
    per_gpu = evidence.logs - np.log(evidence.widths)
    best_narrower = np.concatenate([[np.inf], np.maximum.accumulate(per_gpu)])
    worst_wider = np.concatenate([np.minimum.accumulate(per_gpu[::-1])[::-1], [-np.inf]])
    most = best_narrower[np.searchsorted(evidence.widths, widths, side="right")]
    least = worst_wider[np.searchsorted(evidence.widths, widths, side="left")]
    return free + least - allowance, free + most + allowance


def _rows(speeds: Floats, widest: int) -> tuple[Prediction, Prediction]:
    """Packed and spread, each from width 0."""
    packed = np.zeros((3, widest + 1))
    packed[:, 1:] = speeds[:, :widest]
    spread = packed.copy()
    apart = speeds.shape[1] - widest
    spread[:, 2 : 2 + apart] = speeds[:, widest:]
    return Prediction(*packed), Prediction(*spread)
