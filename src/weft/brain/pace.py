"""The pace of rounds: at events, some time apart, or at fixed periods, as the recipe says."""

from dataclasses import dataclass

from weft.policy.recipe import Rounds

SHORTEST_SPACING_SECONDS = 1e-3


@dataclass(slots=True)
class Pace:
    """When the last round was, and when the next one is due (None: when something happens)."""

    rounds: Rounds
    last: float = float("-inf")
    due_at: float | None = None

    def want(self, now: float) -> None:
        """Something happened: decide as soon as the recipe allows."""
        period = self.rounds.period_seconds
        gap = self.rounds.spacing_seconds if period is None else period
        self.by(max(now, self.last + gap))

    def want_at(self, at: float, now: float) -> None:
        """Decide at that time, or as soon after it as the recipe allows."""
        gap = max(self.rounds.spacing_seconds, SHORTEST_SPACING_SECONDS)
        self.by(max(at, now + gap))

    def by(self, at: float) -> None:
        if self.due_at is None or at < self.due_at:
            self.due_at = at

    def is_due(self, now: float) -> bool:
        return self.due_at is not None and now >= self.due_at

    def begin(self, now: float) -> None:
        """A round runs now."""
        self.due_at = None
        self.last = now
