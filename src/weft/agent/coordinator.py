"""The epochs of one job, decided purely: events in, actions out; no clock, no socket, no process.

An epoch is a set of members that train together. To change it without stopping, newcomers start and
warm up beside the running ones; when they are ready the next epoch's group is *built* beside the
present one; when all have built it, it is *armed*; the armed flag travels with the gradients, so
all members see it at the same step and the next step begins the new epoch. Up to the arming a newer
target cancels all this; after it the switch is a matter of one step, and the newest target follows.

When a member is lost, the others are halted and asked how far they are. A step is committed if any
survivor has applied it: whoever still holds its summed gradient applies it now, and the survivors
go on in a smaller epoch with the same samples. Nobody applies a step twice, none is left out. With
no survivor the workers start afresh from the newest snapshot.

    GATHERING ─▶ STEADY ◀──────────────┐
                  │  ▲                 │ first step of the new epoch committed by all
                  ▼  │ newer target    │
                BUILDING ─▶ ARMED ─────┤
                  │           │        │
                  └────┬──────┘        │
                       ▼               │
                     HALTED ─▶ REGROUPING
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from signal import SIGKILL, SIGTERM
from typing import Final

from weft.agent.actions import Action, Conclude, Send, Signal, Spawn
from weft.agent.limits import Limits
from weft.agent.messages import (
    FRESH,
    STATELESS,
    Abandon,
    Arm,
    Broken,
    Built,
    Committed,
    Drain,
    Farewell,
    Halt,
    Hello,
    Leaving,
    Members,
    Message,
    NotBuilt,
    Prepare,
    Pulse,
    Ready,
    Regroup,
    Save,
    Standby,
)
from weft.agent.outcome import DRAINED, INFRASTRUCTURE, Outcome
from weft.agent.worker import Worker, WorkerState

NEVER: Final = float("inf")


class Phase(StrEnum):
    """What the coordinator is waiting for."""

    GATHERING = "gathering"
    STEADY = "steady"
    BUILDING = "building"
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
    donors: Members
    since_seconds: float
    built: set[int] = field(default_factory=set)
    committed: set[int] = field(default_factory=set)


class Coordinator:
    """One job's epochs."""

    def __init__(self, width: int, *, unit: int = 1, limits: Limits | None = None) -> None:
        self.width = width
        self.unit = unit
        self.limits = limits or Limits()
        self.phase = Phase.GATHERING
        self.epoch = 0
        self.latest_epoch = 0
        self.members: Members = ()
        self.unwanted: frozenset[int] = frozenset()  # who is to leave, whatever the width
        self.near: frozenset[int] | None = None  # who can read `source`, if not everybody can
        self.holding = False  # a snapshot is on its way to where everybody can read it
        self.workers: dict[int, Worker] = {}
        self.change: Change | None = None
        self.source = ""
        self.saved_step = FRESH
        self.draining = False
        self.drain_deadline = NEVER
        self.elastic = False  # whether any worker has ever spoken: a plain script never does
        self.restarts = 0
        self.resizes = 0
        self.stillborn = 0
        self._answers: dict[int, Broken] = {}
        self._halted_since = 0.0
        self._halted_participants: Members = ()
        self._departed: dict[int, int] = {}
        self._done: set[int] = set()
        self._finished = False
        self._wanted_since = 0.0
        self._rest_until = 0.0
        self._retired_since = NEVER
        self.crew_width = width
        self._now = 0.0
        self._out: list[Action] = []

    # ------------------------------------------------------------------------------- events

    def start(self, now: float, *, source: str = "", saved_step: int = FRESH) -> list[Action]:
        """The first workers, and the checkpoint that the first of them will load."""
        self._now = now
        self.source, self.saved_step = source, saved_step
        return self._settled()

    def resize(self, width: int, now: float, without: frozenset[int] = frozenset()) -> list[Action]:
        """A new target; it replaces one that is not armed yet.

        Who is in `without` leaves, with its whole replica. If nobody would stay, they leave when
        others have taken over their state.
        """
        self._now = now
        if (width, without) != (self.width, self.unwanted):
            self.width, self.unwanted = width, without
            self._wanted_since = now
            if self.phase is Phase.BUILDING:
                self._abandon()
        return self._settled()

    def drain(self, grace_seconds: float, now: float) -> list[Action]:
        """All leave together at the next boundary; at four fifths of the grace they are killed."""
        self._now = now
        if self.draining:
            self.drain_deadline = now
            return self._settled()
        self.draining = True
        self.drain_deadline = now + 0.8 * grace_seconds
        for worker in self._alive():
            if self.elastic:
                self._send(worker.number, Drain(grace_seconds))
            else:
                self._out.append(Signal(worker.number, SIGTERM))
        return self._settled()

    def save(self, now: float) -> list[Action]:
        """A snapshot at the next boundary."""
        self._now = now
        for number in self.members:
            self._send(number, Save())
        return self._settled()

    def heard(self, number: int, message: Message, now: float) -> list[Action]:
        """What a worker said."""
        self._now = now
        worker = self.workers.get(number)
        if worker is None or worker.state in (WorkerState.LOST, WorkerState.EXITED):
            return []
        worker.heard_seconds = now
        match message:
            case Hello():
                self.elastic = True
                worker.become(WorkerState.WARMING)
            case Ready():
                worker.become(WorkerState.READY)
            case Built(epoch):
                self._built(number, epoch)
            case NotBuilt(epoch):
                self._not_built(epoch)
            case Committed(epoch, step):
                self._committed(worker, epoch, step)
            case Broken():
                self._broken(worker, message)
            case Leaving(_, step, why):
                self._leaving(worker, step, why)
            case Pulse():
                self._pulse(worker, message)
        return self._settled()

    def exited(self, number: int, code: int, now: float) -> list[Action]:
        """A process has ended; a negative code is a signal."""
        self._now = now
        worker = self.workers[number]
        was = worker.state
        worker.become(WorkerState.EXITED)
        worker.exit_code = code
        why = f"worker {number} ended with {code}"
        if self.phase is not Phase.ENDED and self._failed_after_the_end(number, code):
            self._conclude(Outcome.USER_ERROR, code, why)
        if was is WorkerState.LEAVING or self.phase is Phase.ENDED:
            return self._settled()
        if not self.elastic and not self.draining:
            return self._plain_ended(number, code, why)
        outcome = Outcome.of(code)
        if was.starting and self.elastic:
            self.stillborn += 1
        elif outcome is Outcome.USER_ERROR and not (
            was is WorkerState.LOST or self._lost_its_mates(number)
        ):
            self._conclude(outcome, code, why)
            return self._settled()
        if self.stillborn > self.limits.most_stillborn:
            return self._stop_growing(outcome, code, why)
        self._lost(number, why)
        return self._settled()

    def _lost_its_mates(self, number: int) -> bool:
        """Whoever holds a model together with one that died fails too, in the user's own code."""
        gone = (WorkerState.LOST, WorkerState.EXITED)
        mates = (w for w in self.workers.values() if w.number // self.unit == number // self.unit)
        return any(w.state in gone and w.number not in self._departed | {number: 0} for w in mates)

    def _failed_after_the_end(self, number: int, code: int) -> bool:
        """What a script does behind its loop may fail as well."""
        return number in self._done and Outcome.of(code) is Outcome.USER_ERROR

    def _plain_ended(self, number: int, code: int, why: str) -> list[Action]:
        """A script that knows nothing of Weft: all of its crew end well, or it has failed."""
        outcome = Outcome.of(code)
        if outcome is not Outcome.FINISHED:
            exit_code = code if outcome is Outcome.USER_ERROR else INFRASTRUCTURE
            self._conclude(outcome, exit_code, why)
            return self._settled()
        self._departed[number] = FRESH
        self._finished = True
        return self._settled()

    def _stop_growing(self, outcome: Outcome, code: int, why: str) -> list[Action]:
        """Newcomers die one after the other: the job stays as wide as it is."""
        if self.members:
            self.width, self.stillborn = len(self.members), 0
        else:
            self._conclude(outcome, code, why)
        return self._settled()

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        self._now = now
        if self.phase is Phase.ENDED:
            return []
        self._late()
        return self._settled()

    def can_spare(self, workers: frozenset[int]) -> bool:
        """Whether the training would go on without them, by others that have the state."""
        if not self.elastic:
            return not workers
        staying = self._whole_units(tuple(n for n in self.members if n not in workers))
        return bool(staying) or not self.members

    @property
    def finished(self) -> bool:
        """Whether somebody has come to the last step."""
        return self._finished

    @property
    def participants(self) -> Members:
        """Everyone whom a failure of the present epoch, or of the coming one, concerns."""
        joiners = self.change.joiners if self.change and self.phase is Phase.ARMED else ()
        return tuple(dict.fromkeys((*self.members, *joiners)))

    # ------------------------------------------------------------------------ what follows

    def _settled(self) -> list[Action]:
        """Level-triggered: whatever can be done now is done, and told."""
        if self.phase is not Phase.ENDED:
            self._advance()
        actions, self._out = self._out, []
        return actions

    def _advance(self) -> None:
        if self._all_gone():
            return
        if self.phase is Phase.HALTED:
            self._resolve()
        if self.phase is Phase.GATHERING:
            self._gather()
        elif self.phase is Phase.STEADY and not self.draining and not self._finished:
            self._approach()

    def _gather(self) -> None:
        if self.draining:
            return self._dismiss(self._alive()) if self.elastic else None
        if not self.elastic and self._retiring():
            return None
        self._staff(self.width)
        ready = self._in(WorkerState.READY)
        if not ready or (len(ready) < self.width and not self._waited_long_enough()):
            return None
        members = self._whole_units(self._near_first(ready))
        if not members or self.holding:
            return None
        self.stillborn = 0
        donors = members[: self.unit]
        self._begin(members, donors, committed=self.saved_step, source=self.source)
        return None

    def _near_first(self, ready: Members) -> Members:
        """The first loads what was saved, so it has to be one that can read it."""
        near = self.near
        if near is None or not self.source or self.unit > 1:
            return ready
        first = tuple(sorted(ready, key=lambda number: number not in near))
        return first if first[0] in near else ()

    def _retiring(self) -> bool:
        """A crew that has not spoken yet is tied to the width it was started with: begin anew."""
        crew = self._alive()
        misplaced = any(worker.number in self.unwanted for worker in crew)
        if (self.crew_width == self.width and not misplaced) or not crew:
            self.crew_width = self.width
            return False
        for worker in crew:
            if worker.state is not WorkerState.LEAVING:
                worker.become(WorkerState.LEAVING)
                self._retired_since = self._now
                self._out.append(Signal(worker.number, SIGTERM))
        return True

    def _approach(self) -> None:
        """One move from the members that are to the width that is wanted."""
        staying = self._staying()
        if len(staying) < len(self.members) and staying:
            return self._prepare(staying[: self.width], ())  # who must go does not wait
        missing = self.width - len(staying)
        if missing <= 0:
            self._dismiss(w for w in self._alive() if w.number not in self.members)
            return self._prepare(staying[: self.width], ()) if missing < 0 else None
        self._staff(missing)
        ready = self._in(WorkerState.READY)
        if len(ready) >= missing or (ready and self._waited_long_enough()):
            joiners = self._whole_units(ready[:missing])
            if joiners:
                self._prepare((*self.members, *joiners), joiners)
        return None

    def _staying(self) -> Members:
        """The members of replicas of which nobody is to leave."""
        return self._whole_units(tuple(n for n in self.members if n not in self.unwanted))

    def _staff(self, wanted: int) -> None:
        """As many newcomers as are wanted: more are started, the newest surplus is let go."""
        newcomers = self._newcomers()
        self._dismiss(newcomers[max(wanted, 0) :])
        if not self.elastic and (newcomers or self._finished):
            return
        for _ in range(len(newcomers), _rounded_up(wanted, self.unit)):
            number, rank = len(self.workers), self._free_rank()
            self.workers[number] = Worker(number, rank=rank, heard_seconds=self._now)
            self._out.append(Spawn(number, rank, self.width))
            self._wanted_since = self._now

    def _newcomers(self) -> list[Worker]:
        """Those on their way, in whole replicas; the rest of a replica is of no use."""
        coming = [
            w
            for w in self.workers.values()
            if w.number not in self.members and (w.state.starting or w.state is WorkerState.READY)
        ]
        wanted = tuple(w.number for w in coming if w.number not in self.unwanted)
        useful = set(self._whole_units(wanted) if self.elastic else wanted)
        self._dismiss(w for w in coming if w.number not in useful)
        return [w for w in coming if w.number in useful]

    def _free_rank(self) -> int:
        """The lowest that no living worker has: it may stand for a device."""
        taken = {worker.rank for worker in self._alive()}
        return next(rank for rank in count() if rank not in taken)

    def _prepare(self, members: Members, joiners: Members) -> None:
        if self._now < self._rest_until:
            return
        epoch = self._next_epoch()
        self.change = Change(epoch, members, joiners, self.members, self._now)
        self.phase = Phase.BUILDING
        for number in dict.fromkeys((*self.members, *joiners)):
            self._send(number, Prepare(epoch, members, joiners))

    def _built(self, number: int, epoch: int) -> None:
        change = self.change
        if change is None or self.phase is not Phase.BUILDING or epoch != change.epoch:
            return
        change.built.add(number)
        if change.built < set(self.members) | set(change.members):
            return
        self.phase = Phase.ARMED
        change.since_seconds = self._now
        for joiner in change.joiners:
            self.workers[joiner].become(WorkerState.JOINING)
        for member in dict.fromkeys((*self.members, *change.members)):
            self._send(member, Arm(epoch))

    def _not_built(self, epoch: int) -> None:
        """What cannot be built now is tried again, but not at once and not with anyone for ever."""
        if self.phase is not Phase.BUILDING or not self.change or self.change.epoch != epoch:
            return
        joiners = self.change.joiners
        self._abandon()
        self._rest_until = self._now + self.limits.rest_seconds
        for number in joiners:
            if not self._may_try_again(self.workers[number]):
                self._kill(self.workers[number])

    def _abandon(self) -> None:
        """Nobody has been armed, so nobody will switch: it never was."""
        assert self.change is not None
        for number in dict.fromkeys((*self.members, *self.change.joiners)):
            self._send(number, Abandon(self.change.epoch))
        self.change = None
        self.phase = Phase.STEADY

    def _committed(self, worker: Worker, epoch: int, step: int) -> None:
        worker.step = max(worker.step, step)
        worker.proven = True
        change = self.change
        if change is None or epoch != change.epoch:
            return
        if self.phase not in (Phase.ARMED, Phase.REGROUPING):
            return
        change.committed.add(worker.number)
        worker.become(WorkerState.ACTIVE)
        if change.committed >= set(change.members):
            self._reached(change)

    def _reached(self, change: Change) -> None:
        if self.phase is Phase.ARMED:
            self.resizes += 1
            self.stillborn = 0
        for number in set(self.members) - set(change.members):
            if self._answering(number):  # it has gone or is about to go, but has not said so yet
                self.workers[number].become(WorkerState.LEAVING)
                self.workers[number].heard_seconds = self._now
        self.epoch, self.members = change.epoch, change.members
        self.change = None
        self.phase = Phase.STEADY
        self._wanted_since = self._now

    # ------------------------------------------------------------------------------ failures

    def _lost(self, number: int, why: str) -> None:
        """A worker is gone: of no matter to the others unless they share an epoch with it."""
        if self.change and self.phase is Phase.BUILDING and number in self.change.joiners:
            self._abandon()
        if number in self.participants and self.phase is not Phase.HALTED:
            self._halt(why)

    def _halt(self, why: str) -> None:
        if self.phase is Phase.BUILDING:
            self._abandon()
        self._answers = {}
        self._halted_since = self._now
        epoch = self.change.epoch if self.change else self.epoch
        for number in self.participants:
            if self._answering(number):
                self._send(number, Halt(epoch))
        self._halted_participants = self.participants
        self.phase = Phase.HALTED

    def _broken(self, worker: Worker, message: Broken) -> None:
        if self.phase is not Phase.HALTED:
            if worker.number not in self.participants:
                return
            self._halt(message.why)
        self._answers[worker.number] = message

    def _answering(self, number: int) -> bool:
        worker = self.workers[number]
        return worker.state in (WorkerState.ACTIVE, WorkerState.JOINING)

    def _resolve(self) -> None:
        """When all who live have answered: the step that counts, and who goes on from it."""
        waiting = [n for n in self._halted_participants if self._answering(n)]
        if any(number not in self._answers for number in waiting):
            return
        answers = {number: self._answers[number] for number in waiting}
        top = max((STATELESS, *self._departed.values(), *(a.committed for a in answers.values())))
        holding = (n for n, a in answers.items() if top in (a.committed, a.pending))
        donors = self._whole_units(tuple(holding)) if top > STATELESS else ()
        self.change = None
        self._stand_by(n for n in waiting if n not in donors)
        if not donors:
            return self._restart()
        self._begin(donors, donors, committed=top, source="")
        return None

    def _stand_by(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            worker = self.workers[number]
            if worker.state is WorkerState.JOINING and self._may_try_again(worker):
                worker.become(WorkerState.READY)
                self._send(number, Standby(self.latest_epoch))
            else:
                self._kill(worker)

    def _may_try_again(self, worker: Worker) -> bool:
        """Each failed attempt costs the others a step: one that never succeeds is not let in."""
        worker.failed_joins += 1
        if worker.failed_joins < self.limits.most_failed_joins:
            return True
        self.stillborn += 1
        return False

    def _begin(self, members: Members, donors: Members, *, committed: int, source: str) -> None:
        epoch = self._next_epoch()
        self.change = Change(epoch, members, (), donors, self._now)
        self.members = members
        self.phase = Phase.REGROUPING
        for number in members:
            self.workers[number].become(WorkerState.ACTIVE)
            self._send(number, Regroup(epoch, members, donors, committed, source))

    def _restart(self) -> None:
        """No whole replica is left: everyone begins again from the newest snapshot."""
        for worker in self._alive():
            if worker.number in self.members and worker.state is not WorkerState.LEAVING:
                self._kill(worker)
        self.members = ()
        if self._finished:  # the one that knows the end has reached it
            self.phase = Phase.STEADY
            return
        self.restarts += 1
        if self.restarts > self.limits.most_restarts:
            self._conclude(Outcome.INFRASTRUCTURE, INFRASTRUCTURE, f"{self.restarts} restarts")
            return
        self.phase = Phase.GATHERING
        self._wanted_since = self._now

    # ---------------------------------------------------------------------------------- time

    def _late(self) -> None:
        self._hung()
        overdue = self._now - self._retired_since > self.limits.stop_seconds and not self.elastic
        if self._now >= self.drain_deadline or overdue:
            for worker in self._alive():
                self._kill(worker)
        for worker in self._alive():
            lingers = worker.state is WorkerState.LEAVING and worker.number not in self._done
            if lingers and self._now - worker.heard_seconds > self.limits.stop_seconds:
                self._kill(worker)
        change = self.change
        if change is None:
            return
        waited = self._now - change.since_seconds
        if self.phase is Phase.BUILDING and waited > self.limits.build_seconds:
            self._abandon()
        elif self.phase is Phase.ARMED and waited > self.limits.whole_switch_seconds:
            self._halt("the switch did not reach its first step in time")

    def _hung(self) -> None:
        """While halted, whoever neither answers nor gives a sign of life is lost."""
        if self.phase is not Phase.HALTED:
            return
        for number in self._halted_participants:
            worker = self.workers[number]
            if not self._answering(number) or number in self._answers:
                continue
            silent = self._now - max(worker.heard_seconds, self._halted_since)
            if silent >= self.limits.silent_seconds:
                self._kill(worker)

    def _pulse(self, worker: Worker, pulse: Pulse) -> None:
        worker.step = max(worker.step, pulse.step - 1)
        proven = worker.proven
        if not self.limits.too_long(pulse.section, pulse.section_seconds, proven=proven):
            return
        self._kill(worker)
        self._lost(worker.number, f"worker {worker.number} hangs in {pulse.section}")

    # ----------------------------------------------------------------------------------- end

    def _leaving(self, worker: Worker, step: int, why: Farewell) -> None:
        worker.become(WorkerState.LEAVING)
        worker.step = max(worker.step, step)
        self._departed[worker.number] = step
        if why is Farewell.FINISHED:
            self._done.add(worker.number)
            self._finished = True
        elif why is Farewell.DRAINED and not self.draining:
            self._drained_from_inside()

    def _drained_from_inside(self) -> None:
        """A worker was sent SIGTERM behind the agent's back; all leave at that boundary."""
        self.draining = True
        self.drain_deadline = self._now + self.limits.stop_seconds

    def _all_gone(self) -> bool:
        """Whether the job has ended: finished, or drained."""
        alive = self._alive()
        if not self._ending():
            return False
        if self.elastic:
            self._dismiss(w for w in alive if w.number not in self.participants)
        if alive:
            return False
        if self._finished:
            self._conclude(Outcome.FINISHED, 0, "all steps are done")
        elif self.draining:
            self._conclude(Outcome.DRAINED, DRAINED, "drained")
        return self.phase is Phase.ENDED

    def _ending(self) -> bool:
        if self._finished:
            return all(
                self.workers[n].state in (WorkerState.LEAVING, WorkerState.EXITED, WorkerState.LOST)
                for n in self.participants
            )
        return self.draining

    def _conclude(self, outcome: Outcome, code: int, why: str) -> None:
        for worker in self._alive():
            self._kill(worker)
        self.phase = Phase.ENDED
        self._out.append(Conclude(outcome, code, why))

    # ------------------------------------------------------------------------------- helpers

    def _alive(self) -> list[Worker]:
        return [w for w in self.workers.values() if w.state is not WorkerState.EXITED]

    def _in(self, state: WorkerState) -> Members:
        return tuple(w.number for w in self.workers.values() if w.state is state)

    def _whole_units(self, numbers: Members) -> Members:
        """Only those whose replica group is complete: a part of a replica trains nothing."""
        present = Counter(number // self.unit for number in numbers)
        return tuple(n for n in numbers if present[n // self.unit] == self.unit)

    def _waited_long_enough(self) -> bool:
        return self._now - self._wanted_since > self.limits.warm_seconds

    def _next_epoch(self) -> int:
        self.latest_epoch += 1
        return self.latest_epoch

    def _dismiss(self, workers: Iterable[Worker]) -> None:
        for worker in list(workers):
            if worker.state is not WorkerState.LEAVING:
                self._kill(worker)

    def _kill(self, worker: Worker) -> None:
        if worker.state in (WorkerState.LOST, WorkerState.EXITED):
            return
        worker.become(WorkerState.LOST)
        self._out.append(Signal(worker.number, SIGKILL))

    def _send(self, number: int, message: Message) -> None:
        self._out.append(Send(number, message))


def _rounded_up(count: int, unit: int) -> int:
    return -(-count // unit) * unit
