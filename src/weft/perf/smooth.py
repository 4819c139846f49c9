"""A smooth line through the points, and how far it may be off.

In logarithms, speed per GPU over the doublings of the width is nearly a straight line that bends
a little, steps down where a job leaves its node, and wanders. Each of these is believed to be
some normal amount around what a prior says, which is no loss at all unless finished jobs have shown
otherwise: overestimate first (CoDDL). Measured points then speak for themselves where they are
dense and leave the belief standing where there are none (Bayesian regression, a Gaussian process).
How large the amounts are for one job is not known either; points that fit the belief badly widen
everything that is foretold from them (Student's t). So interpolating is surer than extrapolating,
and a job that behaves oddly is trusted less, with no case of its own for either.

Runs of one program share all of this but for `KIN`, the share by which each differs from the
others. Their levels are not compared, unless there is nothing else to go by.

The amounts below are rounded from a fit to left-out widths over the public tables of Gavel,
ElasticFlow, AFS, Pollux and Sia, at a fixed batch per GPU and at a fixed global batch, each source
counting alike. `benchmarks.elastic.curves` tells how well each fares, and what a fit without it
gives.
"""

import numpy as np

from weft.model.menu import Floats
from weft.perf.evidence import Evidence
from weft.perf.prior import Losses, Prior
from weft.perf.student import ninetieth

AMOUNTS = np.array([0.2, 0.25, 0.13])
"""Doubts about the loss per doubling, at the node's edge, and by bending."""
WANDER = 0.085
KIN = 0.15
LEVEL = 30.0
"""Nothing is believed of the speed itself."""
KIN_LEVEL = 0.3
"""How far a run's speed is off that of its forerunners."""
HOPE = 0.5
"""Of a job that nobody has seen run, so much of the typical loss is expected: it runs wide first
and shows its curve on the way down."""


def smooth(
    evidence: Evidence, widths: Floats, across: Floats, prior: Prior
) -> tuple[Floats, Floats]:
    """Logarithms of the speeds there, and half the width of their 80 % interval."""
    there = _Places(widths, across, prior)
    if not len(evidence):
        line = HOPE * there.mean + (1.0 - HOPE) * np.log(widths)
        return line, ninetieth(1) * np.sqrt((1.0 + KIN**2) * there.variance())
    here = _Places(evidence.widths, evidence.across, prior)
    rest, levels = _without_levels(evidence, here)
    own = evidence.runs == 0
    runs = np.flatnonzero(np.bincount(evidence.runs))
    level_of = own.astype(np.float64) if own.any() else np.full(len(own), 1.0 / len(runs))
    level, vague = (levels[0], LEVEL**2) if own.any() else _level_of_kin(levels[runs])
    link = here.with_other(there) * (1.0 + KIN**2 * own)[:, None] + LEVEL**2 * level_of[:, None]
    solved = np.linalg.solve(_covariance(evidence, here), np.hstack([rest[:, None], link]))
    line = level + there.mean + link.T @ solved[:, 0]
    variance = (1.0 + KIN**2) * there.variance() + vague
    variance -= np.einsum("ij,ij->j", link, solved[:, 1:])
    doubt = np.maximum(variance, 0.0) + evidence.variances.min()
    freedom = 1 + len(evidence) - len(runs)
    surprise = rest @ solved[:, 0]
    return line, ninetieth(freedom) * np.sqrt(doubt * (1.0 + surprise) / freedom)


def losses_seen(evidence: Evidence, prior: Prior) -> Losses:
    """What one job lost, as far as its points tell it from what is typical."""
    here = _Places(evidence.widths, evidence.across, prior)
    rest, _ = _without_levels(evidence, here)
    pull = here.parts.T @ np.linalg.solve(_covariance(evidence, here), rest)
    slope, node, bend = (np.array(prior.losses) + AMOUNTS * pull).tolist()
    return slope, node, bend


def _level_of_kin(levels: Floats) -> tuple[float, float]:
    """The mean of theirs, and how vague it is."""
    return float(levels.mean()), LEVEL**2 / len(levels) + KIN_LEVEL**2


def _without_levels(evidence: Evidence, here: "_Places") -> tuple[Floats, Floats]:
    """What the prior leaves unexplained around each run's mean, and the means."""
    given = evidence.logs - here.mean
    levels = np.bincount(evidence.runs, given) / np.maximum(np.bincount(evidence.runs), 1)
    return given - levels[evidence.runs], levels


def _covariance(evidence: Evidence, here: "_Places") -> Floats:
    same = evidence.runs[:, None] == evidence.runs
    return np.asarray(
        here.with_other(here) * (1.0 + KIN**2 * same)
        + LEVEL**2 * same
        + np.diag(evidence.variances)
    )


class _Places:
    """Where the belief is evaluated: its mean there, and how two places vary together."""

    def __init__(self, widths: Floats, across: Floats, prior: Prior) -> None:
        self.doublings = np.log2(widths)
        self.parts = np.empty((len(widths), 3))
        self.parts[:, 0] = self.doublings
        self.parts[:, 1] = across
        self.parts[:, 2] = self.doublings**2 / 4.0
        self.mean = np.log(widths) + self.parts @ np.array(prior.losses)
        self.parts *= AMOUNTS

    def with_other(self, other: "_Places") -> Floats:
        wander = WANDER**2 * np.minimum.outer(self.doublings, other.doublings)
        return np.asarray(self.parts @ other.parts.T + wander)

    def variance(self) -> Floats:
        parts = np.einsum("ij,ij->i", self.parts, self.parts)
        return np.asarray(parts + WANDER**2 * self.doublings)
