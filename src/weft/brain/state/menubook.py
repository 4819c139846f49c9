"""The book of menus: what is believed of each job's speed by its GPUs, as rows for the snapshot.

Menus that were stated are shared by all jobs that state the same; a menu that is being learnt
belongs to one job. A job that says nothing is believed to scale without loss until it has been
measured: over-estimate first, re-adjust later (CoDDL), because a job that starts too wide shows
its curve on the way down, and one that starts too narrow never shows it.
"""

from collections.abc import Sequence

import numpy as np

from weft.model.menu import Floats, Menus, listed_gpus
from weft.model.request import JobRequest, Width

Key = tuple[tuple[tuple[int, float], ...] | None, tuple[int, ...], bool]


class MenuBook:
    """Rows of likely, low and high speeds, for numbers of GPUs from 0."""

    def __init__(self) -> None:
        self._gpus = np.zeros((8, 2), np.int64)
        self._speeds: list[Floats] = [np.zeros((8, 2)) for _ in range(3)]
        self._widest = np.zeros(8, np.int64)
        self._size = 0
        self._dense = True
        self._menu_of: dict[Key, int] = {}
        self._owned: set[int] = set()
        self._free: list[int] = []
        self._table: Menus | None = None

    @property
    def table(self) -> Menus:
        if self._table is None:
            gpus, widest = self._gpus[: self._size], self._widest[: self._size]
            likely, low, high = (column[: self._size] for column in self._speeds)
            for view in (gpus, likely, low, high, widest):
                view.flags.writeable = False
            self._table = Menus(gpus, likely, low, high, widest, dense=self._dense)
        return self._table

    def stated(self, job: JobRequest) -> int:
        """The menu of what the job says of itself."""
        curve = None if job.curve is None else job.curve.curve
        gpus = listed(job.width)
        key: Key = (None if curve is None else curve.points, gpus, is_learnt(job))
        menu = self._menu_of.get(key)
        if menu is None:
            likely = np.array([float(w) if curve is None else curve.at(w) for w in gpus])
            likely[0] = 0.0
            low = np.minimum(likely, 1.0) if is_learnt(job) else likely
            menu = self._menu_of[key] = self._new_menu()
            self._write(menu, gpus, likely, low, likely)
        return menu

    def learnt(self, menu: int, gpus: Sequence[int], *speeds: Floats) -> int:
        """What was learnt (likely, low, high of each row): the job's own menu from now on."""
        if menu not in self._owned:
            menu = self._new_menu()
            self._owned.add(menu)
        self._write(menu, gpus, *speeds)
        return menu

    def drop(self, menu: int) -> None:
        """The job is over."""
        if menu in self._owned:
            self._owned.discard(menu)
            self._free.append(menu)

    def copied(self) -> "MenuBook":
        twin = MenuBook()
        twin._gpus, twin._speeds = self._gpus.copy(), [column.copy() for column in self._speeds]
        twin._widest, twin._size, twin._dense = self._widest.copy(), self._size, self._dense
        twin._menu_of, twin._owned = dict(self._menu_of), set(self._owned)
        twin._free = list(self._free)
        return twin

    def _new_menu(self) -> int:
        if self._free:
            return self._free.pop()
        menu, menus = self._size, len(self._widest)
        self._size += 1
        self._table = None
        if menu >= menus:
            self._speeds = [np.vstack([column, np.zeros_like(column)]) for column in self._speeds]
            self._gpus = np.vstack([self._gpus, np.zeros_like(self._gpus)])
            self._widest = np.concatenate([self._widest, np.zeros_like(self._widest)])
        return menu

    def _write(self, menu: int, gpus: Sequence[int], *speeds: Floats) -> None:
        rows, columns = len(gpus), self._gpus.shape[1]
        if rows > columns:
            self._widen(max(rows, 2 * columns))
        if self._dense and rows <= gpus[-1]:
            self._dense, self._table = False, None
            self._unpad()
        self._list(menu, gpus)
        for column, given in zip(self._speeds, speeds, strict=True):
            column[menu, :rows], column[menu, rows:] = given, given[-1]
        self._widest[menu] = gpus[-1]

    def _list(self, menu: int, gpus: Sequence[int]) -> None:
        """Which numbers of GPUs the rows are of; what was learnt of a job rarely changes that."""
        listed = np.arange(self._gpus.shape[1])
        if not self._dense:
            listed = np.concatenate([gpus, np.full(len(listed) - len(gpus), gpus[-1])])
        if (self._gpus[menu] != listed).any():
            self._gpus[menu], self._table = listed, None

    def _unpad(self) -> None:
        """From now on rows are searched for: behind its last one a menu repeats that."""
        self._gpus = np.minimum(self._gpus, self._widest[:, None])

    def _widen(self, columns: int) -> None:
        more = columns - self._gpus.shape[1]
        self._speeds = [
            np.hstack([column, np.repeat(column[:, -1:], more, axis=1)]) for column in self._speeds
        ]
        further = np.repeat(self._gpus[:, -1:], more, axis=1)
        if self._dense:
            further = further + np.arange(1, more + 1)
        self._gpus = np.hstack([self._gpus, further])
        self._table = None


def listed(width: Width) -> tuple[int, ...]:
    """The numbers of GPUs that a job's menu lists."""
    return listed_gpus(width.min_gpus, width.asked_gpus, width.max_gpus)


def is_learnt(job: JobRequest) -> bool:
    """Whether the job's curve is to be learnt: nobody has claimed one, and no plan tells it."""
    return job.curve is None and job.splits is None
