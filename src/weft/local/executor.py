"""The executor: it carries out one job's actions, one at a time, and those of many jobs at once.

Each job that may need attention is looked at until nothing is left to do: events go to the brain,
actions to the record and to the agent. An action that failed is not repeated here; the job is
looked at again after a while, and what is then still to be done is done.
"""

import asyncio
import errno
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from weft.agent.messages import Drain, Resize
from weft.brain.event import Past
from weft.failure.interval import Advice
from weft.local import crash
from weft.local.agents.supervisor import Agents
from weft.local.machine.machine import Machine
from weft.local.reconcile.devices import bind, free_devices, rebind, shared_devices
from weft.local.reconcile.next_step import next_step
from weft.local.reconcile.plans import recorded, same
from weft.local.reconcile.step import (
    NOTHING,
    Action,
    Kill,
    Launch,
    Look,
    Note,
    OrderCompany,
    OrderDrain,
    OrderResize,
    Record,
    RecordEnd,
    RecordRunning,
    RecordSeats,
    RecordStopping,
    RecordTarget,
    RecordWaiting,
    Settle,
    Step,
    Sweep,
    Void,
)
from weft.local.record.book import Book
from weft.local.record.entry import NO_PAST, End, Entry, Happening
from weft.model.decision import Assignment
from weft.model.errors import WorldError
from weft.model.ids import JobId
from weft.model.placement import Seat
from weft.model.state import State
from weft.reconcile.delays import Delays
from weft.spec.job_file import JobSpec
from weft.spec.reading import validated

log = logging.getLogger(__name__)

STEPS_IN_A_ROW: Final = 30
LEAST_BACKOFF_SECONDS: Final = 0.2
MOST_BACKOFF_SECONDS: Final = 10.0
SCARCE: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})


class Context(Protocol):
    """What the executor needs to know of everything else."""

    def look(self, entry: Entry, note: Note) -> Look: ...
    def deliver(self, step: Step) -> None: ...
    def past(self, entry: Entry) -> Past | None: ...
    async def unfit_for_gangs(self) -> str: ...
    def saving_advice(self, entry: Entry) -> Advice: ...
    def now(self) -> float: ...
    def slots(self) -> Sequence[int]: ...
    def company(self, entry: Entry) -> tuple[JobId, ...]: ...
    def broke(self, error: Exception) -> None: ...
    def happened(self, entry: Entry, happening: Happening) -> None: ...


