"""What a job would do at a width at which it has not been measured.

The smooth line through the measured points is taken (`smooth`), within bounds that no job leaves,
whatever its points say: a worker's clock that jumps must not make a job look infinitely fast.
Without any point, speeds are relative to one GPU.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from weft.model.menu import Floats, Ints
from weft.perf.evidence import Evidence
from weft.perf.point import Point
from weft.perf.prediction import Prediction
from weft.perf.prior import FREE, Prior
from weft.perf.smooth import smooth

SUPERLINEAR = 1.25
"""Speed per GPU is not believed to rise with the width by more than this factor."""
FARTHEST = 10.0
"""No width is so many times as fast as the fastest point would be there without loss, nor as slow
as the slowest would be without gain."""
LARGEST_LOG = 700.0
"""Of a speed that can still be written down."""


def predict(
    points: Sequence[Point],
    *,
    widest: int,
    node_gpus: int,
    prior: Prior = FREE,
    widths: Ints | None = None,
) -> Prediction:
    """From the job's own points."""
    evidence = Evidence.of(points)
    return concluded(evidence, widest=widest, node_gpus=node_gpus, prior=prior, widths=widths)


def concluded(
    evidence: Evidence,
    *,
    widest: int,
    node_gpus: int,
    prior: Prior = FREE,
    widths: Ints | None = None,
) -> Prediction:
    """Those widths, or all, on the fewest nodes, and on more."""
    asked = np.arange(1, widest + 1) if widths is None else widths
    if not len(asked):
        return _row(np.zeros((3, 1)), np.zeros(1, np.int64))
    packed = asked.astype(np.float64)
    apart = (asked > 1) & (asked <= node_gpus)
    places = np.concatenate([packed, packed[apart]])
    across = np.concatenate([packed > node_gpus, np.ones(int(apart.sum()))])
    speeds = np.exp(_logs(evidence, places, across, prior))
    rows = np.zeros((2, 3, len(asked) + 1))
    rows[:, :, 1:] = speeds[:, : len(asked)]
    rows[1, :, 1:][:, apart] = speeds[:, len(asked) :]
    numbers = np.concatenate([[0], asked])
    return replace(
        _row(rows[0], numbers),
        spread=_row(rows[1], numbers),
        cores=evidence.cores,
        cpus_per_gpu=evidence.cpus_per_gpu,
    )


def _row(speeds: Floats, widths: Ints) -> Prediction:
    return Prediction(speeds[0], speeds[1], speeds[2], widths)


def _logs(evidence: Evidence, widths: Floats, across: Floats, prior: Prior) -> Floats:
    """Likely, low and high."""
    likely, doubt = smooth(evidence, widths, across, prior)
    own = evidence.own if (evidence.runs == 0).any() else evidence
    if len(own):
        slowest, fastest = _farthest(own, widths)
        likely = np.minimum(np.maximum(likely, slowest), fastest)
    least, most = _bounds(own, widths)
    found = np.empty((3, len(widths)))
    found[0] = likely
    found[1] = np.maximum(likely - doubt, np.minimum(likely, least))
    found[2] = np.minimum(likely + doubt, np.maximum(likely, most))
    return np.asarray(np.minimum(np.maximum(found, -LARGEST_LOG), LARGEST_LOG))


def _farthest(evidence: Evidence, widths: Floats) -> tuple[Floats, Floats]:
    """Between which a likely speed stays."""
    gain = np.log(widths)[:, None] - np.log(evidence.widths)
    slowest = (evidence.logs + np.minimum(gain, 0.0)).min(axis=1)
    fastest = (evidence.logs + np.maximum(gain, 0.0)).max(axis=1)
    return slowest - np.log(FARTHEST), fastest + np.log(FARTHEST)


def _bounds(evidence: Evidence, widths: Floats) -> tuple[Floats, Floats]:
    """Between which the interval stays: speed per GPU hardly rises with the width."""
    free, allowance = np.log(widths), np.log(SUPERLINEAR)
    if not len(evidence):
        return np.full_like(free, -np.inf), free + allowance
    order = np.argsort(evidence.widths, kind="stable")
    known = evidence.widths[order]
    per_gpu = (evidence.logs - np.log(evidence.widths))[order]
    best_narrower = np.concatenate([[np.inf], np.maximum.accumulate(per_gpu)])
    worst_wider = np.concatenate([np.minimum.accumulate(per_gpu[::-1])[::-1], [-np.inf]])
    most = best_narrower[np.searchsorted(known, widths, side="right")]
    least = worst_wider[np.searchsorted(known, widths, side="left")]
    return free + least - allowance, free + most + allowance
