"""Limits of time, as they hold on a machine that has cores to spare.

A test that is too late shows a fault of ours, or that others had the cores: more processes than
cores on this machine, or a host that gives its time to other machines (Linux tells it as stolen).
"""

import os
from pathlib import Path

LONGER = 4.0
MOST_STOLEN = 0.05
STEAL_COLUMN = 7


class _Clock:
    """The processors' time since the present test began."""

    began: tuple[int, int] = (0, 0)


def calm(seconds: float) -> float:
    """This limit; four times as long where this machine is not calm."""
    crowded = os.getloadavg()[0] > (os.cpu_count() or 1)
    return LONGER * seconds if crowded or _stolen_share() > MOST_STOLEN else seconds


def begin() -> None:
    """From here on stolen time counts."""
    _Clock.began = _stolen_and_all()


def _stolen_share() -> float:
    (stolen, everything), (stolen_before, before) = _stolen_and_all(), _Clock.began
    return (stolen - stolen_before) / max(everything - before, 1)


def _stolen_and_all() -> tuple[int, int]:
    """In ticks of all processors, since the machine was started."""
    try:
        line = Path("/proc/stat").read_text().splitlines()[0]
    except OSError:  # not Linux
        return 0, 0
    ticks = [int(column) for column in line.split()[1:9]]
    return ticks[STEAL_COLUMN], sum(ticks)
