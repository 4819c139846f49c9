"""The pace of rounds: at events, some time apart, or at fixed periods, as the recipe says."""

from dataclasses import dataclass, field, replace

import numpy as np

from weft.brain.context import Context
from weft.model.snapshot import Ints
from weft.model.state import State
from weft.policy.recipe import Yielding

SHORTEST_SPACING_SECONDS = 1e-3
ROUNDING_SECONDS = 1e-3


@dataclass(slots=True)
class Pace:
    """When the last round was, and when the next one is due (None: when something happens).

    Also what the next round must know of the time since the last one: whether there is more to
    give away, and whether somebody was left waiting, or even waiting for too long.
    """

    context: Context = field(repr=False)
    last: float = float("-inf")
    due_at: float | None = None
    supply_grew: bool = True
    someone_waits: bool = False
    someone_is_overdue: bool = False
    backoff_until: float = float("-inf")

    def want(self) -> None:
        """Something happened: decide as soon as the recipe allows."""
        rounds = self.context.recipe.rounds
        period = rounds.period_seconds
        gap = rounds.spacing_seconds if period is None else period
        self._by(max(self.context.now, self.last + gap))

    def want_at(self, at: float) -> None:
        """Decide at that time, or as soon after it as the recipe allows: a period is kept."""
        rounds = self.context.recipe.rounds
        earliest = self.context.now + max(rounds.spacing_seconds, SHORTEST_SPACING_SECONDS)
        if rounds.period_seconds is not None:
            earliest = max(earliest, self.last + rounds.period_seconds)
        self._by(max(at, earliest))

    def want_after_change(self) -> None:
        """A job has become one that can be resized, or has been: who waits may get some of it now.

        For itself and for others who run nothing changes until its hold is over.
        """
        resizing = self.context.recipe.resizing
        hold_seconds = 0.0 if resizing is None else resizing.hold_seconds
        if self.someone_waits or not hold_seconds:
            self.want()
        else:
            self.want_at(self.context.now + hold_seconds)

    def want_when_they_may_yield(self, slots: list[int] | Ints) -> None:
        """A job that keeps its seats for a while after its start may be what others wait for.

        To whoever has waited too long it yields also where the recipe stops nobody otherwise.
        """
        recipe, jobs = self.context.recipe, self.context.state.jobs
        yielding = recipe.yielding or (Yielding() if self.someone_is_overdue else None)
        if not self.someone_waits or yielding is None or yielding.reshuffle:
            return
        if recipe.rounds.period_seconds is not None:
            return
        slots = np.asarray(slots, np.int64)
        slots = slots[jobs.yields[slots]]
        moments = yielding.go_after_seconds(jobs.saves_every_seconds[slots])
        later = np.concatenate([jobs.started[slots] + seconds for seconds in moments])
        later = later[(later >= self.context.now) & np.isfinite(later)]
        if len(later):
            self.want_at(float(later.min()) + ROUNDING_SECONDS)

    def want_again(self) -> None:
        """The next round, if nothing happens before: a period on, or when a backoff ends."""
        state, now = self.context.state, self.context.now
        if self.context.recipe.rounds.period_seconds is not None:
            if state.slot_of:
                self.want()
        elif now < self.backoff_until:
            soonest = self.next_try(now)
            if soonest is not None:
                self.want_at(soonest)

    def next_try(self, now: float) -> float | None:
        """When the next waiting job may be tried again; None if all may be now."""
        jobs = self.context.state.jobs
        later = jobs.active & (jobs.state == State.QUEUED) & (jobs.not_before > now)
        return float(jobs.not_before[later].min()) if later.any() else None

    def rest(self, delay_seconds: float) -> None:
        """Somebody is not to be tried again before that."""
        self.backoff_until = max(self.backoff_until, self.context.now + delay_seconds)

    def is_due(self, at: float) -> bool:
        return self.due_at is not None and at >= self.due_at

    def begin(self) -> bool:
        """A round runs now; whether there is more to give away than at the last one."""
        grew, self.supply_grew = self.supply_grew, False
        self.due_at = None
        self.last = self.context.now
        return grew

    def copied(self, context: Context) -> "Pace":
        return replace(self, context=context)

    def _by(self, at: float) -> None:
        if self.due_at is None or at < self.due_at:
            self.due_at = at
