"""Menus as columns: what each job could run as, how fast that is, and how sure that is.

A row of a menu is a number of GPUs with a speed (low, likely, high). Jobs of one kind share a menu,
so a policy works per menu and not per job (AFS hands thousands of GPUs to jobs of a handful of
models). Speeds of a menu are relative; a job's `scale` turns them into work per second, and the
speed of its GPU type is a factor on top: the rows of another type are the same rows, slower or
faster. A menu has at most `MOST_ROWS` rows, so a job that could use a thousand GPUs costs no more
to decide on than one that could use sixty.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_ROWS = 64
"""The most numbers of GPUs that a menu lists, none aside."""

ALL_LISTED = 16
"""Up to here every number of GPUs is listed, however many a job could use."""

KEYS_PER_MENU = 1 << 32
"""More than any number of GPUs."""

NO_KEYS = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Menus:
    """`gpus[menu, row]` rise from 0, with their speeds; rows behind the last one repeat it.

    `widest` is the last useful number of GPUs of each menu. `dense` says that row k is k GPUs in
    all menus, so that a speed is found without a search.
    """

    gpus: Ints
    likely: Floats
    low: Floats
    high: Floats
    widest: Ints
    dense: bool = True
    _keys: Ints = field(init=False, repr=False, compare=False)
    """Menu and GPUs of all rows in one rising column, so that one search finds many rows."""

    def __post_init__(self) -> None:
        first = np.arange(len(self.gpus)) * KEYS_PER_MENU
        keys = NO_KEYS if self.dense else (first[:, None] + self.gpus).ravel()
        object.__setattr__(self, "_keys", keys)

    @classmethod
    def of(cls, rows: Sequence[tuple[Floats, Floats, Floats]]) -> "Menus":
        """From (likely, low, high) speeds for 0, 1, 2, … GPUs, of any lengths."""
        lengths = np.array([len(likely) for likely, _, _ in rows], np.int64)
        longest = int(lengths.max(initial=1))
        likely, low, high = (
            np.array([_padded(row[part], longest) for row in rows]).reshape(len(rows), longest)
            for part in range(3)
        )
        gpus = np.tile(np.arange(longest), (len(rows), 1))
        return cls(gpus, likely, low, high, lengths - 1)

    def speeds(self, menu: Ints, gpus: Ints) -> Floats:
        """The likely speed of each menu on so many GPUs; linear between rows, flat behind them."""
        return self._read(self.likely, menu, gpus)

    def speed(self, menu: int, gpus: int) -> float:
        """The same of one menu."""
        if self.dense:
            return float(self.likely[menu, min(gpus, self.likely.shape[1] - 1)])
        listed, speeds = self.gpus[menu], self.likely[menu]
        row = int(listed.searchsorted(gpus, side="right")) - 1
        here = int(listed[row])
        if here == gpus or row == len(listed) - 1:
            return float(speeds[row])
        share = (gpus - here) / (int(listed[row + 1]) - here)
        return float(speeds[row] + (speeds[row + 1] - speeds[row]) * share)

    def intervals(self, menu: Ints, gpus: Ints) -> tuple[Floats, Floats]:
        """The low and the high end of the same."""
        return self._read(self.low, menu, gpus), self._read(self.high, menu, gpus)

    def _read(self, column: Floats, menu: Ints, gpus: Ints) -> Floats:
        last = column.shape[1] - 1
        if self.dense:
            found: Floats = column[menu, np.minimum(gpus, last)]
            return found
        found_at = np.searchsorted(self._keys, menu * KEYS_PER_MENU + gpus, side="right")
        row = found_at - 1 - np.asarray(menu) * (last + 1)
        after = np.minimum(row + 1, last)
        here, there = self.gpus[menu, row], self.gpus[menu, after]
        share = np.where(there > here, (gpus - here) / np.maximum(there - here, 1), 0.0)
        below = column[menu, row]
        return np.asarray(below + (column[menu, after] - below) * np.clip(share, 0.0, 1.0))


@lru_cache(maxsize=4096)
def listed_gpus(least: int, asked: int, most: int) -> tuple[int, ...]:
    """The rows of a menu for such a range: all of them, or all small ones and some of each octave.

    Its ends and what was asked for are always among them.
    """
    if most <= MOST_ROWS:
        return tuple(range(most + 1))
    octaves = (most // ALL_LISTED).bit_length()
    per_octave = 1 << ((MOST_ROWS - ALL_LISTED - 3) // octaves).bit_length() - 1
    found = {*range(ALL_LISTED), least, asked, most}
    begin = ALL_LISTED
    while begin <= most:
        step = max(begin // per_octave, 1)
        found.update(range(begin, min(2 * begin, most + 1), step))
        begin *= 2
    return tuple(sorted(found))


def _padded(speeds: Floats, length: int) -> Floats:
    return np.concatenate([speeds, np.full(length - len(speeds), speeds[-1])])


NO_MENUS = Menus.of([])
