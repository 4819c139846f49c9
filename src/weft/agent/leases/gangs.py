"""The turns of gangs: one lease for all workers of a job, decided once in a cycle.

Workers of one job meet in a collective in the middle of each step. If each of them waited for a
lease of its own, the first worker of one gang and the second of another could each have what the
other needs, and both would wait in a collective for one who waits for a lease. So whoever asks is
asked for by its gang: when all of its workers that are here stand before the same step, the table
is asked once for the GPUs of all, and all are told the same answer at the same time. From there to
the end of the step nobody of the gang waits for a lease.

Pure: whoever calls brings the time, and carries what is told.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from weft.agent.leases.table import Ask, Lease, LeaseTable, Resource
from weft.agent.messages import Granted, Names, Turn, Wanted
from weft.model.errors import ProtocolError


@dataclass(frozen=True, slots=True, order=True)
class Worker:
    """One that asks: a part of a process, of a gang."""

    gang: str
    part: str
    number: int

    @property
    def member(self) -> str:
        """Who it is to the table: its gang."""
        return f"{self.gang}/{self.part}"


Told = tuple[Worker, Granted | Wanted]

MOST_TERM_SECONDS = 10.0
"""Whatever a member says of its stages, others wait no longer for one of them."""


@dataclass(slots=True)
class Cycle:
    """One step of a gang, from its first worker that asks to its last that gives back."""

    turn: Turn
    at: float
    came: set[Worker] = field(default_factory=set)
    waiting: set[Worker] = field(default_factory=set)
    granted: Granted | None = None
    working: dict[str, set[Worker]] = field(default_factory=dict)  # by kind
    is_asked: bool = False  # whether the table knows of it

    @property
    def deadline(self) -> float:
        return self.at + self.turn.bound_seconds

    @property
    def resources(self) -> frozenset[Resource]:
        return self.resources_of(self.turn.kinds)

    def resources_of(self, kinds: Iterable[str]) -> frozenset[Resource]:
        return frozenset(Resource(str(gpu), kind) for gpu in self.turn.gpus for kind in kinds)


@dataclass(slots=True)
class Gangs:
    """All gangs of a machine over one table."""

    table: LeaseTable = field(default_factory=LeaseTable)
    _here: dict[str, set[Worker]] = field(default_factory=dict)
    _cycles: dict[str, Cycle] = field(default_factory=dict)

    @property
    def next_deadline(self) -> float | None:
        gathering = [c.deadline for c in self._cycles.values() if c.waiting and not c.is_asked]
        known = self.table.next_deadline
        return min((*gathering, *(() if known is None else (known,))), default=None)

    def came(self, worker: Worker) -> None:
        self._here.setdefault(worker.member, set()).add(worker)

    def asked(self, worker: Worker, turn: Turn, now: float) -> list[Told]:
        """A worker stands before a stage; who may begin one now, perhaps among others itself.

        Steps are not counted here: all members of an epoch come to each, so whoever asks a second
        time is before the next one. One that comes late to a step goes on at once, because the
        others may wait for it in a collective.
        """
        _check(turn)
        cycle = self._cycles.get(worker.member)
        told: list[Told] = []
        if cycle is None or turn.epoch != cycle.turn.epoch or worker in cycle.came:
            if cycle is not None and turn.epoch < cycle.turn.epoch:
                return [(worker, Granted(now))]  # the others are past it
            told = self._end(worker.member, now)
            cycle = self._cycles[worker.member] = Cycle(turn, now)
        cycle.came.add(worker)
        if cycle.granted is not None:
            return [*told, (worker, cycle.granted)]
        cycle.waiting.add(worker)
        return [*told, *self._ask_if_complete(worker.member, now)]

    def given_back(self, worker: Worker, kinds: Names, now: float) -> list[Told]:
        """What all of a gang have given back is free."""
        cycle = self._cycles.get(worker.member)
        if cycle is None:
            return []
        free = []
        for kind in kinds:
            working = cycle.working.get(kind, set())
            if worker in working:
                working.discard(worker)
                free += [] if working else [kind]
        return self._freed(worker.member, cycle, free, now)

    def left(self, worker: Worker, now: float) -> list[Told]:
        """It has ended, or has no company any more: nobody waits for it."""
        member = worker.member
        here = self._here.get(member, set())
        here.discard(worker)
        if not here:
            self._here.pop(member, None)
            self._cycles.pop(member, None)
            return self._told(self.table.gone(member, now), now)
        cycle = self._cycles.get(member)
        if cycle is None:
            return []
        told = self.given_back(worker, tuple(cycle.working), now)
        cycle.waiting.discard(worker)
        return [*told, *self._ask_if_complete(member, now)]

    def passed(self, now: float) -> list[Told]:
        """Time has: who has waited long enough runs."""
        told = self._told(self.table.overdue(now), now)
        for cycle in self._cycles.values():
            if cycle.waiting and not cycle.is_asked and cycle.deadline <= now:
                told += _let_go(cycle, Granted(now))
        return told

    def _ask_if_complete(self, member: str, now: float) -> list[Told]:
        cycle = self._cycles[member]
        if not cycle.waiting or cycle.is_asked:
            return []
        wanted = {one for one in self._here.get(member, ()) if one.number in cycle.turn.members}
        if not wanted <= cycle.waiting:
            return []
        cycle.is_asked = True
        bound = max(cycle.deadline - now, 0.0)
        term = min(cycle.turn.term_seconds, MOST_TERM_SECONDS)
        ask = Ask(member, cycle.resources, now, bound, term)
        return self._told(self.table.ask(ask), now)

    def _freed(self, member: str, cycle: Cycle, kinds: list[str], now: float) -> list[Told]:
        if not kinds:
            return []
        return self._told(self.table.done(member, cycle.resources_of(kinds), now), now)

    def _end(self, member: str, now: float) -> list[Told]:
        """Another cycle begins: whoever waits in this one is let go, and what it has is free."""
        cycle = self._cycles.pop(member, None)
        if cycle is None:
            return []
        told = _let_go(cycle, Granted(now))
        if cycle.is_asked and member in self.table.waiting:
            return [*told, *self._told(self.table.withdraw(member, now), now)]
        held = cycle.resources_of(kind for kind, working in cycle.working.items() if working)
        return [*told, *self._told(self.table.lapsed(member, held, now), now)]

    def _told(self, leases: list[Lease], now: float) -> list[Told]:
        """To those who have got a lease that they have, and to those who had one that it is wanted.

        Nobody is told that before it knows that it has it.
        """
        told: list[Told] = []
        for lease in leases:
            cycle = self._cycles[lease.member]
            cycle.working = {kind: set(cycle.waiting) for kind in cycle.turn.kinds}
            breaches = self.table.breaches.get(lease.member, 0)
            told += _let_go(cycle, Granted(now, lease.breach, breaches))
        return [*told, *self._wanted()]

    def _wanted(self) -> list[Told]:
        """Only one alone is told: a gang gives back in each step, whoever wants it."""
        wanted = dict.fromkeys(self.table.take_wanted())
        alone = [member for member in wanted if len(self._cycles[member].turn.members) == 1]
        return [(worker, Wanted()) for member in alone for worker in sorted(self._here[member])]


def _let_go(cycle: Cycle, granted: Granted) -> list[Told]:
    """All who wait are told the same."""
    waiting, cycle.waiting, cycle.granted = sorted(cycle.waiting), set(), granted
    return [(worker, granted) for worker in waiting]


def _check(turn: Turn) -> None:
    """Before anything is changed by it."""
    if turn.bound_seconds < 0 or turn.term_seconds < 0:
        raise ProtocolError("a turn with a bound or a term below 0")


def gang_of(user: int, job: str, incarnation: int) -> str:
    """Nobody can speak for a gang of another user."""
    return f"{user}/{job}/{incarnation}"