class Executor:
    """Looks after all jobs that somebody touched."""

    def __init__(self, context: Context, book: Book, agents: Agents, machine: Machine) -> None:
        self._context = context
        self._book = book
        self._agents = agents
        self._machine = machine
        self._notes: dict[str, Note] = {}
        self._working: dict[str, asyncio.Task[None]] = {}
        self._again: set[str] = set()
        self._later = Delays(self.touch)
        self._backoff: dict[str, float] = {}
        self._binding = asyncio.Lock()
        """Held from looking for free devices until they are on record: many jobs start at once."""
        self._closed = False

    def touch(self, uid: str) -> None:
        """Something about this job may have changed."""
        if self._closed:
            return
        if uid in self._working:
            self._again.add(uid)
            return
        task = asyncio.get_running_loop().create_task(self._attend(uid))
        self._working[uid] = task

    def touch_at(self, uid: str, delay_seconds: float) -> None:
        """Look again then, unless something happens before."""
        self._later.set(uid, delay_seconds)

    def is_busy(self, uid: str) -> bool:
        return uid in self._working

    async def close(self) -> None:
        """Actions end where they are: what they have begun is found again by whoever comes next."""
        self._closed = True
        self._later.clear()
        working = list(self._working.values())
        for task in working:
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)

    async def _attend(self, uid: str) -> None:
        try:
            await self._work(uid)
            self._backoff.pop(uid, None)
        except WorldError as error:
            wait = min(2 * self._backoff.get(uid, LEAST_BACKOFF_SECONDS / 2), MOST_BACKOFF_SECONDS)
            self._backoff[uid] = wait
            log.warning("%s; tried again in %.1f s", error, wait)
            self.touch_at(uid, wait)
        except Exception as error:
            self._context.broke(error)
        finally:
            del self._working[uid]
            if uid in self._again:
                self._again.discard(uid)
                self.touch(uid)

    async def _work(self, uid: str) -> None:
        """Step by step until nothing is left to do."""
        for _ in range(STEPS_IN_A_ROW):
            entry = self._book.get(uid)
            if entry is None:
                return
            look = self._context.look(entry, self._notes.get(uid, NOTHING))
            step = next_step(look)
            if step.look_at is not None:
                self.touch_at(uid, step.look_at - look.now)
            if step.events:
                self._context.deliver(step)
                self._close_if_over(entry)
                continue
            if step.action is None:
                return
            await self._perform(entry, step.action)
            if step.look_at is not None:
                return
        self.touch_at(uid, LEAST_BACKOFF_SECONDS)

    def _close_if_over(self, entry: Entry) -> None:
        """The brain has forgotten a job that is over, and so do we."""
        if not entry.state.final:
            return
        self._agents.forget(entry.uid)
        self._notes.pop(entry.uid, None)
        self._book.forget(entry.uid)

    # --- actions ----------------------------------------------------------------------------------

    async def _perform(self, entry: Entry, action: Action) -> None:
        """What fails for want of handles, memory or processes is tried again, and ends no term."""
        try:
            await _ACTIONS[type(action)](self, entry, action)
        except OSError as error:
            if error.errno not in SCARCE:
                raise
            raise WorldError(
                f"{entry.id}: {error}", hint="the machine is short of it; see ulimit -n and -u"
            ) from error

    async def _record(self, entry: Entry, action: Record) -> None:
        if action.assignment.width > 1 and (why := await self._context.unfit_for_gangs()):
            self._note(entry, refusal=(action.epoch, why))
            return
        async with self._binding:
            await self._bind(entry, action)

    async def _bind(self, entry: Entry, action: Record) -> None:
        """On the slots of those whom it joins; the first of a party on free ones, as one alone."""
        company = self._context.company(entry)
        free = shared_devices(self._book, company) or free_devices(
            self._context.slots(), self._book
        )
        try:
            seats = bind(action.assignment.placement.numbered().seats, free)
        except WorldError as error:
            self._note(entry, refusal=(action.epoch, str(error)))
            return
        plan = self._plan(entry, action.assignment)
        first = {} if entry.started_at is not None else {"started_at": self._context.now()}
        crash.passing("before-record")
        await self._change(
            entry,
            self._happening("Starting", _under(seats, plan), action.epoch, seats),
            **first,
            state=State.STARTING,
            epoch=action.epoch,
            serial=0,
            seats=seats,
            target=(),
            target_serial=0,
            plan=plan,
            target_plan="",
            offers=(),
            top_seat=max((seat.number for seat in seats), default=0),
            party=action.assignment.party,
            agent=None,
            end=None,
            reasons=(),
            message="",
            stopping_since=None,
        )
        crash.passing("recorded")

    async def _launch(self, entry: Entry, action: Launch) -> None:
        birth = self._agents.start(entry, self._context.saving_advice(entry))
        crash.passing("launched")
        if birth is not None:
            await self._book.change(entry.uid, agent=birth)
            crash.passing("birth-recorded")

    async def _record_running(self, entry: Entry, action: RecordRunning) -> None:
        happening = self._happening("Running", "", entry.epoch, entry.seats)
        await self._change(entry, happening, state=State.RUNNING)
        crash.passing("running")

    async def _record_target(self, entry: Entry, action: RecordTarget) -> None:
        async with self._binding:
            await self._bind_target(entry, action)

    async def _bind_target(self, entry: Entry, action: RecordTarget) -> None:
        free = free_devices(self._context.slots(), self._book)
        wanted, held = action.target.seats, entry.held
        crash.passing("before-target")
        try:
            target = rebind(wanted, held, free)
        except WorldError as error:
            log.warning("%s cannot be resized: %s", entry.id, error)
            target = held
        both = {seat.number: seat for seat in (*held, *target)}
        await self._change(
            entry,
            self._happening(
                "Resizing", _under(target, action.plan), entry.epoch, tuple(both.values())
            ),
            seats=held,
            target=target,
            target_plan=action.plan,
            target_serial=action.serial,
            top_seat=max(entry.top_seat, *(seat.number for seat in target)),
        )
        crash.passing("target-recorded")

    async def _order_resize(self, entry: Entry, action: OrderResize) -> None:
        self._agents.bound(entry)
        devices = tuple(sorted(device for seat in entry.target for device in seat.devices))
        order = Resize(
            sum(seat.gpus for seat in entry.target),
            devices if self._machine.has_gpus else (),
            self._machine.cpus_of(devices),
            plan="" if same(entry.target_plan, entry.plan) else entry.target_plan or "replicated",
        )
        answer = await self._agents.ask(entry, order)
        if answer is not None:
            number = entry.epoch, entry.target_serial
            self._note(entry, **{"ordered" if answer.ok else "declined": number})
        crash.passing("resize-ordered")

    async def _order_company(self, entry: Entry, action: OrderCompany) -> None:
        await self._agents.order(entry, self._agents.company(entry, action.party))

    async def _record_seats(self, entry: Entry, action: RecordSeats) -> None:
        crash.passing("before-seats")
        await self._change(
            entry,
            self._happening(
                "Resized", _under(action.seats, action.plan), entry.epoch, action.seats
            ),
            seats=action.seats,
            target=(),
            plan=action.plan,
            target_plan="",
            serial=action.serial,
            target_serial=max(action.serial, entry.target_serial),
        )
        self._agents.bound(replace(entry, seats=action.seats, target=()))
        crash.passing("seats-recorded")

    async def _record_stopping(self, entry: Entry, action: RecordStopping) -> None:
        crash.passing("before-stop")
        await self._change(
            entry,
            self._happening("Stopping", action.why, entry.epoch, entry.held),
            state=State.STOPPING,
            stopping_since=self._context.now(),
            message=action.why,
        )
        crash.passing("stop-recorded")

    async def _order_drain(self, entry: Entry, action: OrderDrain) -> None:
        if await self._agents.order(entry, Drain(action.grace_seconds)) is not None:
            self._note(entry, drained=entry.epoch)
        crash.passing("drain-ordered")

    async def _void(self, entry: Entry, action: Void) -> None:
        await self._agents.void(entry)

    async def _kill(self, entry: Entry, action: Kill) -> None:
        await self._agents.kill(entry)

    async def _sweep(self, entry: Entry, action: Sweep) -> None:
        await self._agents.sweep(entry)
        crash.passing("swept")

    async def _record_end(self, entry: Entry, action: RecordEnd) -> None:
        crash.passing("before-end")
        end = action.end
        await self._change(
            entry,
            replace(
                self._happening("Ended", _how(end), entry.epoch, ()),
                warning=bool(end.exit_code) and end.outcome != "drained",
                failure=None if end.diagnosis is None else end.to_json(),
            ),
            end=end,
            progress=action.progress,
            work_saved=end.kept,
            exit_code=end.exit_code,
        )
        crash.passing("end-recorded")

    async def _record_waiting(self, entry: Entry, action: RecordWaiting) -> None:
        await self._change(
            entry,
            self._happening("Queued", _why(entry.end), entry.epoch, ()),
            state=State.QUEUED,
            seats=(),
            target=(),
            party="",
            agent=None,
            end=None,
            waiting_since=self._context.now(),
            stopping_since=None,
        )

    async def _settle(self, entry: Entry, action: Settle) -> None:
        crash.passing("before-final")
        happening = self._happening(action.state.name.capitalize(), action.message, entry.epoch, ())
        await self._change(
            entry,
            replace(happening, warning=action.state is State.FAILED),
            state=action.state,
            seats=(),
            target=(),
            party="",
            agent=None,
            reasons=(),
            message=action.message,
            ended_at=self._context.now(),
        )
        crash.passing("final")

    # --- helpers --------------------------------------------------------------------------------

    async def _change(self, entry: Entry, *happenings: Happening, **changes: Any) -> None:
        """With what a later brain could not know by itself."""
        changes["past"] = self._context.past(entry) or entry.past or NO_PAST
        told = [replace(one, at=self._context.now()) for one in happenings]
        changed = await self._book.change(entry.uid, *told, **changes)
        for one in told:
            self._context.happened(changed, one)

    def _happening(self, what: str, message: str, epoch: int, seats: tuple[Seat, ...]) -> Happening:
        gpus = sum(seat.gpus for seat in seats)
        return Happening(0.0, what, message, epoch, gpus)

    def _plan(self, entry: Entry, assignment: Assignment) -> str:
        spec = validated(JobSpec, entry.spec)
        return recorded(assignment.plan, assignment.width, spec)

    def _note(self, entry: Entry, **changes: Any) -> None:
        self._notes[entry.uid] = replace(self._notes.get(entry.uid, NOTHING), **changes)


