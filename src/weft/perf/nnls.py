"""Least squares with no negative coefficient, exactly, for a handful of columns.

Shares of a step's time cannot be negative, and a fit that makes them so foretells negative speeds
off its grid. The best non-negative fit is an ordinary least-squares fit on some subset of the
columns, so with few columns all subsets are solved at once and the best feasible one is taken:
no iteration, no tolerance to choose, the same answer everywhere.
"""

from functools import lru_cache
from itertools import product

import numpy as np

from weft.model.curves import Floats

MOST_COLUMNS = 8
JITTER = 1e-12
FEASIBLE = 1e-9
"""A coefficient that is negative by no more than this share of its largest peer is a zero."""


def nnls(matrix: Floats, target: Floats) -> Floats:
    """The x >= 0 for which `matrix @ x` is closest to `target`."""
    columns = matrix.shape[1]
    if columns > MOST_COLUMNS:
        raise ValueError(f"all subsets of {columns} columns are too many")
    size = np.sqrt(np.einsum("ij,ij->j", matrix, matrix))
    size[size == 0.0] = np.inf
    unit = matrix / size
    found = _on_subsets(unit.T @ unit, unit.T @ target, columns)
    feasible = found.min(axis=1) >= -FEASIBLE * np.abs(found).max(axis=1)
    found = np.maximum(found[feasible], 0.0)
    errors = found @ unit.T - target
    best = int(np.argmin(np.einsum("ij,ij->i", errors, errors)))
    return np.asarray(found[best] / size)


def _on_subsets(gram: Floats, moments: Floats, columns: int) -> Floats:
    """The least-squares solution on each subset of columns, 0 elsewhere: one row each."""
    chosen, outside = _subsets(columns)
    systems = gram * chosen[:, :, None] * chosen[:, None, :] + outside
    solved = np.linalg.solve(systems, (moments * chosen)[:, :, None])[:, :, 0]
    return np.asarray(solved * chosen)


@lru_cache(maxsize=MOST_COLUMNS)
def _subsets(columns: int) -> tuple[Floats, Floats]:
    """Which columns each subset has, and a diagonal that keeps the others out."""
    chosen = np.array(list(product((0.0, 1.0), repeat=columns)))
    outside = np.einsum("sj,jk->sjk", 1.0 - chosen, np.eye(columns)) + JITTER * np.eye(columns)
    return chosen, outside
