"""A step of which nobody alone knows whether it counts, and what all together know of it.

A step is committed if anyone who lives, or who has left, has applied it. Whoever still holds its
summed gradient voted for it and may apply it now; with the others the training goes on from there.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.agent.coordination.limits import Limits
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.worker import Worker
from weft.agent.messages import STATELESS, Broken, Members


@dataclass(frozen=True, slots=True)
class Verdict:
    """The last step that counts, who can go on from it, and who cannot.

    Of the `others`, those who have no state at all may begin anew, or be given one.
    """

    committed: int
    holders: Members
    others: Members
    blank: frozenset[int] = frozenset()


@dataclass(slots=True)
class Doubt:
    """Those who were halted, and how far they say they are."""

    participants: Members
    since_seconds: float
    answers: dict[int, Broken] = field(default_factory=dict)

    def unanswered(self, roster: Roster) -> Members:
        """Those who live and have not said yet how far they are."""
        asked = (n for n in self.participants if roster.answering(n))
        return tuple(n for n in asked if n not in self.answers)

    def silent(self, roster: Roster, limits: Limits, now: float) -> list[Worker]:
        """Those who neither answer nor give a sign of life."""
        waited_for = [roster[number] for number in self.unanswered(roster)]
        return [
            worker
            for worker in waited_for
            if now - max(worker.heard_seconds, self.since_seconds) >= limits.silent_seconds
        ]

    def verdict(self, roster: Roster, departed: Iterable[int]) -> Verdict:
        """When all who live have answered; `departed` are the last steps of those who left."""
        answers = {n: self.answers[n] for n in self.participants if roster.answering(n)}
        top = max((STATELESS, *departed, *(a.committed for a in answers.values())))
        holding = [n for n, a in answers.items() if top in (a.committed, a.pending)]
        holders = roster.whole_units(tuple(holding)) if top > STATELESS else ()
        others = tuple(n for n in answers if n not in holders)
        blank = frozenset(n for n in others if answers[n].committed == STATELESS)
        return Verdict(top, holders, others, blank)
