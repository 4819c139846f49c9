"""How fast the job trains while nothing changes, from what its first member measures.

A speed is a fact of a width, so it is taken over steps of one epoch only; the steps around a change
are left out where they are measured (`weft.train.stages`). Reports are gathered until there are
steps enough for a number that means something, and each measurement has a number of its own, so
that whoever looks twice takes it once.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

FEWEST_STEPS: Final = 5
LEAST_SECONDS: Final = 1.0
LONG_SECONDS: Final = 60.0  # where steps are long, so many seconds stand for the steps:
FEWEST_LONG_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """`width` members made so many steps per second, over so many seconds of training.

    One that is `shared` was made while the job took turns with others on its GPUs.
    """

    number: int
    width: int
    steps_per_second: float
    seconds: float
    shared: bool = False

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


class Speedometer:
    """Makes measurements of reports; `newest` is the last one."""

    def __init__(self) -> None:
        self.newest: Measured | None = None
        self._setting = (0, False)
        self._steps, self._seconds = 0, 0.0

    def hear(
        self, report: Mapping[str, Any], *, epoch: int, width: int, shared: bool = False
    ) -> bool:
        """Whether this report completes a measurement of the members of now."""
        if (epoch, shared) != self._setting:
            self._setting, self._steps, self._seconds = (epoch, shared), 0, 0.0
        steps, step_seconds = report.get("steps"), report.get("mean_step")
        if (report.get("epoch"), report.get("width")) != (epoch, width):
            return False
        if type(steps) is not int or not isinstance(step_seconds, int | float):
            return False
        if steps <= 0 or not 0.0 < step_seconds < math.inf:
            return False
        self._steps += steps
        self._seconds += steps * step_seconds
        if not self._is_enough():
            return False
        self._publish(width)
        return True

    def _is_enough(self) -> bool:
        if self._seconds >= LONG_SECONDS:
            return self._steps >= FEWEST_LONG_STEPS
        return self._seconds >= LEAST_SECONDS and self._steps >= FEWEST_STEPS

    def _publish(self, width: int) -> None:
        number = self.newest.number + 1 if self.newest else 1
        shared = self._setting[1]
        self.newest = Measured(number, width, self._steps / self._seconds, self._seconds, shared)
        self._steps, self._seconds = 0, 0.0
