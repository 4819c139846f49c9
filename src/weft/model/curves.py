"""Curves as columns: how fast each job would train by its width, and how sure that is.

Equal curves share a row, so a policy works per class of jobs and not per job (AFS hands thousands
of GPUs to jobs of a handful of models). Speeds of a row are relative; a job's `scale` turns them
into work per second.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Curves:
    """`likely[row, width]`, with its interval; width 0 has speed 0, beyond `widest` it is flat."""

    likely: Floats
    low: Floats
    high: Floats
    widest: Ints

    @classmethod
    def of(cls, rows: Sequence[tuple[Floats, Floats, Floats]]) -> "Curves":
        """Rows of (likely, low, high) speeds for widths 0, 1, 2, …, of any lengths."""
        lengths = np.array([len(likely) for likely, _, _ in rows], np.int64)
        longest = int(lengths.max(initial=1))
        likely, low, high = (
            np.array([_padded(row[part], longest) for row in rows]).reshape(len(rows), longest)
            for part in range(3)
        )
        return cls(likely, low, high, lengths - 1)


def _padded(speeds: Floats, length: int) -> Floats:
    return np.concatenate([speeds, np.full(length - len(speeds), speeds[-1])])


NO_CURVES = Curves.of([])
