"""How long the steps of a worker take: what is long for one program is a step for another."""

from dataclasses import dataclass
from typing import Final

NEWEST: Final = 0.2  # what the last step counts for


@dataclass(slots=True)
class Pace:
    """A mean of late, and among how many it was measured."""

    seconds: float = 0.0
    members: int = 0
    _since: float | None = None
    _step: int = -1

    def came_to(self, step: int, now: float, members: int) -> None:
        """Everything between two steps counts, pauses as well: it is there to be waited for."""
        if self._since is None:
            self._since, self._step = now, step
        elif step > self._step:
            each = (now - self._since) / (step - self._step)
            known = self.seconds > 0.0 and members == self.members
            self.seconds += (NEWEST if known else 1.0) * (each - self.seconds)
            self.members = members
            self._since, self._step = now, step

    def among(self, members: int) -> float:
        """How long a step may well take now: with fewer members each has more to do."""
        return self.seconds * max(self.members / max(members, 1), 1.0)
