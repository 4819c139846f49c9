"""A crew that has never spoken: a script that knows nothing of Weft.

It is tied to the width and the places that it was started with. All of it ends well or the job has
failed, and another width is a new start.
"""

from dataclasses import dataclass
from signal import SIGTERM
from typing import Final

from weft.agent.coordination.limits import Limits
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.worker import WorkerState

NEVER: Final = float("inf")


@dataclass(slots=True)
class PlainCrew:
    """As wide as it was started."""

    width: int
    retired_since: float = NEVER

    def retires(self, roster: Roster, width: int, unwanted: frozenset[int], now: float) -> bool:
        """Whether it has to end before another is started, and that it has been told so."""
        crew = roster.alive()
        misplaced = any(worker.number in unwanted for worker in crew)
        if not crew or (self.width == width and not misplaced):
            self.width = width
            return False
        for worker in crew:
            if worker.state is not WorkerState.LEAVING:
                worker.become(WorkerState.LEAVING)
                roster.signal(worker, SIGTERM)
                self.retired_since = now
        return True

    def lingers(self, limits: Limits, now: float) -> bool:
        """Whether it was told to end too long ago."""
        return now - self.retired_since > limits.stop_seconds
