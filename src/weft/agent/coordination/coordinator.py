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

A job is finished when the scripts of all members have ended with 0, behind their loops. What a
member that died there still had to do, nobody else has done: unless the others make another step,
the script is run again from the snapshot that its last loop has left.

    GATHERING ─▶ STEADY ◀──────────────┐
                  │  ▲                 │ first step of the new epoch committed by all
                  ▼  │ newer target    │
                BUILDING ─▶ ARMED ─────┤
                  │           │        │
                  └────┬──────┘        │
                       ▼               │
                     HALTED ─▶ REGROUPING
"""

from signal import SIGTERM, Signals
from typing import Final

from weft.agent.coordination.actions import Action, Conclude
from weft.agent.coordination.approach import Approach
from weft.agent.coordination.doubt import Verdict
from weft.agent.coordination.epochs import Epochs, Phase
from weft.agent.coordination.heirs import Inherited
from weft.agent.coordination.limits import BETWEEN, SILENCE, Limits
from weft.agent.coordination.lives import Lives
from weft.agent.coordination.plain import NEVER, PlainCrew
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.standing import Standing
from weft.agent.coordination.turnover import Turnover
from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import (
    FRESH,
    Abandon,
    Broken,
    Built,
    Committed,
    Drain,
    Farewell,
    Hello,
    Here,
    Leaving,
    Message,
    Names,
    NotBuilt,
    Pulse,
    Ready,
    Save,
    Standby,
)
from weft.agent.outcome import DRAINED, INFRASTRUCTURE, Outcome
from weft.agent.plan import REPLICATED, Plan

PART_OF_GRACE: Final = 0.8


class Coordinator(Standing):
    """One job: who is to be a member, and when it is over."""

    def __init__(
        self, width: int, *, plan: Plan = REPLICATED, limits: Limits | None = None
    ) -> None:
        self.width = width
        self.limits = limits or Limits()
        self.unwanted: frozenset[int] = frozenset()  # who is to leave, whatever the width
        self.near: frozenset[int] | None = None  # who can read `source`, if not everybody can
        self.holding = False  # a snapshot is on its way to where everybody can read it
        self.started = False  # before it nobody is: seats may still be on their way
        self.barred = False  # another may lead by now: nothing is decided until that is known
        self.heard_from: dict[int, float] = {}  # when the seat of these workers was heard last
        self.source = ""
        self.saved_step = FRESH
        self.draining = False
        self.drain_deadline = NEVER
        self.elastic = False  # whether any worker has ever spoken: a plain script never does
        self.finished = False  # whether the script of a member has ended as it should
        self.restarts = 0
        self.offers: Names = ()  # as what the program can be run, if any worker has told
        self._roster = Roster(plan)
        self._epochs = Epochs(self._roster, self.limits)
        self._sizing = Approach(self, self._roster, self._epochs, self.limits)
        self._plans = Turnover(self, self._roster, self._epochs, self._sizing, self.limits)
        self._plain = PlainCrew(width)
        self._departed: dict[int, int] = {}
        self._pauses: dict[int, float] = {}  # by epoch, since the last order
        self._owed = False  # whether a member was lost and no step was made since
        self._lives = Lives()
        self._now = 0.0

    @property
    def paused_seconds(self) -> float | None:
        """How long training stood still for the changes since the last order; None: for none."""
        return sum(self._pauses.values()) if self._pauses else None

    def can_spare(self, workers: frozenset[int]) -> bool:
        """Whether the training would go on without them, by others that have the state."""
        if not self.elastic:
            return not workers
        staying = tuple(n for n in self.members if n not in workers)
        return bool(self._roster.whole_units(staying)) or not self.members

    # ------------------------------------------------------------------------------- events

    def start(
        self, now: float, *, width: int | None = None, source: str = "", saved_step: int = FRESH
    ) -> list[Action]:
        """The first workers, and the checkpoint that the first of them will load."""
        self._now, self.started = now, True
        self.width = self._plain.width = self.width if width is None else width
        self.source, self.saved_step = source, saved_step
        return self._settled()

    def inherit(self, found: Inherited, width: int, now: float) -> list[Action]:
        """Lead workers that another head has started: as they are, or else by way of a doubt."""
        self._now, self.started, self.elastic = now, True, True
        self.width, self._owed = width, found.owed
        self._sizing.wanted_since = now
        self._roster.inherit(found.workers, found.next_worker)
        self._roster.dismiss(self.workers[number] for number in found.silent)
        self._epochs.inherit(found.epoch, found.latest, found.members)
        waiting = self._roster.standing(WorkerState.READY)
        self._roster.tell(waiting, Abandon(found.latest))
        if not found.intact:
            self._epochs.halt(now, "another head leads")
        return self._settled()

    def resize(
        self,
        width: int,
        now: float,
        without: frozenset[int] = frozenset(),
        plan: Plan | None = None,
        *,
        beside: bool = True,
    ) -> list[Action]:
        """A new target; it replaces one that is not armed yet.

        Who is in `without` leaves, with its whole replica. If nobody would stay, they leave when
        others have taken over their state.
        """
        self._now = now
        self._sizing.unreached = None
        if not self._plans.hear(plan, width, beside=beside):
            return self._settled()
        if (width, without) != (self.width, self.unwanted):
            self.width, self.unwanted = width, without
            self._epochs.failed_switches = 0
            self._sizing.wanted_since = now
            self._pauses = {}
            if self.phase is Phase.BUILDING:
                self._epochs.abandon()
        return self._settled()

    def drain(self, grace_seconds: float, now: float, *, number: Signals = SIGTERM) -> list[Action]:
        """All leave together at the next boundary; at four fifths of the grace they are killed.

        A script that does not speak is sent the signal: the one that its user has sent, if any.
        """
        self._now = now
        if self.draining:
            self.drain_deadline = now
            return self._settled()
        self.draining = True
        self.drain_deadline = now + PART_OF_GRACE * grace_seconds
        alive = self._roster.alive()
        if self.elastic:
            self._roster.tell((worker.number for worker in alive), Drain(grace_seconds))
        else:
            for worker in alive:
                self._roster.signal(worker, number)
        return self._settled()

    def save(self, now: float) -> list[Action]:
        """A snapshot at the next boundary."""
        self._now = now
        self._roster.tell(self.members, Save())
        return self._settled()

    def heard(self, number: int, message: Message, now: float) -> list[Action]:
        """What a worker said."""
        self._now = now
        worker = self.workers.get(number)
        if worker is None or worker.state in (WorkerState.LOST, WorkerState.EXITED):
            return []
        worker.heard_seconds = now
        match message:
            case Hello() | Ready() | Here():
                self._greeted(worker, message)
            case Built(epoch):
                self._epochs.built(number, epoch, now)
            case NotBuilt(epoch, why):
                self._sizing.not_built(epoch, f"worker {number}: {why}", now)
            case Committed():
                self._committed(worker, message)
            case Broken():
                self._epochs.broken(worker, message, now)
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
        if self.phase is not Phase.ENDED:
            self._ended(worker, was, code)
        return self._settled()

    def tick(self, now: float) -> list[Action]:
        """Time has passed."""
        self._now = now
        if self.phase is Phase.ENDED:
            return []
        self._late()
        return self._settled()

    # ------------------------------------------------------------------------ what follows

    def _settled(self) -> list[Action]:
        """Level-triggered: whatever can be done now is done, and told."""
        if self.phase is not Phase.ENDED:
            self._advance()
        return self._roster.taken_orders()

    def _advance(self) -> None:
        if self._all_gone() or self.barred or self._may_have_moved():
            return
        if self.phase is Phase.HALTED and self._plans.trying:
            self._plans.roll_back(self.halted_why, self._now)
        if self.phase is Phase.HALTED:
            self._resolve()
        if self.phase is Phase.YIELDING and self._plans.settle(self._now):
            return
        if self.phase is Phase.GATHERING and self.started:
            self._gather()
        elif self.phase is Phase.STEADY and not self.draining and not self.finished:
            self._approach()

    def _may_have_moved(self) -> bool:
        """Whether one that was given up may follow another head, of which nobody has heard yet."""
        lost = (n for n in self._roster.standing(WorkerState.LOST) if n in self.heard_from)
        return any(self.heard_from[n] <= self._epochs.given_up_seconds for n in lost)

    def _gather(self) -> None:
        """The first epoch, or the first after all was lost."""
        roster = self._roster
        if self.draining:
            return roster.dismiss(roster.alive()) if self.elastic else None
        if not self.elastic and self._plain.retires(roster, self.width, self.unwanted, self._now):
            return None
        members = self._sizing.gathered(self._now)
        if not members:
            return None
        self._plans.adopt(self._now)
        self._departed = {}  # whoever left before was perhaps further than what is begun from
        donors = members[: self.unit]
        self._lives.begun_after = self.saved_step
        self._epochs.begin(members, donors, self.saved_step, self.source, self._now)
        return None

    def _approach(self) -> None:
        if not self._plans.move(self._now):
            self._sizing.move(self._now)

    def _greeted(self, worker: Worker, message: Hello | Ready | Here) -> None:
        """One that comes from another head, and late, has a state that is not the others' now."""
        match message:
            case Hello():
                self.elastic = True
                worker.become(WorkerState.WARMING)
            case Ready(offers=offers):
                self.offers = offers
                worker.become(WorkerState.READY)
            case Here(members=()) if message.ready:
                worker.become(WorkerState.READY)
            case Here(members=(_, *_)):
                self._roster.kill(worker)
                self._lost(worker.number)

    def _committed(self, worker: Worker, message: Committed) -> None:
        worker.step = max(worker.step, message.step)
        worker.proven = True
        switching = self.phase is Phase.ARMED
        known = self._pauses.get(message.epoch, 0.0)
        self._pauses[message.epoch] = max(known, message.paused_seconds)
        if self._epochs.committed(worker, message.epoch, self._now):
            self._owed = False
            self._plans.reached(self._now)
            self._sizing.wanted_since = self._now
            self._sizing.stillborn = 0 if switching else self._sizing.stillborn

    # ------------------------------------------------------------------------------ failures

    def _lost(self, number: int) -> None:
        """A worker is gone: of no matter to the others unless they share an epoch with it.

        Those who hold a model together with it wait for it in vain, and answer nobody.
        """
        self._roster.dismiss(self._roster.mates(number))
        if self.change and self.phase is Phase.BUILDING and number in self.change.joiners:
            self._epochs.abandon()
        if number in self._epochs.participants:
            self._epochs.halt(self._now, f"worker {number} is gone")

    def _resolve(self) -> None:
        """When all who live have answered: the step that counts, and who goes on from it."""
        verdict = self._epochs.judged(tuple(self._departed.values()), self._now)
        if verdict is None:
            return
        self._stand_by(verdict)
        self._sizing.rest(self._now)
        if verdict.holders and self._epochs.fruitless_halts <= self.limits.most_fruitless_halts:
            donors = verdict.holders
            self._epochs.begin(donors, donors, verdict.committed, "", self._now)
        else:
            self._restart()

    def _stand_by(self, verdict: Verdict) -> None:
        """Newcomers may try again; one with a state that is not what counts is of no use."""
        for worker in (self.workers[number] for number in verdict.others):
            blank = worker.state is WorkerState.JOINING and worker.number in verdict.blank
            if blank and self._sizing.may_try_again(worker):
                worker.become(WorkerState.READY)
                self._roster.tell((worker.number,), Standby(self.latest_epoch))
            else:
                self._roster.kill(worker)

    def _restart(self) -> None:
        """No whole replica is left, or none that can go on: all begin again from a snapshot."""
        self._epochs.fruitless_halts = 0
        self._roster.dismiss(w for w in self._roster.alive() if w.number in self.members)
        if self.finished and not self._owed:  # only newcomers are left
            self._epochs.disband(Phase.STEADY)
            return
        made = max((self.workers[number].step for number in self.members), default=FRESH)
        self._roster.note("begun again", saved_step=self.saved_step, made=made)
        self._lives.count(made=made, saved=self.saved_step)
        self._epochs.disband(Phase.GATHERING)
        self.finished = self._owed = False
        self.restarts += 1
        self._sizing.wanted_since = self._now
        if self.restarts > self.limits.most_restarts:
            self._conclude(Outcome.INFRASTRUCTURE, INFRASTRUCTURE, f"{self.restarts} restarts")
        elif why := self._lives.why_no_more(self.limits):
            why = f"{why}: {self.halted_why}"
            self._conclude(Outcome.INFRASTRUCTURE, INFRASTRUCTURE, why, self._lives.lost)

    # ---------------------------------------------------------------------------------- time

    def _late(self) -> None:
        """Whoever takes too long is not waited for any longer."""
        self._epochs.late(self._now)
        self._plans.late(self._now)
        overdue = not self.elastic and self._plain.lingers(self.limits, self._now)
        for worker in self._roster.alive():
            lingers = worker.state is WorkerState.LEAVING
            late = lingers and self._now - worker.heard_seconds > self.limits.stop_seconds
            if late or overdue or self._now >= self.drain_deadline:
                self._roster.kill(worker)
            elif self._has_stopped(worker):
                self._hung(worker, SILENCE, self._now - worker.heard_seconds)

    def _has_stopped(self, worker: Worker) -> bool:
        """Behind a loop a script may do what it likes, for as long as it likes."""
        silent = self._now - worker.heard_seconds
        watched = self._roster.answering(worker.number) and not worker.between
        return watched and silent > self._limit(worker, SILENCE)

    def _pulse(self, worker: Worker, pulse: Pulse) -> None:
        if pulse.step - 1 > worker.step or pulse.moved > worker.moved:
            self._epochs.moving(worker.number, self._now)
        worker.step, worker.moved = max(worker.step, pulse.step - 1), pulse.moved
        worker.between = pulse.section == BETWEEN
        worker.pace.came_to(worker.step, self._now, len(self.members))
        if pulse.section_seconds > self._limit(worker, pulse.section):
            self._hung(worker, pulse.section, pulse.section_seconds)

    def _limit(self, worker: Worker, section: str) -> float:
        """For how long it may be there: as long as three of its steps, if those are long."""
        step_seconds = worker.pace.among(len(self.members))
        return self.limits.of(section, proven=worker.proven, step_seconds=step_seconds)

    def _hung(self, worker: Worker, section: str, seconds: float) -> None:
        limit = self._limit(worker, section)
        times = self._roster.end_hung(worker, self.latest_epoch, seconds, limit)
        self._lost(worker.number)
        if times > self.limits.most_hangs:
            self._conclude(Outcome.INFRASTRUCTURE, INFRASTRUCTURE, f"hung {times} times in a row")

    # ----------------------------------------------------------------------------------- end

    def _ended(self, worker: Worker, was: WorkerState, code: int) -> None:
        """What the end of a process means for the others, by what it was and how it ended."""
        outcome, why = Outcome.of(code), f"worker {worker.number} ended with {code}"
        excused = self._roster.lost_its_mates(worker.number, self._departed)
        failed = outcome is Outcome.USER_ERROR and not excused
        if was is WorkerState.LEAVING or self._plans.lost(worker, was, why, self._now):
            return
        elif not self.elastic and not self.draining:
            self._plain_ended(worker.number, code, why)
        elif was.starting and self.elastic:
            self._sizing.stillborn += 1
            self._missing(worker.number, code, why)
        elif outcome is Outcome.FINISHED and worker.between:
            self._departed[worker.number] = worker.step
            self.finished = True
        elif failed and was is not WorkerState.LOST:
            self._conclude(outcome, code, why, worker.number)
        else:
            self._missing(worker.number, code, why)

    def _plain_ended(self, number: int, code: int, why: str) -> None:
        outcome = Outcome.of(code)
        if outcome is Outcome.FINISHED:
            self._departed[number] = FRESH
            self.finished = True
            return
        self._conclude_by(number, code, why)

    def _conclude_by(self, number: int, code: int, why: str) -> None:
        """By the end of one worker: who left though nobody was asked to has not been drained."""
        outcome = Outcome.of(code)
        if outcome is Outcome.DRAINED and not self.draining:
            outcome = Outcome.INFRASTRUCTURE
        exit_code = code if outcome is Outcome.USER_ERROR else INFRASTRUCTURE
        self._conclude(outcome, exit_code, why, number)

    def _missing(self, number: int, code: int, why: str) -> None:
        """If newcomers die one after the other, the job stays as wide as it is."""
        self._owed = self._owed or number in self.members
        self._lives.lost = number
        if self._sizing.stillborn <= self.limits.most_stillborn:
            self._lost(number)
        elif self.members:
            self._sizing.stay(f"{self._sizing.stillborn} newcomers were lost: {why}")
        else:
            self._conclude_by(number, code, why)

    def _leaving(self, worker: Worker, step: int, why: Farewell) -> None:
        worker.become(WorkerState.LEAVING)
        worker.step = max(worker.step, step)
        self._departed[worker.number] = step
        if why is Farewell.DRAINED and not self.draining:
            # It was sent SIGTERM behind the agent's back; all leave at that boundary.
            self.draining = True
            self.drain_deadline = self._now + self.limits.stop_seconds

    def _all_gone(self) -> bool:
        """Whether the job has ended: finished, or drained."""
        if not self._ending():
            return False
        if self._owed and not self.draining:
            self._restart()
            return False
        alive = self._roster.alive()
        if self.elastic:
            self._roster.dismiss(w for w in alive if w.number not in self._epochs.participants)
        if alive:
            return False
        if self.finished and not self._owed:
            self._conclude(Outcome.FINISHED, 0, "the script has ended")
        else:
            self._conclude(Outcome.DRAINED, DRAINED, "drained")
        return True

    def _ending(self) -> bool:
        """Whether nobody is waited for any more; in a drain they are, but nobody is begun."""
        if self.finished and all(map(self._roster.has_left, self._epochs.participants)):
            return True
        return self.draining

    def _conclude(self, outcome: Outcome, code: int, why: str, worker: int | None = None) -> None:
        for alive in self._roster.alive():
            self._roster.kill(alive)
        self._epochs.phase = Phase.ENDED
        self._roster.orders.append(Conclude(outcome, code, why, worker))
