"""The table of leases of one machine: who has a resource of a GPU, and who waits for it.

A stage asks for all that it needs at once and gets all of it or waits, so two gangs never hold what
the other one needs. Waits are in order of asking: who comes later does not take what somebody
before it waits for, so nobody is passed for ever.

And every wait is bounded, twice. A lease has a term, told by who asks for it from what its stage
usually takes, which begins when somebody else wants what is leased; whoever is not back by then has
lost it to those who wait, which is counted as a breach. After its own bound a stage takes what it
asked for, whoever has it. A member that does not give back again and again is believed less each
time, until nobody waits for it at all. So all the harm that a member can do which hangs, dies
unseen or asks nobody is a wait or two.
"""

import math
from dataclasses import dataclass, field, replace

from weft.model.errors import ProtocolError


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One kind of resource beside one GPU; the GPU is named as the machine names it."""

    gpu: str
    kind: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A stage of a member wants all these, and runs without them when the bound is over.

    It expects to give them back within `term_seconds` of being asked for them.
    """

    member: str
    resources: frozenset[Resource]
    at: float
    bound_seconds: float
    term_seconds: float = math.inf

    @property
    def deadline(self) -> float:
        return self.at + self.bound_seconds


@dataclass(frozen=True, slots=True)
class Lease:
    """A member may run its stage; `breach` says that somebody else had not given back."""

    member: str
    resources: frozenset[Resource]
    waited_seconds: float
    breach: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """Who has a resource since when, and until when others wait for it: for ever if nobody does."""

    member: str
    since: float
    term_seconds: float
    until: float = math.inf


@dataclass(slots=True)
class LeaseTable:
    """`breaches` are counted by the member that others had to pass."""

    breaches: dict[str, int] = field(default_factory=dict)
    _held: dict[Resource, Held] = field(default_factory=dict)
    _waiting: list[Ask] = field(default_factory=list)
    _distrust: dict[str, int] = field(default_factory=dict)
    _wanted: list[str] = field(default_factory=list)

    @property
    def next_deadline(self) -> float | None:
        """When somebody who waits is to run anyway; None if nobody waits."""
        bounds = [ask.deadline for ask in self._waiting]
        terms = [held.until for ask in self._waiting for held in self._in_the_way_of(ask)]
        return min((*bounds, *terms), default=None)

    def holder(self, resource: Resource) -> str | None:
        held = self._held.get(resource)
        return held.member if held else None

    @property
    def waiting(self) -> tuple[str, ...]:
        """Members in the order in which they asked."""
        return tuple(ask.member for ask in self._waiting)

    def take_wanted(self) -> list[str]:
        """Members that somebody has begun to wait for since this was last asked."""
        wanted, self._wanted = self._wanted, []
        return wanted

    def ask(self, ask: Ask) -> list[Lease]:
        """A stage is about to begin; a lease for it may come now, later, or at its bound.

        What the member has of an earlier stage it has given back by asking for another one.
        """
        if any(other.member == ask.member for other in self._waiting):
            raise ProtocolError(f"{ask.member} asks for a second stage while it waits for one")
        if not (ask.bound_seconds >= 0 and ask.term_seconds >= 0):
            raise ProtocolError(f"{ask.member} asks for a lease with a bound or a term below 0")
        self._take_all_away(ask.member)
        self._waiting.append(ask)
        return self._grant(ask.at)

    def done(self, member: str, resources: frozenset[Resource], at: float) -> list[Lease]:
        """It says that its stage is over; those who may run now.

        Late is not never: whoever says so is trusted again. Else one hiccup of the machine would
        shorten its term below what its stages take, and it could not be in time any more.
        """
        self._distrust.pop(member, None)
        return self.lapsed(member, resources, at)

    def lapsed(self, member: str, resources: frozenset[Resource], at: float) -> list[Lease]:
        """Its stage is over, though it has not said so; those who may run now."""
        self._held = {
            what: held
            for what, held in self._held.items()
            if held.member != member or what not in resources
        }
        return self._grant(at)

    def withdraw(self, member: str, at: float) -> list[Lease]:
        """It does not wait any more."""
        self._waiting = [ask for ask in self._waiting if ask.member != member]
        return self._grant(at)

    def gone(self, member: str, at: float) -> list[Lease]:
        """It is dead, or left the group: it holds nothing and waits for nothing."""
        self._waiting = [ask for ask in self._waiting if ask.member != member]
        self._take_all_away(member)
        self.breaches.pop(member, None)
        self._distrust.pop(member, None)
        return self._grant(at)

    def overdue(self, at: float) -> list[Lease]:
        """Leases whose term is over are lost; those whose own bound is over run anyway.

        To be called when all that has been said by then is heard: nobody is late whose word is on
        its way.
        """
        due = [ask for ask in self._waiting if ask.deadline <= at]
        late = self._late(at)
        for member in late:
            self._pass(member)
        leases = self._grant(at, breach=bool(late))
        got = {lease.member for lease in leases}
        broken_in = [self._break_in(ask, at) for ask in due if ask.member not in got]
        return [*leases, *broken_in, *self._grant(at, breach=True)]

    def _late(self, at: float) -> list[str]:
        """Members that others wait for beyond their term."""
        late = [
            held.member
            for ask in self._waiting
            for held in self._in_the_way_of(ask)
            if held.until <= at
        ]
        return list(dict.fromkeys(late))

    def _grant(self, at: float, *, breach: bool = False) -> list[Lease]:
        """All who need nothing that is held, or that somebody before them waits for."""
        leases, spoken_for, still = [], set(self._held), []
        for ask in self._waiting:
            if ask.resources & spoken_for:
                still.append(ask)
            else:
                leases.append(self._lease(ask, at, breach=breach))
            spoken_for |= ask.resources
        self._waiting = still
        self._note_wanted(at)
        return leases

    def _note_wanted(self, at: float) -> None:
        """The terms of those who have what is waited for begin, if they have not yet."""
        for ask in self._waiting:
            for what in sorted(ask.resources):
                held = self._held.get(what)
                if held is not None and held.until == math.inf and held.member != ask.member:
                    self._held[what] = replace(held, until=at + held.term_seconds)
                    self._wanted.append(held.member)

    def _lease(self, ask: Ask, at: float, *, breach: bool) -> Lease:
        term = ask.term_seconds / 2.0 ** self._distrust.get(ask.member, 0)
        self._held |= dict.fromkeys(ask.resources, Held(ask.member, at, term))
        return Lease(ask.member, ask.resources, max(at - ask.at, 0.0), breach)

    def _break_in(self, ask: Ask, at: float) -> Lease:
        self._waiting.remove(ask)
        there = self._in_the_way_of(ask)
        blamed = dict.fromkeys(held.member for held in there if held.since < at)
        for member in blamed:
            self._pass(member)
        return self._lease(ask, at, breach=bool(there))

    def _pass(self, member: str) -> None:
        """Nobody waits for it any more: what it had is not its own."""
        self._take_all_away(member)
        self.breaches[member] = self.breaches.get(member, 0) + 1
        self._distrust[member] = min(self._distrust.get(member, 0) + 1, MOST_DISTRUST)

    def _in_the_way_of(self, ask: Ask) -> list[Held]:
        """In an order that does not depend on chance."""
        there = (self._held.get(resource) for resource in sorted(ask.resources))
        return [held for held in there if held is not None and held.member != ask.member]

    def _take_all_away(self, member: str) -> None:
        self._held = {what: held for what, held in self._held.items() if held.member != member}


MOST_DISTRUST = 30
"""Halvings of a term: from here on it is nothing."""