def _how(end: End) -> str:
    """What was at fault, where that was found out; else what the agent made of it."""
    return f"{end.outcome if end.diagnosis is None else end.diagnosis.kind}: {_why(end)}"


def _why(end: End | None) -> str:
    return "" if end is None else str(end.diagnosis or end.why)


def _under(seats: tuple[Seat, ...], plan: str) -> str:
    """Where it runs, and how, if it was told how."""
    return f"{_on(seats)}, {plan}" if plan else _on(seats)


def _on(seats: tuple[Seat, ...]) -> str:
    devices = [device for seat in seats for device in seat.devices]
    gpus = sum(seat.gpus for seat in seats)
    return f"on {gpus} slots: {', '.join(map(str, devices))}" if devices else "without slots"


_ACTIONS: Final[dict[type, Callable[[Executor, Entry, Any], Awaitable[None]]]] = {
    Record: Executor._record,
    Launch: Executor._launch,
    RecordRunning: Executor._record_running,
    RecordTarget: Executor._record_target,
    OrderResize: Executor._order_resize,
    OrderCompany: Executor._order_company,
    RecordSeats: Executor._record_seats,
    RecordStopping: Executor._record_stopping,
    OrderDrain: Executor._order_drain,
    Void: Executor._void,
    Kill: Executor._kill,
    Sweep: Executor._sweep,
    RecordEnd: Executor._record_end,
    RecordWaiting: Executor._record_waiting,
    Settle: Executor._settle,
}
