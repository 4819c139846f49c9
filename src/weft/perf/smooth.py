"""A smooth line through the points, and how far it may be off.

In logarithms, speed per GPU over the doublings of the width is nearly a straight line that bends
a little, steps down where a job leaves its node, and wanders. Each of these is believed to be
some normal amount around no loss at all, so that without measurements a job scales freely: over-
estimate first (CoDDL). Measured points then speak for themselves where they are dense and leave
the belief standing where there are none (Bayesian regression, a Gaussian process). How large
the amounts are for one job is not known either; points that fit the belief badly widen everything
that is foretold from them (Student's t). So interpolating is surer than extrapolating, and a job
that behaves oddly is trusted less, with no case of its own for either.

The amounts below are rounded from the likelihood of left-out widths over the public tables of
Gavel, ElasticFlow, AFS, Pollux and Sia, each source counting alike; fitted without one of them,
they foretell that one nearly as well (`benchmarks.elastic.curves` tells how well each fares with
intervals that were stretched on the others).
"""

import numpy as np

from weft.model.curves import Floats
from weft.perf.evidence import Evidence
from weft.perf.student import ninetieth

NODE_LOSS = 0.05
"""What leaving a node is believed to cost, in logarithms of speed."""
SLOPE, NODE, BEND, WANDER = 0.25, 0.3, 0.15, 0.08
"""Doubts about the loss per doubling, at the node's edge, by bending and by wandering."""
LEVEL = 30.0
"""Nothing is believed of the speed itself."""


def smooth(evidence: Evidence, widths: Floats, across: Floats) -> tuple[Floats, Floats]:
    """Logarithms of the speeds there, and half the width of their 80 % interval."""
    here, there = _Features(evidence.widths, evidence.across), _Features(widths, across)
    if not len(evidence):
        doubt = np.sqrt(there.variance() - LEVEL**2)
        return there.mean, ninetieth(1) * doubt
    given = evidence.logs - here.mean
    middle = given.mean()
    covariance = here.with_other(here) + np.diag(evidence.variances)
    link = here.with_other(there)
    solved = np.linalg.solve(covariance, np.column_stack([given - middle, link]))
    line = middle + there.mean + link.T @ solved[:, 0]
    variance = there.variance() - np.einsum("ij,ij->j", link, solved[:, 1:])
    freedom = evidence.own or len(evidence)
    surprise = (given - middle) @ solved[:, 0] * freedom / len(evidence)
    doubt = np.maximum(variance, 0.0) + evidence.variances.min()
    return line, ninetieth(freedom) * np.sqrt(doubt * (1.0 + surprise) / freedom)


class _Features:
    """Where the belief is evaluated: its mean there, and how two places vary together."""

    def __init__(self, widths: Floats, across: Floats) -> None:
        self.doublings = np.log2(widths)
        self.mean = np.log(widths) - NODE_LOSS * across
        self._parts = np.empty((len(widths), 3))
        self._parts[:, 0] = SLOPE * self.doublings
        self._parts[:, 1] = NODE * across
        self._parts[:, 2] = (BEND / 4.0) * self.doublings**2

    def with_other(self, other: "_Features") -> Floats:
        wander = WANDER**2 * np.minimum.outer(self.doublings, other.doublings)
        return np.asarray(LEVEL**2 + self._parts @ other._parts.T + wander)

    def variance(self) -> Floats:
        parts = np.einsum("ij,ij->i", self._parts, self._parts)
        return np.asarray(LEVEL**2 + parts + WANDER**2 * self.doublings)
