"""AFS's hand-out in its plain form: one pass over all jobs for every rung that is climbed.

Slow, simple, and sharing no code with Weft: the rule as it is written down, over a matrix of rungs.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ladder = Sequence[tuple[int, float]]

SLACK = 1e-12
NEVER = 1 << 60


class Rungs:
    """One row per job: the widths and speeds of its ladder, and the price and worth of each step.

    With the speeds p and p' of two rungs q GPUs apart: r = (p'/p)^(1/q) − 1, s = 1 − (p/p')^(1/q).
    """

    def __init__(self, ladders: Sequence[Ladder]) -> None:
        longest = max((len(ladder) for ladder in ladders), default=0) + 1
        self.width = np.zeros((len(ladders), longest), np.int64)
        self.speed = np.ones((len(ladders), longest))
        self.price = np.full((len(ladders), longest), NEVER)
        self.r, self.s = np.zeros((2, len(ladders), longest))
        for row, ladder in enumerate(ladders):
            widths, speeds = np.array(ladder).T
            steps, count = np.diff(widths), len(ladder)
            self.width[row, :count], self.speed[row, :count] = widths, speeds
            self.price[row, : count - 1] = steps
            factor = (speeds[1:] / speeds[:-1]) ** (1.0 / steps)
            self.r[row, : count - 1] = factor - 1.0
            self.s[row, : count - 1] = 1.0 - 1.0 / factor


def one_by_one(
    rungs: Rungs, work: Floats, attained: Floats, seq: Ints, left: int, *, lengths_known: bool
) -> Ints:
    """The width of each job after `left` GPUs: max s, all with r >= it, the shortest of those."""
    rows, at = np.arange(len(work)), np.zeros(len(work), np.int64)
    unknown = np.isnan(work)
    served = np.where(unknown, attained, 0.0) if lengths_known else attained
    order = np.lexsort((seq, served))
    price, r, s, speed = (
        table[:, 0].copy() for table in (rungs.price, rungs.r, rungs.s, rungs.speed)
    )
    while (can := price <= left).any():
        most = s[can].max()
        reaching = can & (r >= most - SLACK * abs(most))
        length = np.where(unknown, np.inf, work) / speed if lengths_known else served
        candidates = order[reaching[order]]
        winner = candidates[np.argmin(length[candidates])]
        left -= int(price[winner])
        at[winner] += 1
        rung = winner, at[winner]
        price[winner], r[winner], s[winner] = rungs.price[rung], rungs.r[rung], rungs.s[rung]
        speed[winner] = rungs.speed[rung]
    found: Ints = rungs.width[rows, at]
    return found


def hull(points: Ladder) -> list[tuple[int, float]]:
    """The points on the upper concave hull, up to the first highest one; on a line all stay."""
    peak = max(speed for _, speed in points)
    rising = points[: next(i for i, (_, speed) in enumerate(points) if speed == peak) + 1]
    return [point for i, point in enumerate(rising) if _on_top(rising, i)]


def _on_top(points: Ladder, at: int) -> bool:
    """No line between a point before and a point behind passes above."""
    width, speed = points[at]
    return all(
        speed >= (low + (high - low) * (width - left) / (right - left)) * (1.0 - SLACK)
        for left, low in points[:at]
        for right, high in points[at + 1 :]
    )
