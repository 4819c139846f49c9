"""The followers of a job as its head sees them: who is there, who is leaving, who is silent.

Nothing tells of a machine that lost its power, so head and followers give each other a sign of life
every second. A follower that gives none for some seconds is lost, with all that ran on its seat,
whether it is dead or only stopped: it finds its connection closed when it wakes, and ends.
"""

from dataclasses import dataclass, field

from weft.agent.coordination.limits import Limits


@dataclass(slots=True)
class Followers:
    """By the number of their seat."""

    limits: Limits
    hosts: dict[int, str] = field(default_factory=dict)
    leaving: set[int] = field(default_factory=set)
    _heard: dict[int, float] = field(default_factory=dict)
    _beaten: float = 0.0
    _looked: float | None = None

    def heard(self, seat: int, now: float) -> None:
        self._heard[seat] = now

    def last_heard(self, seat: int) -> float:
        return self._heard.get(seat, float("-inf"))

    def forget(self, seat: int) -> bool:
        """Whether it was known."""
        self._heard.pop(seat, None)
        self.leaving.discard(seat)
        return self.hosts.pop(seat, None) is not None

    def to_beat(self, now: float) -> tuple[int, ...]:
        """Whom a sign of life is due to; each asking counts as giving it."""
        if now - self._beaten < self.limits.beat_seconds:
            return ()
        self._beaten = now
        return tuple(self._heard)

    def silent(self, now: float) -> tuple[int, ...]:
        """Those who have not been heard for too long; a head that slept itself blames nobody."""
        limit = self.limits.beatless_seconds
        slept = now - self._looked if self._looked is not None else 0.0
        self._looked = now
        if slept > self.limits.beat_seconds:
            self._heard = {seat: heard + slept for seat, heard in self._heard.items()}
        return tuple(seat for seat, heard in self._heard.items() if now - heard > limit)
