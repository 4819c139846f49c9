"""How one epoch follows another: built beside the present one, armed, begun; or halted and mended.

What is decided here is when an epoch is complete and what a failure means for it. Who is to be a
member, and when there is a reason to change that, is the coordinator's.
"""

from dataclasses import dataclass, field
from enum import StrEnum

from weft.agent.coordination.doubt import Doubt, Verdict
from weft.agent.coordination.limits import Limits
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import (
    Abandon,
    Arm,
    Broken,
    Halt,
    Members,
    Prepare,
    Regroup,
    Yield,
)


class Phase(StrEnum):
    """What the coordinator is waiting for."""

    GATHERING = "gathering"
    STEADY = "steady"
    BUILDING = "building"
    YIELDING = "yielding"
    ARMED = "armed"
    HALTED = "halted"
    REGROUPING = "regrouping"
    ENDED = "ended"


@dataclass(slots=True)
class Change:
    """An epoch that is being brought about."""

    epoch: int
    members: Members
    joiners: Members
    since_seconds: float
    built: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)


class Epochs:
    """The present epoch of a job, and the one that is to follow."""

    def __init__(self, roster: Roster, limits: Limits) -> None:
        self.phase = Phase.GATHERING
        self.number = 0
        self.latest = 0
        self.members: Members = ()
        self.change: Change | None = None
        self.doubt: Doubt | None = None
        self.halted_why = ""
        self.given_up_seconds = float("-inf")  # when somebody was who had not answered
        self.switches = 0
        self.failed_switches = 0  # in a row, since the last order
        self.fruitless_halts = 0  # in a row, without an epoch that came to its first step
        self._roster, self._limits = roster, limits

    @property
    def participants(self) -> Members:
        """Everyone whom a failure of the present epoch, or of the coming one, concerns."""
        joiners = self.change.joiners if self.change and self.phase is Phase.ARMED else ()
        return tuple(dict.fromkeys((*self.members, *joiners)))

    # ----------------------------------------------------------------------------- a switch

    def prepare(self, members: Members, joiners: Members, now: float) -> None:
        """Let the groups of the next epoch be built beside those in use."""
        change = self._changed(members, joiners, now)
        self.phase = Phase.BUILDING
        self._roster.tell((*self.members, *joiners), Prepare(change.epoch, members, joiners))

    def being_built(self, epoch: int) -> Change | None:
        """That epoch, if it is what everybody builds at present."""
        change = self.change if self.phase is Phase.BUILDING else None
        return change if change is not None and change.epoch == epoch else None

    def built(self, number: int, epoch: int, now: float) -> None:
        """One has built it; when all have, there is no way back."""
        change = self.being_built(epoch)
        if change is None:
            return
        change.built.add(number)
        if change.built < set(self.members) | set(change.members):
            return
        self.phase = Phase.ARMED
        change.since_seconds = now
        for joiner in change.joiners:
            self._roster[joiner].become(WorkerState.JOINING)
        self._roster.tell((*self.members, *change.members), Arm(epoch))

    def abandon(self) -> None:
        """Nobody has been armed, so nobody will switch: it never was."""
        assert self.change is not None
        self._roster.tell((*self.members, *self.change.joiners), Abandon(self.change.epoch))
        self.change = None
        self.phase = Phase.STEADY

    def committed(self, worker: Worker, epoch: int, now: float) -> bool:
        """One has made the first step of it; whether all have now, so that it is the present."""
        change = self.change
        if change is None or epoch != change.epoch:
            return False
        if self.phase not in (Phase.ARMED, Phase.REGROUPING):
            return False
        change.committed.add(worker.number)
        worker.become(WorkerState.ACTIVE)
        if not change.committed >= set(change.members):
            return False
        self._reached(change, now)
        return True

    def _reached(self, change: Change, now: float) -> None:
        if self.phase is Phase.ARMED:
            self.switches += 1
            self.failed_switches = 0
        self.fruitless_halts = 0
        for number in set(self.members) - set(change.members):
            if self._roster.answering(number):  # it has gone or is going, but has not said so yet
                self._roster[number].become(WorkerState.LEAVING)
                self._roster[number].heard_seconds = now
        self.number, self.members = change.epoch, change.members
        self.change = None
        self.phase = Phase.STEADY

    # ------------------------------------------------------------------------------ a yield

    def yield_(self, now: float) -> None:
        """Let all members stop after the same step, with what they hold saved."""
        self.phase = Phase.YIELDING
        self.doubt = Doubt(self.members, now)
        self._roster.tell(self.members, Yield(self.number))

    def yielded(self) -> int | None:
        """The step after which all members stand still; None as long as one does not."""
        doubt = self.doubt
        if doubt is None or not set(self.members) <= set(doubt.answers):
            return None
        steps = {doubt.answers[number].committed for number in self.members}
        return steps.pop() if len(steps) == 1 else None

    # ---------------------------------------------------------------------- without a switch

    def inherit(self, epoch: int, latest: int, members: Members) -> None:
        """What was begun under another head."""
        self.number, self.latest, self.members = epoch, latest, members
        self.phase = Phase.STEADY

    def begin(
        self, members: Members, donors: Members, committed: int, source: str, now: float
    ) -> None:
        """An epoch whose members meet before its first step."""
        change = self._changed(members, (), now)
        self.members = members
        self.phase = Phase.REGROUPING
        for number in members:
            self._roster[number].become(WorkerState.ACTIVE)
        self._roster.tell(members, Regroup(change.epoch, members, donors, committed, source))

    def halt(self, now: float, why: str) -> None:
        """Somebody is missing: ask the others how far they are.

        Who is halted already has been asked, and answers once.
        """
        if self.phase is Phase.HALTED:
            return
        if self.phase is Phase.BUILDING:
            self.abandon()
        self.failed_switches += self.phase is Phase.ARMED
        self.fruitless_halts += 1
        epoch = self.change.epoch if self.change else self.number
        self._roster.note("halted", epoch=epoch, why=why)
        asked = (n for n in self.participants if self._roster.answering(n))
        self._roster.tell(asked, Halt(epoch))
        said = self.doubt.answers if self.doubt and self.phase is Phase.YIELDING else {}
        self.doubt = Doubt(self.participants, now, dict(said))
        self.phase, self.halted_why = Phase.HALTED, why

    def broken(self, worker: Worker, message: Broken, now: float) -> None:
        """One says how far it is, asked or because it has found that the epoch is broken."""
        expected = self.phase is Phase.YIELDING and message.yielded
        if self.phase is not Phase.HALTED and not expected:
            if worker.number not in self.participants:
                return
            self.halt(now, f"worker {worker.number}: {message.why}")
        assert self.doubt is not None
        self.doubt.answers[worker.number] = message

    def judged(self, departed: Members, now: float) -> Verdict | None:
        """What all together know, once all who live have answered.

        The first time it follows at once. If epoch after epoch comes to nothing, whatever it is
        that breaks them is given longer and longer to go away.
        """
        doubt = self.doubt
        assert doubt is not None
        if doubt.unanswered(self._roster):
            return None
        if now - doubt.since_seconds < self._limits.breath(self.fruitless_halts - 1):
            return None
        self.change = self.doubt = None
        return doubt.verdict(self._roster, departed)

    def moving(self, number: int, now: float) -> None:
        """One has made a step, or has moved some of the state: the switch does not stand still."""
        if self.change and self.phase is Phase.ARMED and number in self.participants:
            self.change.since_seconds = now

    def disband(self, phase: Phase) -> None:
        """Nobody is a member any more."""
        self.members = ()
        self.change = self.doubt = None
        self.phase = phase

    # ---------------------------------------------------------------------------------- time

    def late(self, now: float) -> None:
        """What takes too long is given up."""
        for worker in self.doubt.silent(self._roster, self._limits, now) if self.doubt else ():
            self._roster.kill(worker)
            self.given_up_seconds = now
        waited = now - self.change.since_seconds if self.change else 0.0
        if self.phase is Phase.BUILDING and waited > self._limits.build_seconds:
            self.abandon()
        elif self.phase is Phase.ARMED and waited > self._limits.whole_switch_seconds:
            self.halt(now, f"the switch stood still for {waited:.0f} s")

    def _changed(self, members: Members, joiners: Members, now: float) -> Change:
        self.latest += 1
        self.change = Change(self.latest, members, joiners, now)
        return self.change
