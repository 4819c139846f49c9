"""A worker's part in the protocol, decided purely: messages and moments in, actions out.

It is the other side of `weft.agent.coordination.coordinator`. What it is told may come at any
moment, while the training thread is in code of the script's; so each order is only noted, and acted
upon at a step's border, or where the worker has nothing to do: before its first epoch, and after a
failure.

    OUTSIDE ──Arm──▶ in an epoch ──border: armed──▶ the next epoch, or it leaves
       ▲   ──Regroup──▶   │  ▲
       │                  │  │ Regroup: with a gradient in hand, if that step counts
       └──Standby── asked ◀──┘ the epoch is broken: it says how far it is

Nothing here waits, sends or reads a clock: `weft.train.membership.control` carries actions out, and
`weft.train.membership.member` comes here with what it has seen.
"""

from collections import deque
from dataclasses import dataclass
from enum import StrEnum

from weft.agent.messages import (
    NOWHERE,
    STATELESS,
    Abandon,
    Arm,
    Broken,
    Built,
    Committed,
    Drain,
    Halt,
    Here,
    Members,
    Message,
    NotBuilt,
    Prepare,
    Regroup,
    Save,
    Standby,
    Yield,
)
from weft.train.gradients.flag import Flag

Order = Arm | Regroup | Standby


@dataclass(frozen=True, slots=True)
class Say:
    """Tell it to the agent."""

    message: Message


@dataclass(frozen=True, slots=True)
class Beat:
    """Give a sign of life."""


@dataclass(frozen=True, slots=True)
class Build:
    """Meet the members of that epoch, beside the present one."""

    order: Prepare


