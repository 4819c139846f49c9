"""Who leads next, and what a new head finds: decided purely, from what followers and workers say.

A head names a few seats that may follow it. Whichever of them the operator lets lead knows nothing
of the epochs: it waits for the followers, which bring their workers, and for the workers, which say
how they stand. If all members of one epoch are there and nothing is under way, they train on as if
nothing had happened. Else they are halted and asked how far they are, as after any loss.

Each head has a term, one more than the head before it. Who hears of a higher one leaves the lower.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import Brought, Here, Members, Message

MOST_HEIRS: Final = 3  # the loss of any other seat is no reason to ask the operator


def heirs_of(members: Mapping[int, int], closed: Collection[int]) -> Members:
    """Of the seats with so many members each: not those that are about to go, if others are there.

    Without a member here the others could train on while this seat leads: each step needs all
    members, so whoever takes one along ends the epoch of the head before it.
    """
    able = (seat for seat, count in members.items() if count)
    return tuple(sorted(able, key=lambda seat: (seat in closed, seat))[:MOST_HEIRS])


@dataclass(frozen=True, slots=True)
class Inherited:
    """The workers of an earlier head, and the epoch that they are in.

    It is `intact` if they can stay in it. Who trained and is `silent` now is not waited for. Where
    workers were lost with the head, nobody knows what they still had to do behind the loop: that is
    `owed`.
    """

    workers: tuple[Worker, ...]
    epoch: int
    latest: int
    members: Members
    silent: Members
    intact: bool
    owed: bool
    next_worker: int


@dataclass(slots=True)
class Succession:
    """A new head that waits for those who were there."""

    term: int
    expected: frozenset[int]
    deadline: float
    members: Members
    owed: bool
    next_worker: int
    turning: bool = False  # whether the head before was on its way to another plan
    came: set[int] = field(default_factory=set)
    brought: dict[int, tuple[int, Brought]] = field(default_factory=dict)
    here: dict[int, Here] = field(default_factory=dict)
    ended: dict[int, int] = field(default_factory=dict)
    said: list[tuple[int, Message]] = field(default_factory=list)

    def complete(self, now: float) -> bool:
        """Whether all have come, or have been waited for long enough."""
        return now >= self.deadline or (self.expected <= self.came and not self._silent)

    @property
    def _silent(self) -> Members:
        """Who trained, by the last head's word or a member's, and has not said how it stands."""
        known = self.here.keys() | self.ended.keys()
        trained = {*self.members, *(n for one in self.here.values() for n in one.members)}
        return tuple(n for n in sorted(trained) if n in self.brought and n not in known)

    def left(self, seat: int) -> None:
        """It is gone again, with all that it brought."""
        self.expected -= {seat}
        self.came.discard(seat)
        for worker in [w for w, (at, _) in self.brought.items() if at == seat]:
            del self.brought[worker]
            self.here.pop(worker, None)
            self.ended.pop(worker, None)

    @property
    def _strangers(self) -> frozenset[int]:
        """Whoever was begun for another plan than the members', or stands aside for it."""
        return frozenset(self.brought.keys() - {*self.members}) if self.turning else frozenset()

    def inherited(self, now: float) -> Inherited:
        """What there is; who is on no seat that has come is nobody's."""
        known = self.here.keys() - self._strangers
        here = {n: self.here[n] for n in sorted(self.brought) if n in known}
        inside = {number: one for number, one in here.items() if one.members}
        epochs = {(one.epoch, one.members) for one in inside.values()}
        latest = max((one.latest for one in here.values()), default=0)
        members, epoch, intact = tuple(inside), latest, False
        if len(epochs) == 1:
            ((epoch, met),) = epochs
            intact = set(met) == set(inside) and all(one.settled for one in inside.values())
            members = met if intact else members
        return Inherited(
            tuple(self._worker(number, now) for number in sorted(self.brought)),
            epoch if intact else latest,
            latest,
            members,
            tuple(sorted({*self._silent, *self._strangers})),
            intact,
            self.owed,
            self.next_worker,
        )

    def _worker(self, number: int, now: float) -> Worker:
        rank, here = self.brought[number][1].rank, self.here.get(number)
        worker = Worker(number, rank=rank, heard_seconds=now)
        if here is None:
            return worker
        ready = WorkerState.READY if here.ready else WorkerState.WARMING
        worker.state = WorkerState.ACTIVE if here.members else ready
        worker.step = max(here.committed, worker.step)
        worker.proven = bool(here.members) and here.settled
        return worker
