"""How much of what was promised is verified while a world runs."""

from enum import IntEnum

from weft.brain import invariants
from weft.brain.brain import Brain
from weft.brain.event import Event
from weft.model.ids import JobId

FULL_EVERY_ROUNDS = 64
"""Of the checks of what was touched, one in so many looks at everything."""


class Checks(IntEnum):
    """How much is verified after each event."""

    OFF = 0
    TOUCHED = 1
    FULL = 2

    def demand(self, brain: Brain, event: Event) -> None:
        """Raises at the first broken promise."""
        state, decision = brain.state, brain.decision
        everything = decision is not None and brain.rounds % FULL_EVERY_ROUNDS == 0
        if self is Checks.FULL or everything:
            invariants.demand(invariants.check(state, decision))
        elif decision is not None:
            invariants.demand(invariants.check_touched(state, decision))
        job = getattr(event, "job", None)
        if type(job) is str:
            invariants.demand(invariants.check_job(state, JobId(job)))
