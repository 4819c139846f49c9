"""Hangs in a row: a job that comes no further than where it hung before hangs there again."""

from dataclasses import dataclass

NOWHERE = -2  # before any step


@dataclass(slots=True)
class Hangs:
    """How often in a row, and how far it had come; workers of one epoch hang together."""

    times: int = 0
    step: int = NOWHERE
    epoch: int = -1

    def count(self, step: int, epoch: int) -> int:
        """Another one: how often it is in a row now."""
        if epoch != self.epoch:
            self.times = 1 if step > self.step else self.times + 1
        self.step, self.epoch = max(self.step, step), epoch
        return self.times
