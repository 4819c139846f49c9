"""How far a launched job has come, in one line: `step 120/300  loss 0.4321  …  1m20s left`."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.cli.terminal.age import lasting

if TYPE_CHECKING:
    from weft.agent.agent import Agent
    from weft.agent.messages import Pulse

WINDOW_SECONDS: Final = 10.0
LEAST_SECONDS: Final = 0.4


@dataclass(frozen=True, slots=True)
class Mark:
    """So many steps and samples were done by then."""

    seconds: float
    steps: int
    samples: int


class Meter:
    """The speed of the last seconds, from marks as they come."""

    def __init__(self) -> None:
        self._marks: deque[Mark] = deque()

    def hear(self, mark: Mark) -> None:
        """A run that begins again further back has another speed."""
        if self._marks and mark.steps < self._marks[-1].steps:
            self._marks.clear()
        self._marks.append(mark)
        while mark.seconds - self._marks[0].seconds > WINDOW_SECONDS:
            self._marks.popleft()

    @property
    def steps_per_second(self) -> float:
        return self._rate(lambda mark: mark.steps)

    @property
    def samples_per_second(self) -> float:
        return self._rate(lambda mark: mark.samples)

    def _rate(self, of: Callable[[Mark], int]) -> float:
        if not self._marks:
            return 0.0
        first, last = self._marks[0], self._marks[-1]
        seconds = last.seconds - first.seconds
        return (of(last) - of(first)) / seconds if seconds >= LEAST_SECONDS else 0.0


class Progress:
    """The line of one agent's job; nothing as long as no worker has spoken."""

    def __init__(self, agent: "Agent", clock: Callable[[], float] = time.monotonic) -> None:
        self._agent, self._clock = agent, clock
        self._meter = Meter()
        self._heard: Pulse | None = None

    def line(self) -> str:
        """As it is now."""
        mind = self._agent.coordinator
        first = mind.members[0] if mind.members else None
        pulse = self._agent.progress.latest.get(first) if first is not None else None
        if pulse is None or not pulse.epoch:
            return ""
        if pulse is not self._heard:  # one that was counted already would look like a pause
            self._heard = pulse
            self._meter.hear(Mark(self._clock(), pulse.step, pulse.samples))
        return words(pulse, self._meter, width=len(mind.members), target=mind.width)


def words(pulse: "Pulse", meter: Meter, *, width: int, target: int) -> str:
    """Only what is known."""
    loss = pulse.metrics.get("loss")
    rate, speed = meter.samples_per_second, meter.steps_per_second
    left = (pulse.total - pulse.step) / speed if speed > 0 and pulse.total > pulse.step else None
    parts = (
        f"step {pulse.step}/{pulse.total}",
        f"loss {loss:.4g}" if loss is not None else "",
        f"{rate:,.4g} samples/s" if rate > 0 else "",
        _crew(width, target),
        f"{lasting(left)} left" if left is not None else "",
    )
    return "  ".join(filter(None, parts))


def _crew(width: int, target: int) -> str:
    if width != target:
        return f"{width} of {target} workers"
    return f"{width} worker" + ("s" if width != 1 else "")
