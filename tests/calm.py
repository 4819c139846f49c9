"""Limits of time, as they hold on a machine that has cores to spare.

A test that is too late shows a fault of ours, or that others had the cores. Linux tells the second
apart: the share of time in which somebody who could run had to wait for a core, and the share that
the host gave to other machines. A limit grows in proportion to them, and not at all where cores
were merely busy.
"""

import os
import time
from pathlib import Path

LONGER = 3.0  # times as long on top, where somebody waited for a core all the time
STEAL_COLUMN = 7
MICROSECONDS = 1e6
PRESSURE = Path("/proc/pressure/cpu")


class _Clock:
    """What was told when the present test began."""

    at_seconds: float = 0.0
    waited_seconds: float | None = None
    ticks: tuple[int, int] = (0, 0)


def calm(seconds: float) -> float:
    """This limit, and up to three times as much on top by how crowded the machine was."""
    return seconds * (1.0 + LONGER * min(_waiting_share() + _stolen_share(), 1.0))


def begin() -> None:
    """From here on waiting and stolen time count."""
    _Clock.at_seconds, _Clock.waited_seconds = time.monotonic(), _waited_seconds()
    _Clock.ticks = _stolen_and_all()


def _waiting_share() -> float:
    """Without pressure to read (an older kernel), a crowd is one that is longer than the cores."""
    waited, before = _waited_seconds(), _Clock.waited_seconds
    if waited is None or before is None:
        return float(os.getloadavg()[0] > (os.cpu_count() or 1))
    return (waited - before) / max(time.monotonic() - _Clock.at_seconds, 1e-3)


def _waited_seconds() -> float | None:
    """The time in which at least one task waited for a core, since the machine was started."""
    try:
        some = PRESSURE.read_text().splitlines()[0]
    except OSError:
        return None
    return int(some.rpartition("total=")[2]) / MICROSECONDS


def _stolen_share() -> float:
    (stolen, everything), (stolen_before, before) = _stolen_and_all(), _Clock.ticks
    return (stolen - stolen_before) / max(everything - before, 1)


def _stolen_and_all() -> tuple[int, int]:
    """In ticks of all processors, since the machine was started."""
    try:
        line = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:  # not Linux
        return 0, 0
    ticks = [int(column) for column in line.split()[1:9]]
    return ticks[STEAL_COLUMN], sum(ticks)
