"""What a change of width cost the worker that was there before and after it.

Let S be the first step of the new epoch. Training *waits* for the change by what S − 1 and S take
longer than their neighbours of the same width: S − 1, in which the new epoch is armed, than the
median step of the old width; S, which begins with the switch and carries the state, than the median
step of the new one. In the S of a join the newcomers have no samples yet, so that the old members
compute as much as before: that too is counted as waiting, because a switch at no cost would have
had everyone's help at once. The wait for the transfer inside of S, as the session sees it, is a
part of this and told by itself.

Neighbours are settled steps: before the order was given, and later than the few steps after a
switch that the profiler runs without overlap or that follow the script's own digest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from benchmarks.runtime.job import Event, Step
from weft.model.errors import WorldError

NEIGHBOURS = 12
UNSETTLED_STEPS = 6
SETTLED_STEPS = UNSETTLED_STEPS + NEIGHBOURS
CALIBRATED = slice(1, 4)


@dataclass(frozen=True, slots=True)
class Switch:
    """One change, seconds throughout."""

    ordered_to_steady: float
    waited: float
    exposed: float
    calibrating: float
    before: float
    after: float
    meanwhile: tuple[float, ...]
    """The steps between the order and S − 1, while newcomers warm up on the same machine."""

    @property
    def slowdown(self) -> float:
        """How much longer a step takes while newcomers warm up."""
        return median(self.meanwhile) / self.before - 1 if self.meanwhile else 0.0


def switch_of(steps: Sequence[Step], ordered: Event, steady: Event) -> Switch:
    """The change to the epoch of `steady`, from the steps of one worker that went through it."""
    at = next((i for i, step in enumerate(steps) if step.epoch == steady["epoch"]), 0)
    if at == 0:
        raise WorldError(f"nobody went through the switch to epoch {steady['epoch']}")
    old = steps[at - 1].epoch
    was = [s for s in steps[:at] if s.epoch == old]
    calm = [s.seconds for s in was[UNSETTLED_STEPS:] if s.ended <= ordered["at"]]
    new = [s.seconds for s in steps[at:] if s.epoch == steady["epoch"]]
    before, after = median(calm[-NEIGHBOURS:]), median(new[UNSETTLED_STEPS:SETTLED_STEPS])
    last, first = steps[at - 1].seconds, steps[at].seconds
    return Switch(
        ordered_to_steady=steady["seconds"] - ordered["seconds"],
        waited=max(last - before, 0.0) + max(first - after, 0.0),
        exposed=steps[at].waited,
        calibrating=median(new[CALIBRATED]) - after,
        before=before,
        after=after,
        meanwhile=tuple(s.seconds for s in was if s.began >= ordered["at"])[:-1],
    )
