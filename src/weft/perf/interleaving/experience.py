"""What groups have really done: corrections of forecasts, and groups that rest for a while.

Stages are measured alone, and what jobs do to each other in caches, on buses and in drivers is in
no profile. So the cycle that a group of the same profiles was measured to have corrects the one
that is foretold. Of a group that nobody has tried it is expected that it loses what groups of so
many members lose on average: else every new pair would be joined on paper's word alone. A group
that did less than its members one after the other is not tried again for an hour: it may have been
bad luck, but the same luck is not tried at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from weft.model.stages import StageProfile

MEMORY = 0.3
"""The weight of the newest measurement among all there were."""

DRIFT = 0.15
"""Beyond this a profile is said to be wrong, and is to be measured anew."""

REST_SECONDS = 3600.0
LEAST_FACTOR, MOST_FACTOR = 0.5, 20.0
"""A measurement beyond these says something of the measuring, and is taken for the bound."""

MOST_KINDS = 4_096
"""Kinds of groups that are remembered, the newest."""

REMEMBERED = 4_096

Signature = tuple[str, ...]
"""Names of the members' profiles in order: groups of the same profiles are one experience."""


def signature_of(profiles: Iterable[StageProfile]) -> Signature:
    return tuple(sorted(map(_name_of, profiles)))


@lru_cache(maxsize=REMEMBERED)
def _name_of(profile: StageProfile) -> str:
    numbers = (profile.iteration_seconds, *profile.stages_seconds)
    return " ".join(f"{part:.6g}" for part in numbers)


@dataclass(slots=True)
class Typical:
    """What kinds of groups with so many members lose on average, and one that loses nothing."""

    kinds: int = 1
    total: float = 1.0

    @property
    def factor(self) -> float:
        return self.total / self.kinds


@dataclass(slots=True)
class Experience:
    """By signature: measured over foretold, and until when a group of that kind rests."""

    _factor: dict[Signature, float] = field(default_factory=dict)
    _rests_until: dict[Signature, float] = field(default_factory=dict)
    _typical: dict[int, Typical] = field(default_factory=dict)

    def factor(self, group: Signature) -> float:
        """What a foretold cycle is to be multiplied with, as such groups were measured."""
        known = self._factor.get(group)
        return self.typical(len(group)) if known is None else known

    def typical(self, members: int) -> float:
        """Of a group that nobody has tried: of so many members, or of the next fewer that were."""
        tried = [size for size in self._typical if size <= members]
        return self._typical[max(tried)].factor if tried and members > 1 else 1.0

    def learn(self, group: Signature, *, foretold_seconds: float, measured_seconds: float) -> None:
        """What takes one alone a second took such a group so long, and so long by stages alone.

        By all their work and not by the slowest: whose steps are shorter may get fewer of them than
        was foretold, and the other loses nothing by that.
        """
        found = min(max(measured_seconds / foretold_seconds, LEAST_FACTOR), MOST_FACTOR)
        before = self._factor.pop(group, None)
        now = found if before is None else before + MEMORY * (found - before)
        self._factor[group] = now
        typical = self._typical.setdefault(len(group), Typical())
        typical.kinds += before is None
        typical.total += now - (before or 0.0)
        if len(self._factor) > MOST_KINDS:
            self._forget(next(iter(self._factor)))

    def _forget(self, group: Signature) -> None:
        typical = self._typical[len(group)]
        typical.kinds -= 1
        typical.total -= self._factor.pop(group)

    def has_drifted(self, group: Signature) -> bool:
        """Whether its members' profiles should be measured anew."""
        return abs(self.factor(group) - 1.0) > DRIFT

    def rest(self, group: Signature, now: float) -> None:
        """It has done harm: nobody tries it again before the rest is over.

        Then it is one that nobody has tried, or the bad luck of one day would keep it apart for
        ever. What is typical still knows of it.
        """
        self._rests_until[group] = now + REST_SECONDS
        self._factor.pop(group, None)

    def rests(self, group: Signature, now: float) -> bool:
        return now < self._rests_until.get(group, float("-inf"))

    def copied(self) -> "Experience":
        typical = {size: replace(each) for size, each in self._typical.items()}
        return Experience(dict(self._factor), dict(self._rests_until), typical)
