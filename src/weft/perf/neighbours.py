"""How much slower jobs of one kind are beside jobs of another, from what was measured.

A job is measured beside others and, at other times, beside fewer or none. What it loses is laid to
those who are there, in equal parts as long as nobody knows better; what each was expected to cost
counts first, so that a neighbour who did no harm elsewhere is not blamed for what another does.
What is learnt is bounded, and fades by half in a week: programs change.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

HALF_LIFE_SECONDS: Final = 7 * 86_400.0
MOST_SLOWER: Final = 2.0
STEP: Final = 0.5
MOST_PAIRS: Final = 4_096


class Label(NamedTuple):
    """Jobs of one tenant with the same program are alike; one without a program is itself."""

    tenant: str
    program: str


class Seen(NamedTuple):
    """By how much slower, and when that was learnt."""

    slower: float
    at: float


Pair = tuple[Label, Label]


@dataclass(slots=True)
class Slowdowns:
    """By pair: who is slowed, and beside whom. `near` says who was ever seen beside whom."""

    pairs: dict[Pair, Seen] = field(default_factory=dict)
    near: dict[Label, set[Label]] = field(default_factory=dict)

    def slower(self, job: Label, beside: Label, now: float) -> float:
        """By which share of its time alone, so long after it was last seen."""
        seen = self.pairs.get((job, beside))
        if seen is None:
            return 0.0
        fading: float = 0.5 ** (max(now - seen.at, 0.0) / HALF_LIFE_SECONDS)
        return seen.slower * fading

    def foretold(self, job: Label, beside: Sequence[Label], now: float) -> float:
        """Beside all of these."""
        return sum(self.slower(job, other, now) for other in beside)

    def learn(self, job: Label, beside: Sequence[Label], slower: float, now: float) -> None:
        """It was measured so much slower beside these."""
        error = min(max(slower, 0.0), MOST_SLOWER) - self.foretold(job, beside, now)
        for other in Counter(beside):
            moved = self.slower(job, other, now) + STEP * error / len(beside)
            self.pairs.pop((job, other), None)
            self.near.setdefault(job, set()).add(other)
            self.near.setdefault(other, set()).add(job)
            self.pairs[job, other] = Seen(min(max(moved, 0.0), MOST_SLOWER), now)
        while len(self.pairs) > MOST_PAIRS:
            self._forget(next(iter(self.pairs)))

    def _forget(self, pair: Pair) -> None:
        """The one that was learnt longest ago."""
        one, other = pair
        del self.pairs[pair]
        if (other, one) not in self.pairs:
            for label, gone in (pair, (other, one)):
                self.near[label].discard(gone)
                if not self.near[label]:
                    del self.near[label]

    def copied(self) -> "Slowdowns":
        near = {label: set(others) for label, others in self.near.items()}
        return Slowdowns(dict(self.pairs), near)
