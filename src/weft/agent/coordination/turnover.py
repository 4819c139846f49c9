"""From one execution plan to another: who is started for it, who waits meanwhile, and the way back.

Workers of another plan hold other parts of the model, so none of those who train can become one.
New ones are started, build the model under their plan and warm up beside the training. When all of
them are ready the members *yield*: after the same step each saves what it holds into memory, and
stands still with its state. The new ones load it by name and box, and train. Only when all of them
have committed a step are the old ones let go. Until then the way back is short: the new ones are
killed, and the old ones go on from the step after which they stopped, with the same samples.

    WARMING ─▶ YIELDING ─▶ TRYING ─▶ the plan is the job's
       │           │          │
       └───────────┴──────────┴────▶ the job stays as it is, and whoever ordered it gets to know

Where memory does not allow both (`beside` is false) the members yield first and are let go, and the
new ones begin from what was saved. The way back is then the same thing once more, under the plan
that is known to work.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from weft.agent.coordination.approach import Approach, Unreached
from weft.agent.coordination.epochs import Epochs, Phase
from weft.agent.coordination.limits import Limits
from weft.agent.coordination.roster import Roster
from weft.agent.coordination.worker import Worker, WorkerState
from weft.agent.messages import FRESH, Members
from weft.agent.plan import Plan


class Turn(StrEnum):
    """How far a turnover has come."""

    WARMING = "warming"
    YIELDING = "yielding"
    TRYING = "trying"


@dataclass(slots=True)
class Order:
    """A plan that is wanted, and the way back."""

    plan: Plan
    before: Plan
    width: int
    width_before: int
    beside: bool
    since_seconds: float
    turn: Turn = Turn.WARMING
    stood_since: float = 0.0  # when the members stopped
    parked: Members = ()  # who trained before, and waits with the state
    committed: int = FRESH  # the step after which they wait
    attempts: int = 0
    failed: int = 0


class Wanted(Protocol):
    """What the coordinator knows."""

    width: int
    source: str
    saved_step: int
    draining: bool

    @property
    def members(self) -> Members: ...


class Turnover:
    """Of one coordinator."""

    def __init__(
        self, mind: Wanted, roster: Roster, epochs: Epochs, sizing: Approach, limits: Limits
    ) -> None:
        self._mind, self._roster, self._epochs = mind, roster, epochs
        self._sizing, self._limits = sizing, limits
        self.order: Order | None = None
        self._next: tuple[Plan, int, bool] | None = None
        self.plan = roster.plan
        self.done = 0
        self.paused_seconds: float | None = None  # for the last one that was reached

    @property
    def trying(self) -> Order | None:
        """What is being tried: workers of a plan that is not known to work."""
        return self.order if self.order and self.order.turn is Turn.TRYING else None

    @property
    def wanted(self) -> Plan:
        """The one that was ordered last."""
        if self._next is not None:
            return self._next[0]
        return self.order.plan if self.order else self.plan

    @property
    def turning(self) -> bool:
        """Whether there may be workers of another plan than that of the members."""
        return self.order is not None

    def of(self, members: Members) -> Plan:
        """Under which these compute, who are all under the same."""
        return self._roster[members[0]].plan if members else self.plan

    # ------------------------------------------------------------------------------- orders

    def hear(self, plan: Plan | None, width: int, *, beside: bool) -> bool:
        """What was ordered, None for the plan that is; whether the width holds at once.

        Another plan is begun when the job trains under the one it has: nothing that is being tried
        is taken back, for that is a matter of seconds.
        """
        order = self.order
        if plan is not None and plan != (self.order.plan if self.order else self.plan):
            self._next = plan, width, beside
            return False
        self._next = None
        if order is not None and order.turn is Turn.WARMING:
            order.width = width
        return True

    def _begin(self, plan: Plan, width: int, now: float, *, beside: bool) -> None:
        """What was begun for an older order is let go."""
        self._forget_newcomers()
        self._roster.follow(plan)
        self.order, self._mind.width = None, width
        if plan == self.plan:
            return
        before = len(self._mind.members)
        self.order = Order(plan, self.plan, width, before, beside, now)
        self._sizing.wanted_since = now
        self._roster.note("replanning", plan=str(plan), before=str(self.plan), width=width)

    # -------------------------------------------------------------------------------- moves

    def move(self, now: float) -> bool:
        """The members train: let newcomers warm, and the members yield when all are ready.

        Gives whether there is anything to be done for another plan.
        """
        if self._next is not None:
            (plan, width, beside), self._next = self._next, None
            self._begin(plan, width, now, beside=beside)
        if self.order is not None:
            self._prepare(self.order, now)
        return self.order is not None

    def _prepare(self, order: Order, now: float) -> None:
        if order.beside:
            ready = self._sizing.newly_ready(order.width, now)
            if len(ready) < order.width:
                if now - order.since_seconds > self._limits.warm_seconds:
                    self._give_up("its workers were not ready in time")
                return
        if self._sizing.may_disturb(now):
            order.turn, order.since_seconds, order.stood_since = Turn.YIELDING, now, now
            self._epochs.yield_(now)

    def settle(self, now: float) -> bool:
        """The members yield; whether all stand still, and somebody else takes over."""
        order = self.order
        assert order is not None
        found = self._epochs.yielded()
        if found is None or self._mind.saved_step != found or not self._mind.source:
            return False
        if self._mind.draining:
            self._roster.dismiss(self._roster.alive())
            return True
        new = self._roster.whole_units(self._newcomers())[: order.width]
        if order.beside and len(new) < order.width:
            self._go_on(order, now)
            return True
        order.turn, order.stood_since = Turn.TRYING, min(order.stood_since, now)
        order.attempts += 1
        order.since_seconds, order.committed = now, found
        old = self._mind.members
        if not order.beside:
            self._roster.dismiss(self._roster[number] for number in old)
            self._epochs.disband(Phase.GATHERING)
            self._sizing.wanted_since = now
            return True
        order.parked = old
        self._epochs.begin(new, new, found, self._mind.source, now)
        return True

    def adopt(self, now: float) -> None:
        """All that trained is lost: what is wanted is tried from the newest snapshot."""
        if self.order is not None and self.order.turn is not Turn.TRYING:
            self.order.turn, self.order.since_seconds = Turn.TRYING, now
            self.order.stood_since = now

    def reached(self, now: float) -> None:
        """All workers of the new plan have made a step: there is no way back any more."""
        order = self.trying
        if order is None:
            return
        self._roster.dismiss(self._roster[n] for n in order.parked if not self._roster.has_left(n))
        self.plan, self.order = order.plan, None
        self.done += 1
        self.paused_seconds = now - order.stood_since
        facts = {"plan": str(self.plan), "before": str(order.before)}
        self._roster.note("replanned", **facts, paused_seconds=round(self.paused_seconds, 3))

    def roll_back(self, why: str, now: float) -> None:
        """The new plan does not work: whoever waited goes on, or the old plan begins again."""
        order = self.trying
        assert order is not None
        new = [w for w in self._roster.alive() if w.number not in order.parked]
        self._roster.dismiss(new)
        waiting = tuple(n for n in order.parked if self._roster.answering(n))
        self._give_up(why)
        staying = self._roster.whole_units(waiting)
        if not staying:
            self._roster.dismiss(self._roster[number] for number in waiting)
            self._epochs.disband(Phase.GATHERING)
            self._sizing.wanted_since = now
            return
        self._epochs.change = self._epochs.doubt = None
        self._epochs.begin(staying, staying, order.committed, "", now)

    def lost(self, worker: Worker, was: WorkerState, why: str, now: float) -> bool:
        """One has ended; whether it was of a plan that is not the job's yet, and of no other."""
        order = self.order
        if order is None or was is WorkerState.LOST or not self._is_new(worker):
            return False
        if order.turn is Turn.TRYING and worker.between and worker.exit_code == 0:
            self.reached(now)  # it has come to the end of a loop, so all have made a step
            return False
        if order.turn is Turn.TRYING:
            self.roll_back(why, now)
            return True
        self._roster.dismiss(self._roster.mates(worker.number))
        order.failed += 1
        if order.failed > self._limits.most_stillborn:
            self._give_up(f"{order.failed} of its workers were lost: {why}")
        if order.turn is Turn.YIELDING:
            self._let_train(order, f"nobody to stop for: {why}", now)
        return True

    def distrusts(self, number: int) -> bool:
        """Whether what a worker saves may be of a plan that does not work, or of its failure."""
        worker, trying = self._roster.workers.get(number), self.trying
        return not (trying is None or worker is None or self._mind.draining) and self._is_new(
            worker
        )

    def late(self, now: float) -> None:
        """A plan that does not come to its first step in time is not the job's."""
        order = self.order
        if order is None:
            return
        waited = now - order.since_seconds
        if order.turn is Turn.TRYING and waited > self._limits.try_seconds:
            self.roll_back(f"no step under it in {self._limits.try_seconds:.0f} s", now)
        elif self._epochs.phase is Phase.YIELDING and waited > self._limits.build_seconds:
            self._go_on(order, now)

    def _go_on(self, order: Order, now: float) -> None:
        """They did not all yield, or could not save: those who train go on, for now."""
        order.attempts += 1
        if order.attempts >= self._limits.most_failed_switches:
            self._give_up("the members could not stop for it")
        self._let_train(order, "the members did not stop for another plan", now)

    def _let_train(self, order: Order, why: str, now: float) -> None:
        """Whoever stands still for it, or is about to, trains on under the plan that there is."""
        order.turn, order.since_seconds = Turn.WARMING, now
        self._epochs.halt(now, why)

    # ------------------------------------------------------------------------------ the rest

    def _give_up(self, why: str) -> None:
        order = self.order
        assert order is not None
        self.order = None
        self._forget_newcomers()
        self._roster.follow(order.before)
        self._mind.width = order.width_before
        self._sizing.unreached = Unreached(order.width, why, str(order.plan))
        self._roster.note("not replanned", plan=str(order.plan), stays=str(order.before), why=why)

    def _forget_newcomers(self) -> None:
        self._roster.dismiss(self._roster.coming(self._mind.members))

    def _newcomers(self) -> Members:
        return self._roster.standing(WorkerState.READY)

    def _is_new(self, worker: Worker) -> bool:
        order = self.order
        assert order is not None
        return worker.plan == order.plan and worker.number not in order.parked
