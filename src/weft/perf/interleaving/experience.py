"""What groups have really done: corrections of forecasts, and groups that rest for a while.

Stages are measured alone, and what jobs do to each other in caches, on buses and in drivers is in
no profile. So the cycle that a group of the same profiles was measured to have corrects the one
that is foretold. A group that did less than its members one after the other is not tried again for
an hour: it may have been bad luck, but the same luck is not tried at once.
"""

from dataclasses import dataclass, field

MEMORY = 0.3
"""The weight of the newest measurement among all there were."""

DRIFT = 0.15
"""Beyond this a profile is said to be wrong, and is to be measured anew."""

REST_SECONDS = 3600.0
LEAST_FACTOR, MOST_FACTOR = 0.5, 20.0
"""A measurement beyond these says something of the measuring, and is taken for the bound."""

Signature = tuple[str, ...]
"""Names of the members' profiles in order: groups of the same profiles are one experience."""


def signature_of(profiles: list[str] | tuple[str, ...]) -> Signature:
    return tuple(sorted(profiles))


@dataclass(slots=True)
class Experience:
    """By signature: measured over foretold, and until when a group of that kind rests."""

    _factor: dict[Signature, float] = field(default_factory=dict)
    _rests_until: dict[Signature, float] = field(default_factory=dict)

    def factor(self, group: Signature) -> float:
        """What a foretold cycle is to be multiplied with; 1 where nobody knows better."""
        return self._factor.get(group, 1.0)

    def learn(self, group: Signature, *, foretold_seconds: float, measured_seconds: float) -> None:
        """A cycle of such a group took so long, where so much was foretold by stages alone."""
        found = min(max(measured_seconds / foretold_seconds, LEAST_FACTOR), MOST_FACTOR)
        before = self._factor.get(group)
        self._factor[group] = found if before is None else before + MEMORY * (found - before)

    def has_drifted(self, group: Signature) -> bool:
        """Whether its members' profiles should be measured anew."""
        return abs(self.factor(group) - 1.0) > DRIFT

    def rest(self, group: Signature, now: float) -> None:
        """It has done harm: nobody tries it again before the rest is over."""
        self._rests_until[group] = now + REST_SECONDS

    def rests(self, group: Signature, now: float) -> bool:
        return now < self._rests_until.get(group, float("-inf"))

    def copied(self) -> "Experience":
        return Experience(dict(self._factor), dict(self._rests_until))
