"""The table of leases of one machine: who has a resource of a GPU, and who waits for it.

A stage asks for all that it needs at once and gets all of it or waits, so two gangs never hold what
the other one needs. Waits are in order of asking: who comes later does not take what somebody
before it waits for, so nobody is passed for ever. And every wait is bounded. After its bound a
stage runs anyway, beside whoever has the resource; that is counted as a breach of the one who did
not give it back, and is all the harm that a member can do which hangs, dies unseen or asks nobody.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from weft.model.errors import ProtocolError


@dataclass(frozen=True, slots=True, order=True)
class Resource:
    """One kind of resource beside one GPU; the GPU is named as the machine names it."""

    gpu: str
    kind: str


@dataclass(frozen=True, slots=True)
class Ask:
    """A stage of a member wants all these, and runs without them when the bound is over."""

    member: str
    resources: frozenset[Resource]
    at: float
    bound_seconds: float

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


@dataclass(slots=True)
class LeaseTable:
    """`breaches` are counted by the member that others had to pass."""

    breaches: dict[str, int] = field(default_factory=dict)
    _held: dict[Resource, list[str]] = field(default_factory=dict)
    _waiting: list[Ask] = field(default_factory=list)

    @property
    def next_deadline(self) -> float | None:
        """When somebody who waits is to run anyway; None if nobody waits."""
        return min((ask.deadline for ask in self._waiting), default=None)

    def holders(self, resource: Resource) -> tuple[str, ...]:
        return tuple(self._held.get(resource, ()))

    @property
    def waiting(self) -> tuple[str, ...]:
        """Members in the order in which they asked."""
        return tuple(ask.member for ask in self._waiting)

    def ask(self, ask: Ask) -> list[Lease]:
        """A stage is about to begin; a lease for it may come now, later, or at its bound."""
        if any(other.member == ask.member for other in self._waiting):
            raise ProtocolError(f"{ask.member} asks for a second stage while it waits for one")
        if ask.bound_seconds < 0:
            raise ProtocolError(f"{ask.member} asks for a lease with a bound below 0")
        self._waiting.append(ask)
        return self._grant(ask.at)

    def done(self, member: str, resources: frozenset[Resource], at: float) -> list[Lease]:
        """Its stage is over; those who may run now."""
        for resource in sorted(resources):
            self._give_back(member, resource)
        return self._grant(at)

    def gone(self, member: str, at: float) -> list[Lease]:
        """It is dead, or left the group: it holds nothing and waits for nothing."""
        self._waiting = [ask for ask in self._waiting if ask.member != member]
        for resource in sorted(self._held):
            self._give_back(member, resource)
        self.breaches.pop(member, None)
        return self._grant(at)

    def overdue(self, at: float) -> list[Lease]:
        """Those whose bound is over run anyway."""
        late = [ask for ask in self._waiting if ask.deadline <= at]
        self._waiting = [ask for ask in self._waiting if ask.deadline > at]
        leases = [self._break_in(ask, at) for ask in late]
        return [*leases, *self._grant(at)]

    def _grant(self, at: float) -> list[Lease]:
        """All who need nothing that is held, or that somebody before them waits for."""
        leases, spoken_for, still = [], set(self._held), []
        for ask in self._waiting:
            if ask.resources & spoken_for:
                spoken_for |= ask.resources
                still.append(ask)
            else:
                spoken_for |= ask.resources
                leases.append(self._lease(ask, at))
        self._waiting = still
        return leases

    def _lease(self, ask: Ask, at: float, *, breach: bool = False) -> Lease:
        for resource in sorted(ask.resources):
            self._held.setdefault(resource, []).append(ask.member)
        return Lease(ask.member, ask.resources, max(at - ask.at, 0.0), breach)

    def _break_in(self, ask: Ask, at: float) -> Lease:
        blamed = dict.fromkeys(self._others_on(ask))
        for member in blamed:
            self.breaches[member] = self.breaches.get(member, 0) + 1
        return self._lease(ask, at, breach=bool(blamed))

    def _others_on(self, ask: Ask) -> Iterator[str]:
        for resource in sorted(ask.resources):
            yield from (member for member in self.holders(resource) if member != ask.member)

    def _give_back(self, member: str, resource: Resource) -> None:
        left = [other for other in self._held.get(resource, ()) if other != member]
        if left:
            self._held[resource] = left
        else:
            self._held.pop(resource, None)
