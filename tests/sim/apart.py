"""Rounds apart: two rounds are never closer than the recipe's period, or its spacing.

Whatever wants a round sooner waits for it, without an exception: an event, the end of a backoff,
a job that may have to yield from now on. A new brain knows of no round before its first. And none
comes too late for a job that has rested: it is thought of as soon as the next round may be.
"""

from math import inf
from typing import TYPE_CHECKING

from tests.sim.promise import PromiseBroken
from weft.model.state import State

if TYPE_CHECKING:
    from tests.sim.random_world import RandomWorld

ROUNDING_SECONDS = 1e-6
A_MOMENT_SECONDS = 0.01


class Apart:
    """Remembers when the last round was."""

    def __init__(self) -> None:
        self._last = -inf

    def forget(self) -> None:
        """The brain is another one."""
        self._last = -inf

    def look(self, world: "RandomWorld") -> None:
        """There was a round just now (I16)."""
        rounds, now = world.brain.recipe.rounds, world.now
        period = rounds.period_seconds
        least = rounds.spacing_seconds if period is None else period
        if now - self._last < least - ROUNDING_SECONDS:
            raise PromiseBroken("I16", f"rounds at {self._last} and {now}, not {least} s apart")
        self._last = now


def rested_are_thought_of(world: "RandomWorld") -> None:
    """A round is due when the first of those who rest after a failure may be tried again (I18)."""
    state, pace, rounds = world.brain.state, world.brain.pace, world.brain.recipe.rounds
    jobs = state.jobs
    rests = jobs.active & (jobs.state == State.QUEUED) & (jobs.not_before > pace.last)
    if not rests.any():
        return
    gap = rounds.spacing_seconds if rounds.period_seconds is None else rounds.period_seconds
    first = float(jobs.not_before[rests].min())
    latest = max(first, pace.last + gap, world.now) + A_MOMENT_SECONDS
    if pace.due_at is None or pace.due_at > max(latest, world.now + gap):
        raise PromiseBroken("I18", f"rests until {first}, next round at {pace.due_at}")
