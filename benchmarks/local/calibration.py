"""What this machine costs and how fast it is: measured in one run.

Jobs of fixed width, one after the other, tell what a start and an end cost and how fast a width
trains. Then two elastic jobs fill the machine, one of them gives a slot to a guest, and gets it
back.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchmarks.local.workload import Lived, Planned, play

WIDTHS = (1, 2)
APART_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each start, end, growth and shrink; steps per second by width."""

    starts: tuple[float, ...]
    ends: tuple[float, ...]
    grows: tuple[float, ...]
    shrinks: tuple[float, ...]
    rates: tuple[tuple[int, float], ...]

    @property
    def start_seconds(self) -> float:
        return fmean(self.starts)

    @property
    def end_seconds(self) -> float:
        return fmean(self.ends)

    @property
    def grow_seconds(self) -> float:
        return fmean(self.grows)

    @property
    def shrink_seconds(self) -> float:
        return fmean(self.shrinks)


def measure(*, short: bool) -> Measured:
    steps = 30 if short else 60
    alone = [
        Planned(f"width-{width}", number * APART_SECONDS, width, steps * width)
        for number, width in enumerate(WIDTHS)
    ]
    begin = len(WIDTHS) * APART_SECONDS
    elastic = 280 if short else 360
    crowd = [
        Planned("left", begin, "1..2", elastic),
        Planned("right", begin + 12.0, "1..2", elastic),
        Planned("guest", begin + 25.0, 1, steps),
    ]
    lives = play([*alone, *crowd])
    rates = [(width, _rate(lives[f"width-{width}"], steps * width)) for width in WIDTHS]
    resizes = [one for name in ("left", "right") for one in _resizes(lives[name])]
    return Measured(
        starts=tuple(_start(life, rates) for life in lives.values()),
        ends=tuple(life.ended - life.last_step for life in lives.values()),
        grows=tuple(seconds for seconds, grew in resizes if grew),
        shrinks=tuple(seconds for seconds, grew in resizes if not grew),
        rates=tuple(rates),
    )


def _rate(life: Lived, steps: int) -> float:
    return (steps - 1) / (life.last_step - life.first_step)


def _start(life: Lived, rates: Sequence[tuple[int, float]]) -> float:
    """From the decision until training begins: one step before the first is done."""
    decided = next(one for one in life.history if one.what == "Starting")
    begun = life.history[0].at - life.submitted
    rate = dict(rates)[decided.gpus]
    return life.first_step - (decided.at - begun) - 1.0 / rate


def _resizes(life: Lived) -> Iterator[tuple[float, bool]]:
    """How long each resize took, and whether it made the job wider."""
    width, since = 0, 0.0
    for one in life.history:
        if one.what == "Resizing":
            since = one.at
        elif one.what == "Resized":
            yield one.at - since, one.gpus > width
        if one.what in ("Starting", "Resized"):
            width = one.gpus
