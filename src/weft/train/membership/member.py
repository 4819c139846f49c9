"""A training process as a member of epochs: how it enters one, switches, and mends a broken one.

What a step is, and who votes for it, is the session's (`weft.train.session`), which is a member and
more. Here is what happens between steps, and when one has failed.
"""

import math
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Final

import torch

from weft.agent.coordination.limits import BETWEEN
from weft.agent.messages import (
    FRESH,
    NOWHERE,
    Accompany,
    Arm,
    Farewell,
    Pulse,
    Regroup,
    Staged,
    Standby,
)
from weft.agent.plan import REPLICATED, Plan
from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.company.fence import DeviceFence, Fence, HostFence
from weft.train.company.turns import Moment, Turns
from weft.train.device_clock import CudaClock
from weft.train.gradients.reducer import Reduction
from weft.train.groups.group import CPU, Alone, EpochGroups
from weft.train.membership.contact import Contact
from weft.train.membership.control import Control
from weft.train.membership.handover import Handover
from weft.train.membership.protocol import Part
from weft.train.membership.units import Roles
from weft.train.open_micro_batch import OpenMicroBatch
from weft.train.stages import Stage, Stages
from weft.train.state.book import StateBook
from weft.train.state.pristine import Pristine
from weft.train.state.snapshot import load

REPORT_SECONDS: Final = 10.0
FIRST_REPORT_SECONDS: Final = 2.0  # after a change, if there were so many steps by then:
FIRST_REPORT_STEPS: Final = 5
ORDER_SECONDS: Final = 600.0


class Result(StrEnum):
    """What became of a step."""

    OPEN = "open"
    COMMITTED = "committed"
    AGAIN = "again"
    OUTSIDE = "outside"


