"""The time of a unit of work, fitted as a sum of shares that cannot be negative.

A unit of work takes T(k) seconds on k GPUs. At a fixed global batch a step is a unit: computing
shrinks with k, a fixed part stays, and talking to peers grows with them (Optimus). At a fixed batch
per GPU there are k units in a step, so the fixed part of a step is divided by k like computing, but
is there only from the second GPU on (Pollux). Leaving the node adds to either. Which of these
shares a job has, the non-negative fit decides.

A share that no measurement can tell from others is drawn to zero by a slight pull, which is what
Pollux does with regimes that it has not seen: the job is believed to be better than it may be, and
is thereby measured there. A job off its node is never believed to be faster than on it, as that
share comes on top.
"""

import numpy as np

from weft.model.curves import Floats
from weft.perf.evidence import STEADY, Evidence
from weft.perf.nnls import nnls

PULLS = np.array([0.0, 0.05, 0.1, 1.0, 0.05])
"""How strongly each share is drawn to zero, relative to the time on one GPU."""

LEAST_SECONDS = 0.1
"""No narrower width is ten times as fast as the fastest measured one, whatever a fit says."""


def fitted(evidence: Evidence, widths: Floats, across: Floats) -> Floats:
    """Logarithms of the speeds there."""
    if not len(evidence):
        return np.asarray(np.log(widths))
    level = evidence.logs.mean()
    speeds = np.exp(evidence.logs - level)
    certainty = STEADY / np.sqrt(evidence.variances)
    seen = len(PULLS) if evidence.across.any() else len(PULLS) - 1
    measured = _shares(evidence.widths, evidence.across) * (speeds * certainty)[:, None]
    pulls = np.diag(PULLS * (speeds / evidence.widths).max())
    matrix = np.concatenate([measured, pulls])[:, :seen]
    shares = nnls(matrix, np.concatenate([certainty, np.zeros(len(PULLS))]))
    seconds = _shares(widths, across)[:, :seen] @ shares
    least = LEAST_SECONDS * np.minimum(evidence.widths[0] / widths, 1.0) / speeds.max()
    return np.asarray(level - np.log(np.maximum(seconds, least)))


def _shares(widths: Floats, across: Floats) -> Floats:
    """Columns: computing, fixed, having a peer, each peer, and being on several nodes."""
    shares = np.empty((len(widths), len(PULLS)))
    shares[:, 0] = 1.0 / widths
    shares[:, 1] = 1.0
    shares[:, 2] = (widths > 1) / widths
    shares[:, 3] = widths - 1.0
    shares[:, 4] = across
    return shares
