"""The book of curves: what is believed of each job's speed by width, as rows for the snapshot.

Curves that were stated are shared by all jobs that state the same; a curve that is being learnt
belongs to one job. A job that says nothing is believed to scale without loss until it has been
measured: over-estimate first, re-adjust later (CoDDL), because a job that starts too wide shows
its curve on the way down, and one that starts too narrow never shows it.
"""

import numpy as np

from weft.model.curves import Curves, Floats
from weft.model.job import Job

Key = tuple[tuple[tuple[int, float], ...] | None, int, bool]


class CurveBook:
    """Rows of likely, low and high speeds, for widths from 0."""

    def __init__(self) -> None:
        self._speeds: list[Floats] = [np.zeros((8, 2)) for _ in range(3)]
        self._widest = np.zeros(8, np.int64)
        self._size = 0
        self._row_of: dict[Key, int] = {}
        self._owned: set[int] = set()
        self._free: list[int] = []
        self._table: Curves | None = None

    @property
    def table(self) -> Curves:
        if self._table is None:
            size = self._size
            views = [column[:size] for column in (*self._speeds, self._widest)]
            for view in views:
                view.flags.writeable = False
            self._table = Curves(views[0], views[1], views[2], views[3])  # type: ignore[arg-type]
        return self._table

    def stated(self, job: Job) -> int:
        """The row of what the job says of itself."""
        curve = job.curve if job.curve is not None and job.curve.known else None
        key: Key = (None if curve is None else curve.points, job.width.max_gpus, is_learnt(job))
        row = self._row_of.get(key)
        if row is None:
            widths = range(1, job.width.max_gpus + 1)
            points = [0.0, *(float(w) if curve is None else curve.at(w) for w in widths)]
            likely = np.array(points)
            low = np.minimum(likely, 1.0) if is_learnt(job) else likely
            row = self._row_of[key] = self._new_row()
            self._write(row, likely, low, likely)
        return row

    def learnt(self, row: int, likely: Floats, low: Floats, high: Floats) -> int:
        """The row of what was learnt: the job's own, in place of the one that it had."""
        if row not in self._owned:
            row = self._new_row()
            self._owned.add(row)
        self._write(row, likely, low, high)
        return row

    def drop(self, row: int) -> None:
        """The job is over."""
        if row in self._owned:
            self._owned.discard(row)
            self._free.append(row)

    def copied(self) -> "CurveBook":
        twin = CurveBook()
        twin._speeds = [column.copy() for column in self._speeds]
        twin._widest, twin._size = self._widest.copy(), self._size
        twin._row_of, twin._owned = dict(self._row_of), set(self._owned)
        twin._free = list(self._free)
        return twin

    def _new_row(self) -> int:
        if self._free:
            return self._free.pop()
        row, rows = self._size, len(self._widest)
        self._size += 1
        self._table = None
        if row >= rows:
            self._speeds = [np.vstack([column, np.zeros_like(column)]) for column in self._speeds]
            self._widest = np.concatenate([self._widest, np.zeros_like(self._widest)])
        return row

    def _write(self, row: int, *speeds: Floats) -> None:
        widest, columns = len(speeds[0]) - 1, self._speeds[0].shape[1]
        if widest >= columns:
            self._widen(max(widest + 1, 2 * columns))
        for column, given in zip(self._speeds, speeds, strict=True):
            column[row, : widest + 1] = given
            column[row, widest + 1 :] = given[-1]
        self._widest[row] = widest

    def _widen(self, columns: int) -> None:
        more = columns - self._speeds[0].shape[1]
        self._speeds = [
            np.hstack([column, np.repeat(column[:, -1:], more, axis=1)]) for column in self._speeds
        ]
        self._table = None


def is_learnt(job: Job) -> bool:
    """Whether the job's curve is to be learnt: nobody has stated one."""
    return job.curve is not None and not job.curve.known
