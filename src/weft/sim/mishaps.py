"""What goes wrong, and when: the faults that are wished for, drawn from the seed.

Each draw has a name of its own, so that what happens to one job does not depend on the others;
messages are counted instead, for they have no names.
"""

from weft.model.ids import JobId
from weft.sim.chance import Chance
from weft.sim.faults import Faults


class Mishaps:
    """Drawn until the faults are over."""

    def __init__(self, faults: Faults, chance: Chance) -> None:
        self._faults = faults
        self._chance = chance
        self._lossy = faults.lossy
        self._messages = 0

    def go_on(self, now: float) -> bool:
        return now < self._faults.until_seconds

    def lose_messages(self, now: float) -> bool:
        return self._lossy and self.go_on(now)

    def fail_after(self, now: float, job: JobId, epoch: int) -> float | None:
        """At which share of its way this incarnation fails, if it does."""
        rate = self._faults.job_failure
        if not (rate and self.go_on(now)) or self._chance.uniform("fail", job, epoch) >= rate:
            return None
        return self._chance.uniform("fail at", job, epoch)

    def refuse(self, now: float, *what: object) -> bool:
        """Whether a start or a resize that could be done is refused all the same."""
        rate = self._faults.refuse_start
        return bool(rate) and self.go_on(now) and self._chance.uniform(*what) < rate

    def delays(self, *, report: bool) -> list[float]:
        """When the copies of the next message arrive: none, one or two of them."""
        drop, repeat = self._faults.drop_instruction, self._faults.repeat_instruction
        if report:
            drop, repeat = self._faults.drop_report, self._faults.repeat_report
        self._messages += 1
        draw = self._chance.uniform("copies", self._messages)
        count = 0 if draw < drop else 2 if draw < drop + repeat else 1
        return [
            self._faults.late_seconds * self._chance.uniform("late", self._messages, copy)
            for copy in range(count)
        ]
