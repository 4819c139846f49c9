"""What the agent has ordered, as a training process sees it.

One thread listens, one gives a sign of life every second, and one per coming epoch builds its
groups. The training thread never waits for any of them at a step's border: it looks at what lies
there. It waits only where it has nothing to do: before its first epoch, and after a failure.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

import torch

from weft.agent.messages import (
    Accompany,
    Message,
    Names,
    Over,
    Prepare,
    Pulse,
    Ready,
    Regroup,
    Welcome,
)
from weft.agent.outcome import INFRASTRUCTURE
from weft.model.errors import WorldError
from weft.train.groups.group import EpochGroups, build
from weft.train.membership.contact import Contact
from weft.train.membership.protocol import Beat, Build, Cut, Discard, Order, Part, Say, WorkerAction
from weft.train.membership.wire import Wire

PULSE_SECONDS: Final = 0.5
LOOK_SECONDS: Final = 0.1  # between two looks whether another head leads
HEADLESS_SECONDS: Final = 90.0  # longer than the agents of all pods look for one
WORKER: Final = "worker"


class Building:
    """The groups of a coming epoch, on their way."""

    def __init__(
        self,
        contact: Contact,
        order: Prepare | Regroup,
        limit_seconds: float,
        device: torch.device,
        program: int,
    ) -> None:
        self.order = order
        self.ended = self._discarded = False
        self.failure: Exception | None = None
        self._groups: EpochGroups | None = None
        self._contact, self._limit_seconds, self._device = contact, limit_seconds, device
        self._program = program
        self._thread = threading.Thread(target=self._build, name="weft-building", daemon=True)

    def start(self, then: Callable[["Building"], None]) -> None:
        self._then = then
        self._thread.start()

    def take(self) -> EpochGroups:
        """The groups; they stand already when this is called, or the build has failed."""
        self._thread.join()
        if self._groups is None:
            raise self.failure or WorldError("the epoch was given up")
        return self._groups

    def discard(self) -> None:
        """Nobody will take it: peers that wait for this worker there must not wait longer."""
        self._discarded = True
        if self._groups is not None:
            self._groups.cut()
            self._groups.close()

    def _build(self) -> None:
        order = self.order
        try:
            if self._contact.worker in order.members:
                self._groups = build(
                    self._contact,
                    order.epoch,
                    order.members,
                    self._limit_seconds,
                    self._device,
                    program=self._program,
                )
        except Exception as error:
            self.failure = error
        if self._discarded:
            self.discard()
        self.ended = True
        self._then(self)


class Control:
    """The orders of the agent, and this worker's voice."""

    def __init__(
        self,
        contact: Contact,
        part: Part,
        pulse: Callable[[], Pulse],
        cut: Callable[[int], None],
        device: torch.device,
        *,
        accompany: Callable[[Accompany, float], None],
        program: Callable[[], int],
    ) -> None:
        self.contact, self.part, self.device = contact, part, device
        self._program = program
        self._pulse, self._cut, self._accompany = pulse, cut, accompany
        self._building: Building | None = None
        self._changed = threading.Condition()
        self._gone = False
        self._closed = threading.Event()
        self._dismissed = False
        self._wire, welcome = self._met()
        self.welcome, self.hang_seconds = welcome, welcome.hang_seconds
        for work in (self._listen, self._beat):
            threading.Thread(target=work, name=f"weft{work.__name__}", daemon=True).start()

    def _met(self) -> tuple[Wire, Welcome]:
        """The head as it is now; where it may move, it may do so at this very moment."""
        while True:
            try:
                wire = Wire(self.contact, WORKER)
                welcome = wire.next()
            except WorldError:
                welcome = None
                if self.contact.heads is None:
                    raise
            if isinstance(welcome, Welcome):
                return wire, welcome
            heads = self.contact.heads
            if heads is None or isinstance(welcome, Over) or not heads.wait(HEADLESS_SECONDS):
                raise WorldError(
                    "the agent did not welcome this worker", hint="is it another job's?"
                )

    def say(self, message: Message) -> None:
        """Where the head may move, whoever leads next is told how this worker stands."""
        if self.contact.heads is not None:
            self.tell(message)
        else:
            self._wire.say(message)

    def hear_terminate(self) -> None:
        """SIGTERM only raises a flag: all leave together at the next border."""
        if threading.current_thread() is not threading.main_thread():
            return

        def raise_flag(number: int, frame: object) -> None:
            self.part.drain = True

        signal.signal(signal.SIGTERM, raise_flag)

    def be_ready(self, warm_seconds: float, offers: Names) -> None:
        with self._changed:
            self.part.ready = True
            self.say(Ready(warm_seconds, elastic=True, offers=offers))

    def tell(self, message: Message) -> None:
        """As `say`, where it does not matter if nobody hears it any more."""
        with suppress(WorldError):
            self._wire.say(message)

    def wait_order(self, seconds: float | None = None, *, asked: bool = False) -> Order:
        """The next order that a worker outside of any epoch, or of a broken one, can follow."""
        found: list[Order | None] = [None]

        def come() -> bool:
            found[0] = self.part.next_order(asked=asked)
            return found[0] is not None or self._gone

        with self._changed:
            if not self._changed.wait_for(come, seconds):
                raise WorldError("no order came from the agent")
        if found[0] is None:
            raise WorldError("the agent is gone")
        return found[0]

    def ask_after(
        self, pending: int, why: str, seconds: float | None = None, *, yielded: bool = False
    ) -> Order:
        """Say how far this worker is, and wait for what is to follow from it."""
        with self._changed:
            asking = self.part.ask(pending, why, yielded=yielded)
            assert isinstance(asking, Say)
            self.say(asking.message)
        return self.wait_order(seconds, asked=True)

    def step_out(self) -> None:
        with self._changed:
            self.part.step_out()
        self.tell(self._pulse())

    def step_in(self) -> bool:
        with self._changed:
            answered = self.part.step_in()
        self.tell(self._pulse())
        return answered

    def take(self, epoch: int) -> EpochGroups:
        """The groups of an armed epoch."""
        building = self._building
        if building is None or building.order.epoch != epoch:
            raise WorldError(f"epoch {epoch} was never prepared")
        self._building = None
        return building.take()

    def meet(self, order: Regroup) -> EpochGroups:
        """The groups of an epoch that begins at once, unless it is given up meanwhile.

        gloo waits for a peer that has died between telling its address and answering there, and
        cannot be stopped. So a side thread meets the others; if the agent halts the epoch, whatever
        that thread comes to is of no interest to anybody.
        """
        building = self._coming(order)
        building.start(lambda _: self._wake())
        with self._changed:
            self._changed.wait_for(
                lambda: building.ended or self.part.halted >= order.epoch or self._gone
            )
        if not building.ended:
            building.discard()
            raise WorldError(f"epoch {order.epoch} was given up")
        return building.take()

    def close(self) -> None:
        self._closed.set()
        self._wire.close()

    def _listen(self) -> None:
        while True:
            for message in self._wire.hear():
                with self._changed:
                    self._heed(message)
                    self._changed.notify_all()
            if not self._moved():
                break
        with self._changed:
            self._gone = True
            self._changed.notify_all()
        if not self._closed.is_set():
            _end_orphaned()

    def _moved(self) -> bool:
        """Whether another head leads by now; the training goes on meanwhile, for as long as it can.

        One that was sent away has no other head: those who stay may have gone on without it.
        """
        heads = self.contact.heads
        while heads is not None and not (self._closed.is_set() or self._dismissed):
            if not heads.wait(HEADLESS_SECONDS):
                return False
            try:
                wire = Wire(self.contact, WORKER)
            except WorldError:
                continue  # it is gone as well
            with self._changed:
                self._wire.close()
                self._wire = wire
                self.carry_out(self.part.move())
                self._changed.notify_all()
            for told in heads.moved:
                told()
            return True
        return False

    def _heed(self, message: Message) -> None:
        if isinstance(message, Accompany):
            self._accompany(message, self.hang_seconds)
            return
        self._dismissed = self._dismissed or isinstance(message, Over)
        self.carry_out(self.part.heard(message))

    def carry_out(self, actions: Iterable[WorkerAction]) -> None:
        for action in actions:
            match action:
                case Build(order):
                    self._building = self._coming(order)
                    self._building.start(self._have_built)
                case Discard(epoch):
                    self._give_up(epoch)
                case Cut(epoch):
                    self._cut(epoch)
                case Beat():
                    self.tell(self._pulse())
                case Say(said):
                    self.tell(said)

    def _coming(self, order: Prepare | Regroup) -> Building:
        """Programs are compared at the same place in a loop, which members that mend may not be."""
        program = self._program() if isinstance(order, Prepare) else 0
        return Building(self.contact, order, self.hang_seconds, self.device, program)

    def _give_up(self, epoch: int) -> None:
        building = self._building
        if building is not None and building.order.epoch <= epoch:
            self._building = None
            building.discard()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _have_built(self, building: Building) -> None:
        failure = building.failure
        why = "" if failure is None else str(failure) or type(failure).__name__
        self.carry_out([self.part.built(building.order.epoch, why)])

    def _beat(self) -> None:
        """Signs of life, and an eye on who leads: a head that is cut off ends no connection."""
        heads, looks = self.contact.heads, 0
        while not self._closed.wait(PULSE_SECONDS if heads is None else LOOK_SECONDS):
            looks += 1
            if heads is not None and heads.is_newer():
                self._wire.cut()
            if heads is None or looks % round(PULSE_SECONDS / LOOK_SECONDS) == 0:
                self.tell(self._pulse())


def _end_orphaned() -> None:
    """Without its agent nobody would end this process, and the job may have been started again."""
    os._exit(INFRASTRUCTURE)
