"""What taking turns does to each member of a party: how much slower it is, and its share.

Believed, from the stages that jobs claim and from what such parties were measured to do. Members
that start or stop do not take part in the cycle; the others go on without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.model.claim import StageClaim
from weft.model.stages import BUSY
from weft.perf.interleaving.experience import Experience, Signature, signature_of
from weft.perf.interleaving.group import GroupForecast, foretold
from weft.perf.interleaving.watch import Shown, Watch
from weft.policy.share.guards import Guard


@dataclass(frozen=True, slots=True)
class Turn:
    """One member's part: times slower than alone, and what it uses of the cycle."""

    slowdown: float = 1.0
    share: float = 1.0


ALONE = Turn()


@dataclass(slots=True)
class Looked:
    """Of one party: the watch over it, and what was measured of each member since it changed."""

    members: tuple[int, ...]
    watch: Watch
    slowdowns: dict[int, float] = field(default_factory=dict)
    measured: dict[int, float] = field(default_factory=dict)
    """As of the last look that was complete."""

    seconds: dict[int, float] = field(default_factory=dict)
    alone_seconds: dict[int, float] = field(default_factory=dict)
    """Of each, since there was last enough to judge by: how long it was measured, and how long
    what it did then would have taken it alone."""

    def hear(self, slot: int, slowdown: float, seconds: float) -> None:
        """Workers measure a few seconds at a time, which are too few to judge anybody by."""
        self.slowdowns[slot] = slowdown
        self.seconds[slot] = self.seconds.get(slot, 0.0) + seconds
        self.alone_seconds[slot] = self.alone_seconds.get(slot, 0.0) + seconds / slowdown

    def shown(self, cycle_seconds: float) -> Shown:
        """For as long as all of them were measured."""
        seconds = min(self.seconds.values())
        alone = (self.alone_seconds[slot] / self.seconds[slot] for slot in self.members)
        return Shown(seconds, seconds / cycle_seconds, tuple(seconds * part for part in alone))

    def begin_anew(self) -> None:
        self.seconds, self.alone_seconds = {}, {}

    def copied(self) -> "Looked":
        own = self.slowdowns, self.measured, self.seconds, self.alone_seconds
        return Looked(self.members, self.watch, *map(dict, own))


@dataclass(frozen=True, slots=True)
class Refused:
    """Of one that waits: the lead of the party with which most would be gained, if there is any,
    and what kept it from joining."""

    lead: int | None
    guard: Guard


class Turns:
    """Forecasts by the members' profiles, corrected by experience."""

    def __init__(self, experience: Experience | None = None, *, charges_all: bool = False) -> None:
        """Where it `charges_all`, every member is charged as if it had the GPUs to itself.

        `changed` is when a job began or ended last to take turns with somebody, `looked` what was
        measured of parties, by the slot of their lead, and `refused` what kept those who wait out
        of any in the last round.
        """
        self.experience = experience or Experience()
        self.charges_all = charges_all
        self.changed: dict[int, float] = {}
        self.looked: dict[int, Looked] = {}
        self.refused: dict[int, Refused] = {}

    def forecast(self, claims: Sequence[StageClaim | None]) -> GroupForecast:
        """By stages alone; members in the order in which they are given."""
        return foretold([BUSY if claim is None else claim.profile for claim in claims])

    def expected(self, claims: Sequence[StageClaim | None]) -> GroupForecast:
        """The same, as such parties were measured; nobody is faster than alone."""
        forecast = self.forecast(claims)
        least = 1.0 / min(forecast.slowdowns)
        return forecast.slower(max(self.experience.factor(signature(claims)), least))

    def of(self, claims: Sequence[StageClaim | None], member: int) -> Turn:
        """Of one of several who take turns."""
        if len(claims) == 1:
            return ALONE
        expected = self.expected(claims)
        own = expected.slowdowns[member]
        share = 1.0 if self.charges_all else 1.0 / own / expected.aggregate
        return Turn(own, share)

    def copied(self) -> "Turns":
        twin = Turns(self.experience.copied(), charges_all=self.charges_all)
        twin.changed, twin.refused = dict(self.changed), dict(self.refused)
        twin.looked = {lead: looked.copied() for lead, looked in self.looked.items()}
        return twin

    def forget(self, slot: int) -> None:
        """The job is over; its row may be another one's."""
        self.changed.pop(slot, None)
        self.looked = {
            lead: looked
            for lead, looked in self.looked.items()
            if slot != lead and slot not in looked.members
        }
        gone = [one for one, refused in self.refused.items() if slot in (one, refused.lead)]
        for one in gone:
            del self.refused[one]


def signature(claims: Sequence[StageClaim | None]) -> Signature:
    """Parties of the same profiles are one experience."""
    return signature_of(BUSY if claim is None else claim.profile for claim in claims)