@dataclass(frozen=True, slots=True)
class Discard:
    """Nobody will enter that epoch, whose groups stand or are being built."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Cut:
    """End every wait in the present epoch, if it is that one or an older one."""

    epoch: int


WorkerAction = Say | Beat | Build | Discard | Cut


class Border(StrEnum):
    """What follows a step that was committed."""

    GO_ON = "go on"
    SWITCH = "switch"
    LEAVE = "leave"
    DRAIN = "drain"
    YIELD = "yield"
    MEND = "mend"


class Part:
    """One worker's view of its epochs, and what it has been told."""

    def __init__(self, worker: int) -> None:
        self.worker = worker
        self.epoch = 0
        self.members: Members = (worker,)
        self.joiners: Members = ()  # whose state is on its way
        self.fresh = True  # until a step was made in it by all, newcomers too
        self.committed = STATELESS
        self.armed = self.halted = NOWHERE
        self.drain = self.save = self.yielding = False
        self.prepared: Prepare | None = None
        self._orders: deque[Order] = deque()
        self.latest = 0  # the newest epoch that it was told of
        self.ready = False
        self.asking: Broken | None = None  # what was said and not answered yet
        self._outside = True
        self._behind = self._answered = False
        self._told = NOWHERE

    @property
    def sharers(self) -> Members:
        """Who brings samples to the next step: newcomers do not before they have the state."""
        return tuple(m for m in self.members if m not in self.joiners)

    @property
    def is_halted(self) -> bool:
        """Whether the agent has given the present epoch up."""
        return self.halted >= self.epoch

    @property
    def is_armed(self) -> bool:
        """Whether the next epoch stands for everybody: to be shown to all with the gradients."""
        return self.armed > self.epoch

    @property
    def raised(self) -> frozenset[Flag]:
        """What all members are to see at the same step."""
        wanted = {Flag.ARMED: self.is_armed, Flag.DRAIN: self.drain, Flag.SAVE: self.save}
        wanted[Flag.YIELD] = self.yielding
        return frozenset(flag for flag, value in wanted.items() if value)

    # ------------------------------------------------------------------------------- orders

    def heard(self, message: Message) -> list[WorkerAction]:
        """The agent has said this."""
        self.latest = max(self.latest, getattr(message, "epoch", 0))
        match message:
            case Prepare():
                self.prepared = message
                return [Build(message)]
            case Abandon(epoch):
                return self._give_up(epoch)
            case Arm(epoch):
                self.armed = epoch
                self._orders.append(message)
            case Regroup() | Standby():
                self._orders.append(message)
            case Halt(epoch):
                self.halted = max(self.halted, epoch)
                return [*self._give_up(epoch), Cut(epoch), self._answer()]
            case Drain():
                self.drain = True
            case Save():
                self.save = True
            case Yield(epoch):
                self.yielding = epoch == self.epoch
        return []

    def built(self, epoch: int, failure: str = "") -> WorkerAction:
        """The groups of a coming epoch stand, or cannot be made to."""
        return Say(NotBuilt(epoch, failure[:500]) if failure else Built(epoch))

    def next_order(self, *, asked: bool) -> Order | None:
        """What to do now; for one that has `asked`, an arming that came too late is no order."""
        while self._orders:
            order = self._orders.popleft()
            if not (asked and isinstance(order, Arm)):
                self._outside = isinstance(order, Standby)
                self.asking = None
                return order
        return None

    # ----------------------------------------------------------------------------- another head

    @property
    def here(self) -> Here:
        """How this worker stands, for a head that does not know it."""
        inside = () if self._outside else self.members
        epoch = 0 if self._outside else self.epoch
        return Here(epoch, self.latest, inside, self.committed, self.ready, self._is_settled)

    @property
    def _is_settled(self) -> bool:
        asks = self.asking is not None or self._answered
        return not (self.fresh or asks or self.prepared or self.is_halted or self.is_armed)

    def move(self) -> list[WorkerAction]:
        """Another head leads: what the one before has ordered, and nobody follows yet, is void."""
        self._orders.clear()
        actions: list[WorkerAction] = self._give_up(self.latest) if self._outside else []
        asked = [Say(self.asking)] if self.asking is not None else []
        return [*actions, Say(self.here), Beat(), *asked]

    def _give_up(self, epoch: int) -> list[WorkerAction]:
        if self.prepared is None or self.prepared.epoch > epoch:
            return []
        self.prepared = None
        return [Discard(epoch)]

    def _answer(self) -> WorkerAction:
        """A sign of life, or all that is to be said where the training thread will not say it."""
        if not self._behind:
            return Beat()
        self._orders.clear()
        self._answered = True
        return Say(Broken(self.epoch, self.committed, NOWHERE, "behind the loop"))

    # ------------------------------------------------------------------------------- moments

    def received(self, step: int) -> None:
        """A newcomer has all of the state after that step."""
        self.committed = step

    def commit(self, paused_seconds: float = 0.0) -> list[WorkerAction]:
        """A step was applied: by all, or by one who knows that another has applied it.

        It is told of the first in an epoch; by a newcomer, of the first that it makes with the
        state of the others, and not of those in which a part of that was on its way.
        """
        if self.committed == STATELESS:
            return []
        self.committed += 1
        if self._told == self.epoch:
            return []
        self._told = self.epoch
        return [Say(Committed(self.epoch, self.committed, paused_seconds))]

    def complete(self) -> None:
        """All newcomers have the state, and have made a step with it."""
        self.joiners, self.fresh = (), False

    def border(self, seen: frozenset[Flag]) -> Border:
        """All members have committed the same step and have seen the same flags."""
        if Flag.DRAIN in seen:
            return Border.DRAIN
        if self.is_halted:
            return Border.MEND
        if Flag.YIELD in seen:
            return Border.YIELD
        if Flag.ARMED not in seen:
            return Border.GO_ON
        if self.prepared is None:
            return Border.MEND
        return Border.SWITCH if self.worker in self.prepared.members else Border.LEAVE

    def may_join(self, order: Arm) -> bool:
        """Whether the epoch that one outside is called to is still what it has built."""
        may = self.prepared is not None and self.prepared.epoch == order.epoch
        self._outside = not may
        return may

    def switch(self) -> Prepare:
        """The next step belongs to the epoch that was prepared."""
        order, self.prepared = self.prepared, None
        assert order is not None
        self._enter(order.epoch, order.members, order.joiners)
        return order

    def ask(self, pending: int, why: str, *, yielded: bool = False) -> WorkerAction:
        """The epoch is broken: say how far this worker is; what was ordered before is void.

        `pending` is the step whose summed gradient is in hand: this worker has voted for it, and
        does not know what became of it.
        """
        self._orders.clear()
        self.asking = Broken(self.epoch, self.committed, pending, why[:500], yielded)
        return Say(self.asking)

    def must_apply(self, order: Regroup, pending: int) -> bool:
        """Whether the step in hand was applied by somebody, so that it counts."""
        return self.committed < pending == order.committed and pending != NOWHERE

    def must_load(self, order: Regroup) -> bool:
        """Whether the others will be given the state by this worker, which has none yet."""
        return self.worker in order.donors and self.committed == STATELESS

    def regroup(self, order: Regroup) -> None:
        """Go on in another epoch, once a step in hand is applied that counts."""
        joiners = tuple(m for m in order.members if m not in order.donors)
        self._enter(order.epoch, order.members, joiners)

    def begin(self, order: Regroup) -> None:
        """All of its members have the state."""
        self.committed, self.joiners = order.committed, ()

    def step_out(self) -> None:
        """The script is behind a loop, and may never come to another: whoever asks is answered."""
        self._behind, self._answered = True, False

    def step_in(self) -> bool:
        """It has come to a loop; whether somebody was answered, so that an order will follow."""
        answered, self._behind, self._answered = self._answered, False, False
        return answered

    def _enter(self, epoch: int, members: Members, joiners: Members) -> None:
        self.epoch, self.members, self.joiners = epoch, members, joiners
        self.fresh, self._outside, self.yielding = True, False, False
