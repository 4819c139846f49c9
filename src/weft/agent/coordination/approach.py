"""From the members that are to the width that is wanted: who is started, and when to switch.

Newcomers start and warm up beside those who train. Each attempt that fails costs the members time,
so the next one waits longer; after some of them, or if newcomers die one after the other, the job
stays as wide as it is, and whoever wanted another width gets to know.
"""

from dataclasses import dataclass
from typing import Protocol

from weft.agent.coordination.epochs import Epochs
from weft.agent.coordination.limits import Limits
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import Members


@dataclass(frozen=True, slots=True)
class Unreached:
    """A width that was ordered and is no longer approached, and why."""

    width: int
    why: str
    plan: str = ""  # that was ordered with it, if another one was


class Wanted(Protocol):
    """What the coordinator knows: how wide the job is to be, without whom, begun from what."""

    width: int
    unwanted: frozenset[int]
    near: frozenset[int] | None
    source: str
    holding: bool
    elastic: bool
    finished: bool

    @property
    def unit(self) -> int: ...

    @property
    def members(self) -> Members: ...


class Approach:
    """Of one coordinator."""

    def __init__(self, mind: Wanted, roster: Roster, epochs: Epochs, limits: Limits) -> None:
        self._mind, self._roster, self._epochs, self._limits = mind, roster, epochs, limits
        self.unreached: Unreached | None = None  # what was ordered last, if it cannot be had
        self.stillborn = 0  # newcomers in a row that were lost before they were members
        self.wanted_since = 0.0
        self._rest_until = 0.0

    def gathered(self, now: float) -> Members:
        """Who begins where nobody trains yet, once all have come or were waited for."""
        mind = self._mind
        self._staff(mind.width, now)
        ready = self._roster.standing(WorkerState.READY)
        if not ready or (len(ready) < mind.width and not self._waited_long_enough(now)):
            return ()
        members = self._roster.whole_units(self._near_first(ready))
        if not members or mind.holding:
            return ()
        self.stillborn = 0
        return members

    def move(self, now: float) -> None:
        """One move, if there is one to be made now."""
        mind, roster = self._mind, self._roster
        staying = roster.whole_units(tuple(n for n in mind.members if n not in mind.unwanted))
        if len(staying) < len(mind.members) and staying:
            return self._prepare(staying[: mind.width], (), now)  # who must go does not wait
        missing = mind.width - len(staying)
        if missing <= 0:
            roster.dismiss(w for w in roster.alive() if w.number not in mind.members)
            return self._prepare(staying[: mind.width], (), now) if missing < 0 else None
        self._staff(missing, now)
        ready = roster.standing(WorkerState.READY)
        if len(ready) >= missing or (ready and self._waited_long_enough(now)):
            joiners = roster.whole_units(ready[:missing])
            if joiners:
                self._prepare((*mind.members, *joiners), joiners, now)
        return None

    def newly_ready(self, wanted: int, now: float) -> Members:
        """Those of so many newcomers that stand ready; who is missing is on the way."""
        self._staff(wanted, now)
        return self._roster.whole_units(self._roster.standing(WorkerState.READY))

    def may_disturb(self, now: float) -> bool:
        """Whether the members may be asked to change something now.

        Not while the script is behind a loop: there may be no other step to do it at.
        """
        between = any(self._roster[number].between for number in self._mind.members)
        return now >= self._rest_until and not between

    def not_built(self, epoch: int, why: str, now: float) -> None:
        """What cannot be built now is tried again, but not at once and not with anyone for ever."""
        change = self._epochs.being_built(epoch)
        if change is None:
            return
        self._epochs.abandon()
        self._epochs.failed_switches += 1
        self._epochs.halted_why = why
        self._roster.note("not built", epoch=epoch, why=why)
        self.rest(now)
        for number in change.joiners:
            if not self.may_try_again(self._roster[number]):
                self._roster.kill(self._roster[number])

    def rest(self, now: float) -> None:
        """The next attempt is not before then."""
        self._rest_until = now + self._limits.rest(self._epochs.failed_switches)

    def stay(self, why: str) -> None:
        """The job stays as wide as it is."""
        mind = self._mind
        self.unreached = Unreached(mind.width, why)
        self._roster.note("unreached", wanted=mind.width, width=len(mind.members), why=why)
        mind.width, self.stillborn = len(mind.members), 0
        self._epochs.failed_switches = 0

    def may_try_again(self, worker: Worker) -> bool:
        """Each failed attempt costs the others a step: one that never succeeds is not let in."""
        worker.failed_joins += 1
        if worker.failed_joins < self._limits.most_failed_joins:
            return True
        self.stillborn += 1
        return False

    def _near_first(self, ready: Members) -> Members:
        """The first loads what was saved, so it has to be one that can read it."""
        mind, near = self._mind, self._mind.near
        if near is None or not mind.source or mind.unit > 1:
            return ready
        first = tuple(sorted(ready, key=lambda number: number not in near))
        return first if first[0] in near else ()

    def _staff(self, wanted: int, now: float) -> None:
        """As many newcomers as are wanted: more are started, the newest surplus is let go."""
        mind, newcomers = self._mind, self._newcomers()
        self._roster.dismiss(newcomers[max(wanted, 0) :])
        if not mind.elastic and (newcomers or mind.finished):
            return
        for _ in range(len(newcomers), self._roster.rounded_up(wanted)):
            self._roster.enlist(mind.width, now)
            self.wanted_since = now

    def _newcomers(self) -> list[Worker]:
        """Those on their way, in whole replicas; the rest of a replica is of no use."""
        mind, coming = self._mind, self._roster.coming(self._mind.members)
        wanted = tuple(w.number for w in coming if w.number not in mind.unwanted)
        useful = set(self._roster.whole_units(wanted) if mind.elastic else wanted)
        self._roster.dismiss(w for w in coming if w.number not in useful)
        return [w for w in coming if w.number in useful]

    def _prepare(self, members: Members, joiners: Members, now: float) -> None:
        failed = self._epochs.failed_switches
        if failed >= self._limits.most_failed_switches and joiners:
            return self.stay(f"{failed} attempts failed: {self._epochs.halted_why}")
        if self.may_disturb(now):
            self._epochs.prepare(members, joiners, now)
        return None

    def _waited_long_enough(self, now: float) -> bool:
        return now - self.wanted_since > self._limits.warm_seconds