class Member(ABC):
    """One process and its epochs; with no contact it is alone in the only one."""

    def __init__(self, contact: Contact | None, book: StateBook, reduction: Reduction) -> None:
        self.contact, self.book, self.reduction = contact, book, reduction
        self.stages = Stages(device=_device_clock(book))
        self._protocol = Part(contact.worker) if contact else _part_alone()
        self.result = Result.OUTSIDE
        self.metrics: dict[str, float] = {}
        self.on_rescale: list[Callable[[], None]] = []
        self._global_batch = 0
        self._total = 0
        self._groups = _alone(contact)
        self._handover = Handover(book, self._is_halted)
        self._pristine: Pristine | None = None
        self._closing: list[threading.Thread] = []
        self._section = "setup"
        self._section_since = time.monotonic()
        self._reported_seconds = time.monotonic()
        self._has_reported = False  # of the present members
        self._trained: tuple[float, int] | None = None  # when last, and how many trained then
        self._usual_seconds = 0.0
        self._control: Control | None = None
        self._turns: Turns | None = None
        self._open = OpenMicroBatch()
        if contact is not None:
            device = _device_of(book)
            self._control = Control(
                contact,
                self._protocol,
                self._pulse,
                self._cut,
                device,
                accompany=self._accompany,
                program=lambda: book.program,
            )

    @abstractmethod
    def _commit(self) -> None:
        """Apply the step whose gradient is in hand."""

    @abstractmethod
    def _leave(self, why: Farewell) -> None:
        """End the process in the middle of its script."""

    @property
    @abstractmethod
    def cursor(self) -> int:
        """Samples consumed by committed steps."""

    @property
    def committed(self) -> int:
        """The last step that was applied; less than that before this worker has the state."""
        return self._protocol.committed

    @property
    def step(self) -> int:
        """The optimizer step that comes next, counted from 0."""
        return self.committed + 1

    @property
    def rank(self) -> int:
        """This worker's place among the members; before its first epoch, its number."""
        if self.contact is None or not self._groups.epoch:
            return self.contact.worker if self.contact else 0
        return self._groups.members.index(self.contact.worker)

    @property
    def width(self) -> int:
        return len(self._groups.members)

    @property
    def in_loop(self) -> bool:
        """Whether the script of a job is in the body of its loop, which is not repeated."""
        return self.contact is not None and self._open.micro is not None

    @property
    def plan(self) -> Plan:
        """How the model is held, for as long as this process lives."""
        return self.contact.plan if self.contact else REPLICATED

    @property
    def _told_plan(self) -> dict[str, int]:
        return self.plan.told()

    # ---------------------------------------------------------------------------- the switch

    def _switch(self) -> None:
        """The next step belongs to the armed epoch."""
        control = self._control
        assert control is not None
        passing("before-switch")
        old, order = self._groups, self._protocol.switch()
        try:
            self._become(control.take(order.epoch))
        except Exception as error:
            self._groups = EpochGroups(
                order.epoch, order.members, old.shard, old.gradients, old.state, old.votes
            )
            self._mend(NOWHERE, str(error))
        self._closing = [_close_later(old)]
        passing("switched")

    def _become(self, groups: EpochGroups) -> None:
        self._groups = groups
        if self._is_halted():  # perhaps before there was anything to cut
            groups.cut()
        self._usual_seconds = self.stages.usual_seconds() or self._usual_seconds
        self._reported_seconds, self._has_reported = time.monotonic(), False
        self.stages.switched(len(groups.members), self._told_plan, self.step)
        for notice in self.on_rescale:
            notice()

    @property
    def _donors(self) -> tuple[int, ...]:
        """The replicas that have the state, and bring samples."""
        shard = self._groups.shard
        column = self._groups.members[self.rank % shard :: shard]
        sharers = self._protocol.sharers
        return tuple(place for place, member in enumerate(column) if member in sharers)

    def _roles(self) -> Roles | None:
        """Who sends and who receives, at the first steps of an epoch with newcomers."""
        if not self._protocol.joiners:
            return None
        donors, everyone = self._donors, range(self._groups.replicas)
        return Roles(donors, tuple(r for r in everyone if r not in donors))

    def _begin_handover(self, *, whole: bool = False) -> None:
        roles = self._roles()
        if roles is not None:
            self._handover.begin(self._groups, roles, self.committed, whole=whole)

    def _hand_over(self) -> None:
        """Before anything is summed all agree on how far the newcomers have the state."""
        if not self._handover.under_way:
            return
        receives = self._handover.receives
        received = self._handover.agreed(self._groups.votes)
        if receives:
            self.reduction.remember()
        if received is not None:
            self._protocol.received(received)
            self.stages.switched(self.width, self._told_plan, self.step)
            self._pristine = None

    def _is_halted(self) -> bool:
        return self._control is not None and self._protocol.is_halted

    def _cut(self, epoch: int) -> None:
        """The agent has halted that epoch: nobody waits in it for one who may never answer."""
        if self._groups.epoch <= epoch:
            self._groups.cut()

    # ----------------------------------------------------------------------------- company

    def _accompany(self, order: Accompany, hang_seconds: float) -> None:
        """The agent says with whom this worker shares its GPUs, from the next border on."""
        assert self.contact is not None
        if self._turns is None:
            fence = _fence(self.book)
            self._turns = Turns(
                self.contact,
                self.stages,
                self._moment,
                fence,
                self._is_halted,
                hang_seconds=hang_seconds,
            )
        self._turns.accompany(order)

    def _moment(self) -> Moment | None:
        """Where the loop is; None in a step that belongs to no epoch."""
        micro = self._open.micro
        if micro is None or micro.warmup:
            return None
        return Moment(self._groups.epoch, self._groups.members, micro.last)

    # ---------------------------------------------------------------------------- the repair

    def _mend(
        self, pending: int, why: str, *, answered: bool = False, yielded: bool = False
    ) -> None:
        """Say how far this worker is, and go on as the agent finds from what all have said."""
        control = self._control
        if control is None:
            raise self.reduction.failure or WorldError(why)
        self._handover.forget()
        while True:
            self._groups.cut()
            self._groups.close()
            self._enter_section("standby")
            if answered:
                order, answered = control.wait_order(ORDER_SECONDS, asked=True), False
            else:
                order = control.ask_after(pending, why, ORDER_SECONDS, yielded=yielded)
                yielded = False
            if isinstance(order, Standby):
                self.result = Result.OUTSIDE
                return
            assert isinstance(order, Regroup)
            try:
                self._regroup(order, pending)
            except (RuntimeError, WorldError) as error:
                why = str(error)
                continue
            return

    def _regroup(self, order: Regroup, pending: int) -> None:
        assert self.contact is not None
        assert self._control is not None
        self._enter_section("setup")
        if self._protocol.must_apply(order, pending):
            self._commit()
        load = self._protocol.must_load(order)
        self._protocol.regroup(order)
        self._groups = EpochGroups(
            order.epoch, order.members, self.contact.shard, Alone(), Alone(), Alone()
        )
        self._become(self._control.meet(order))
        if self.result is not Result.COMMITTED:
            self._make_again()
        self._take_stock(order, load=load)
        self._enter_section("")

    def _make_again(self) -> None:
        """The script gets the same step once more, with groups and buffers as before it."""
        if self.result is Result.OPEN:
            self.book.groups.restore()
        self.result = Result.AGAIN
        self.reduction.forget()

    def _take_stock(self, order: Regroup, *, load: bool) -> None:
        """Before the first step: the first donor loads, the others receive, all wait for it."""
        if load:
            self._load(order)
        if self._roles() is not None:
            self._begin_handover(whole=True)
            self._hand_over()
        self._protocol.begin(order)
        self.book.progress = self.book.progress.after(self.step)
        self.stages.switched(self.width, self._told_plan, self.step)

    def _load(self, order: Regroup) -> None:
        if self._pristine is not None:
            self._pristine.restore()
        if order.source:
            parts = [Path(part) for part in order.source.split(os.pathsep)]
            load(self.book, parts[0] if len(parts) == 1 else parts)
        self._pristine = None

    # ------------------------------------------------------------------- outside of any epoch

    def _enter_epoch(self) -> None:
        """Wait for the first epoch that has a place for this worker."""
        control = self._control
        if control is None:
            self.result = Result.OPEN
            return
        self._enter_section("standby")
        order = control.wait_order()
        if isinstance(order, Arm):
            self._join(order)
        elif isinstance(order, Regroup):
            try:
                self._regroup(order, NOWHERE)
            except (RuntimeError, WorldError) as error:
                self._mend(NOWHERE, str(error))
        self._enter_section("")

    def _join(self, order: Arm) -> None:
        control = self._control
        assert control is not None
        if self._protocol.halted >= order.epoch:
            return self._mend(NOWHERE, "the agent has halted this epoch")
        if not self._protocol.may_join(order):
            return None
        self._protocol.switch()
        try:
            self._become(control.take(order.epoch))
            self.result = Result.OPEN
        except (RuntimeError, WorldError) as error:
            self._mend(NOWHERE, str(error))
        return None

    # ------------------------------------------------------------------- outside of any loop

    def _step_out(self) -> None:
        """The script goes on behind the loop: to another one, or to its end."""
        if self._control is not None:
            self._enter_section(BETWEEN)
            self._control.step_out()

    def _step_in(self) -> None:
        """It has come to the next one; the epoch may have been broken meanwhile."""
        control = self._control
        if control is None:
            return
        self._enter_section("")
        self.book.enter_loop()
        if control.step_in():
            self._mend(NOWHERE, "", answered=True)

    # -------------------------------------------------------------------------------- telling

    def _pulse(self) -> Pulse:
        section, seconds = self._section, time.monotonic() - self._section_since
        if not section:
            stage, seconds = self.stages.section()
            section = stage.value
        if self._handover.under_way:  # what moves does not hang, however long it takes
            seconds = min(seconds, time.monotonic() - self._handover.alive_seconds)
        return Pulse(
            self._groups.epoch,
            self.step,
            section,
            seconds,
            self.cursor,
            self._total,
            {name: value for name, value in self.metrics.items() if math.isfinite(value)},
            self.book.progress.loop,
            self._handover.moved_bytes,
        )

    def _enter_section(self, name: str) -> None:
        """What the main thread is at while it is in no stage of a step."""
        self._section, self._section_since = name, time.monotonic()
        if not name:
            self.stages.enter(Stage.IDLE)
        elif self.stages.border is not None:  # nobody waits for one that is in no step
            self.stages.border(Stage.IDLE)

    def _paused_seconds(self, now: float) -> float:
        """How much longer than usual it was since the step before, which others may have trained.

        The first step with newcomers takes what one took without them, because they bring no
        samples yet; with fewer members it takes longer, and that is no pause.
        """
        if self._trained is None:
            return 0.0
        at, width = self._trained
        return max(now - at - self._usual_seconds * max(1.0, width / self.width), 0.0)

    def _report(self, *, now: bool = False) -> None:
        seconds = time.monotonic()
        if self._control is None or not (now or self._is_report_due(seconds)):
            return
        self.book.check_model()
        self._reported_seconds, self._has_reported = seconds, True
        company = self._turns.report() if self._turns else {}
        report = self.stages.report(self.width, self._told_plan, self._groups.epoch, company)
        self._control.tell(Staged(report))

    def _is_report_due(self, now: float) -> bool:
        """Now and then, and of new members as soon as there is something to tell."""
        since = now - self._reported_seconds
        if self._has_reported or since >= REPORT_SECONDS:
            return since >= REPORT_SECONDS
        return since >= FIRST_REPORT_SECONDS and self.stages.unreported_steps >= FIRST_REPORT_STEPS


def _device_of(book: StateBook) -> torch.device:
    """Where the gradients lie."""
    return next((one.device for one in book.model.parameters()), CPU)


def _device_clock(book: StateBook) -> CudaClock | None:
    on_gpu = any(parameter.is_cuda for parameter in book.model.parameters())
    return CudaClock() if on_gpu else None


def _fence(book: StateBook) -> Fence:
    clock = _device_clock(book)
    return HostFence() if clock is None else DeviceFence(clock)


def _part_alone() -> Part:
    """Of the only epoch there is, which nobody halts."""
    part = Part(0)
    part.committed, part.fresh = FRESH, False
    return part


def _alone(contact: Contact | None) -> EpochGroups:
    alone = Alone()
    worker = contact.worker if contact else 0
    return EpochGroups(0, (worker,), 1, alone, alone, alone)


def _close_later(groups: EpochGroups) -> threading.Thread:
    """Closing a gloo group takes 20 ms, so nobody waits for it before the end."""
    closing = threading.Thread(target=groups.close, name="weft-closing", daemon=True)
    closing.start()
    return closing
