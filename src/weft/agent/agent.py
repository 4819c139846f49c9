"""The agent: carries out what the coordinator decides, with real processes.

It outlives its workers and owns what must: the control store, the key of the job, the snapshots in
shared memory, and the writer that puts them on disk, also after the trainer has died. It is the
only part that reads the clock; everything it learns goes to the coordinator as an event. This is
the agent of one machine; `weft.agent.pods.head` is that of a job over several pods.
"""

import asyncio
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from weft.agent.checkpoint.home import Home, home_of
from weft.agent.checkpoint.seat_writers import HERE
from weft.agent.checkpoint.vault import Run
from weft.agent.checkpoint.writer import CheckpointWriter
from weft.agent.coordination.actions import (
    Action,
    Conclude,
    Note,
    Send,
    Signal,
    Spawn,
    TakeStacks,
)
from weft.agent.coordination.coordinator import Coordinator
from weft.agent.coordination.epochs import Phase
from weft.agent.coordination.worker import WorkerState
from weft.agent.evidence import WELL, Witness
from weft.agent.leases.keeper import LeaseKeeper
from weft.agent.messages import (
    Abandon,
    Accompany,
    Answer,
    Committed,
    Drain,
    Halt,
    Hello,
    Kill,
    Leaving,
    Message,
    Pulse,
    Resize,
    Save,
    Saved,
    Staged,
    Status,
    Welcome,
)
from weft.agent.outcome import Ending, Outcome
from weft.agent.plan import parse_plan
from weft.agent.refusal import why_not
from weft.agent.reports import status
from weft.agent.reports.progress_reports import ProgressReports
from weft.agent.run_folder import RunFolder
from weft.agent.settings import Settings
from weft.agent.wire.control_store import ControlStore, epoch_prefix
from weft.agent.wire.server import Server
from weft.agent.workers import cpus, tracking
from weft.agent.workers.crew import Crew
from weft.agent.workers.output import Outlets
from weft.agent.workers.places import HEAD_SEAT, Places, Seat
from weft.agent.workers.processes import (
    Launch,
    Processes,
    adopt_orphans,
    end_orphans,
    free_port,
    reap_orphans,
)
from weft.agent.workers.program import digest_of_scripts, version_of
from weft.model.errors import WeftError

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.1
REAP_SECONDS: Final = 1.0
LAST_WORDS_SECONDS: Final = 1.0
OLDEST_EPOCHS_KEPT: Final = 3

Told = Callable[[str, Mapping[str, Any]], None]


class Agent:
    """One job on this machine, from its start to its end."""

    def __init__(
        self, settings: Settings, tell: Told | None = None, outlets: Outlets | None = None
    ) -> None:
        self.settings = settings
        self.tell = tell or _log_event
        self.once_per_seat = settings.once_per_seat
        width = 1 if self.once_per_seat else settings.width
        self.coordinator = Coordinator(width, plan=settings.plan, limits=settings.limits)
        self.store = ControlStore()
        self.run_folder = self._run_folder()
        self.server = Server(
            settings.job, settings.incarnation, self.run_folder.token, self.store, self
        )
        self.places = Places()
        self.processes = self._processes(outlets)
        self.crew = Crew(
            self.places,
            self.processes,
            self.server.order,
            self._ended,
            self._started,
            home=self.home,
        )
        self.writer = CheckpointWriter(self._checkpoints(), self._about_the_run)
        self.progress = ProgressReports(self.coordinator, self.writer, self.save_every_seconds)
        self.leases = LeaseKeeper(self.places, self.home, self.server.send)
        self.witness = Witness(ranked=not self.once_per_seat)
        self._source: tuple[str, int] | None = None
        self._terminated = False
        self._ends: dict[int, int] = {}
        self._queue: deque[Action] = deque()
        self._over: asyncio.Future[Conclude] | None = None
        self._acting = False

    def save_every_seconds(self) -> float:
        """As its owner says, or as failures and the cost of saving say."""
        return self.settings.cadence.seconds(len(self.coordinator.members), self.writer.cost)

    @property
    def home(self) -> int:
        """The seat that this agent is on."""
        return HEAD_SEAT

    def _run_folder(self) -> RunFolder:
        return RunFolder(self.settings.folder)

    def _processes(self, outlets: Outlets | None) -> Processes:
        return Processes(self._launch(), self._process_ended, self._local_started, outlets)

    def _checkpoints(self) -> Home | None:
        told = self.settings
        if told.checkpoints is None:
            return None
        return home_of(told.checkpoints, told.job, told.incarnation, self.run_folder.fetched)

    @property
    def folder(self) -> Path:
        return self.run_folder.path

    @property
    def started(self) -> bool:
        """Whether there is where to begin from and where to run."""
        return self.coordinator.started

    async def run(self) -> Conclude:
        """Until the job is over; then nothing of it is left but logs and checkpoints."""
        self._over = asyncio.get_running_loop().create_future()
        conclusion = Conclude(Outcome.INFRASTRUCTURE, os.EX_TEMPFAIL, "the agent has failed")
        try:
            self._listen_to_signals()
            self._move_in()
            await self._open()
            await self._tick_until(self._over)
            conclusion = self._over.result()
            return conclusion
        except (OSError, WeftError) as error:
            conclusion = replace(conclusion, why=f"{conclusion.why}: {error}")
            raise
        finally:
            await self._clear_up(conclusion)

    def _move_in(self) -> None:
        self.run_folder.open(self.settings.job, self.settings.incarnation)
        adopt_orphans()

    async def _open(self) -> None:
        """Everything is there that workers look for."""
        await self.server.open(self.run_folder.socket)
        self._furnish()
        self.leases.open(self.settings.company, self.settings.meeting)
        self.progress.reporter.start()
        self._source = await asyncio.to_thread(self.writer.resume)

    def _furnish(self) -> None:
        """The places of this machine, as the settings say."""
        self.crew.open(self._home(self.settings.devices))
        if self.once_per_seat:
            self.crew.devices = self.settings.devices
        if self.settings.cpus:
            self.processes.share_cpus(cpus.usable(self.settings.cpus))

    def _home(self, devices: tuple[int, ...]) -> Seat:
        if self.once_per_seat:
            return Seat(HEAD_SEAT, self.settings.width, (0,))
        if devices:
            return Seat(HEAD_SEAT, len(devices), tuple(sorted(devices)), by_device=True)
        return Seat(HEAD_SEAT)

    # ------------------------------------------------------------------------ what is heard

    def worker_said(self, worker: int, message: Message) -> None:
        """From the server: a worker's message."""
        match message:
            case Hello():
                self._welcome(worker)
            case Pulse():
                self.progress.pulse(worker, message)
            case Staged(report):
                self.tell("stages", {"worker": worker, **report})
                self.progress.staged(worker, report, in_company=self.leases.shared)
            case Saved() if not self.coordinator.plans.distrusts(worker):
                self.writer.saved(message, self._seat_of(worker))
                self._look_at_what_is_saved()
                self._sweep()
                self.tell("saved", {"worker": worker, **asdict(message)})
            case Committed() | Leaving():
                self.tell(type(message).__name__.lower(), {"worker": worker, **asdict(message)})
        before = self.coordinator.phase
        self._carry_out(self.coordinator.heard(worker, message, time.monotonic()))
        self._tell_phase(before)

    def _seat_of(self, worker: int) -> int:
        """In whose memory it saves."""
        return HERE

    def _welcome(self, number: int) -> None:
        """One that counts as ended is not let in, though it lives: its seat was out of reach."""
        mind = self.coordinator
        worker = mind.workers.get(number)
        if worker is None or worker.state is WorkerState.EXITED:
            self.server.cut(number)
            return
        warm = mind.phase is not Phase.GATHERING
        hang_seconds = self.settings.limits.hang_seconds
        loop = self.progress.loop if warm else 0
        self.server.send(number, Welcome(warm, mind.width, hang_seconds, loop))
        self.leases.introduce(number)

    def worker_silent(self, worker: int) -> None:
        """Its connection has closed; whether it has ended is for the kernel to say."""
        self._bury(worker)

    def follower_said(self, seat: int, message: Message) -> None:
        """On one machine there are none."""
        self.server.dismiss(seat)

    def follower_silent(self, seat: int) -> None:
        """On one machine there are none."""

    def driver_asked(self, message: Message) -> Answer:
        """From the server: an order by hand, or by the world that this agent works for."""
        now = time.monotonic()
        match message:
            case Resize():
                return self._resize(message, now)
            case Drain(grace_seconds):
                self._terminated = True
                self._carry_out(self.coordinator.drain(grace_seconds, now))
            case Save():
                self._carry_out(self.coordinator.save(now))
            case Accompany():
                if why := self.leases.accompany(message):
                    return Answer.refused(why)
            case Kill(worker, number) if worker in self.crew.running:
                self.crew.signal(worker, number)
            case Status():
                pass
            case _:
                return Answer.refused(f"cannot do {message}")
        return Answer(ok=True, body=self.status())

    def _resize(self, order: Resize, now: float) -> Answer:
        order = replace(order, width=order.width or self.coordinator.width)
        why = why_not(self, order)
        if why:
            return Answer.refused(why)
        if order.cpus:
            self.processes.share_cpus(order.cpus)
        if order.devices:
            self.crew.open(self._home(order.devices))
        self.tell("ordered", {"width": order.width, **({"plan": order.plan} if order.plan else {})})
        plan = parse_plan(order.plan) if order.plan else None
        unwanted, beside = self.places.unwanted, order.beside
        mind = self.coordinator
        self._carry_out(mind.resize(order.width, now, unwanted, plan, beside=beside))
        return Answer(ok=True, body=self.status())

    def status(self) -> dict[str, Any]:
        """How the job stands, as JSON."""
        return status.of(self)

    def _about_the_run(self) -> Run:
        """What a checkpoint says about the program that made it."""
        settings = self.settings
        return Run(
            world=max(len(self.coordinator.members), 1),
            plan=self.coordinator.plans.plan.told(),
            code=digest_of_scripts(settings.command),
            torch=version_of("torch"),
        )

    def _started(self, worker: int, pid: int) -> None:
        self.tell("spawned", {"worker": worker, "pid": pid})

    def _local_started(self, worker: int, pid: int) -> None:
        self.crew.has_started(worker, pid)

    def _process_ended(self, worker: int, code: int) -> None:
        """What a worker said last, such as where its snapshot lies, is heard before its end."""
        self._ends[worker] = code
        if self.server.hears(worker):
            asyncio.get_running_loop().call_later(LAST_WORDS_SECONDS, self._bury, worker)
        else:
            self._bury(worker)

    def _bury(self, worker: int) -> None:
        if worker in self._ends:
            self.crew.has_ended(worker, self._ends.pop(worker))

    def _ended(self, worker: int, code: int) -> None:
        before = self.coordinator.phase
        self.tell("exited", {"worker": worker, "code": code})
        self._sweep()
        self._look_at_what_is_saved()
        self._carry_out(self.coordinator.exited(worker, code, time.monotonic()))
        self._tell_phase(before)

    def _sweep(self) -> None:
        self.writer.sweep(self.run_folder.slots, self.crew.running)

    def _look_at_what_is_saved(self) -> None:
        self.coordinator.source, self.coordinator.saved_step = self.writer.newest()

    # ---------------------------------------------------------------------------------- time

    async def _tick_until(self, over: asyncio.Future[Conclude]) -> None:
        """A clock that has stopped is an end too: without it nobody would notice anything."""
        ticking = asyncio.create_task(self._tick())
        try:
            await asyncio.wait((ticking, over), return_when=asyncio.FIRST_COMPLETED)
            if ticking.done():
                ticking.result()
        finally:
            ticking.cancel()

    async def _tick(self) -> None:
        saved_seconds = reaped_seconds = time.monotonic()
        while True:
            now = time.monotonic()
            self._pass_time(now)
            every = self.save_every_seconds()
            if every and now - saved_seconds >= every:
                saved_seconds = now
                self._carry_out(self.coordinator.save(now))
            if now - reaped_seconds >= REAP_SECONDS:
                reaped_seconds = now
                reap_orphans((*self.processes.pids, *self.leases.pids))
            await asyncio.sleep(TICK_SECONDS)

    def _pass_time(self, now: float) -> None:
        if not self.started:
            self._start_when_ready(now)
            return
        self._look_at_what_is_saved()
        self._carry_out(self.coordinator.tick(now))

    def _start_when_ready(self, now: float) -> None:
        if not self.coordinator.draining and self._may_start(now) and self._source is not None:
            source, step = self._source
            begun = self.coordinator.start(now, width=self._width(), source=source, saved_step=step)
            self._carry_out(begun)

    def _may_start(self, now: float) -> bool:
        return True

    def _width(self) -> int:
        """How wide the job is to begin."""
        return self.coordinator.width

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate, number)
        # It goes on when its terminal closes; workers do not inherit this, as they would SIG_IGN.
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)

    def _hung_up(self) -> None:
        if self.settings.attended:
            self._terminate(signal.SIGHUP)

    def _terminate(self, number: signal.Signals = signal.SIGTERM) -> None:
        """The first signal drains, if nothing else has; the second does not wait."""
        again, self._terminated = self._terminated, True
        if self.coordinator.draining and not again:
            return
        self._drain(self.settings.grace_seconds, number)

    def _drain(self, grace_seconds: float, number: signal.Signals = signal.SIGTERM) -> None:
        self.tell("draining", {"grace_seconds": grace_seconds, "signal": number})
        drained = self.coordinator.drain(grace_seconds, time.monotonic(), number=number)
        self._carry_out(drained)

    # -------------------------------------------------------------------------- what is done

    def _carry_out(self, actions: list[Action]) -> None:
        """One after the other, also when an action brings about the next event."""
        self._queue.extend(actions)
        if self._acting:
            return
        self._acting = True
        try:
            while self._queue:
                self._act(self._queue.popleft())
        finally:
            self._acting = False

    def _act(self, action: Action) -> None:
        match action:
            case Spawn(worker, rank, width, plan):
                self.crew.start(worker, rank, width, plan)
            case Send(worker, message):
                if isinstance(message, Abandon | Halt):
                    self.store.give_up(epoch_prefix(message.epoch))
                self.server.send(worker, message)
            case Signal(worker, number):
                self.crew.signal(worker, number)
            case TakeStacks(worker):
                self.crew.take_stacks(worker)
            case Note(event, facts):
                self.witness.heard(event, facts)
                self.tell(event, facts)
            case Conclude():
                if self._over is not None and not self._over.done():
                    self._over.set_result(action)

    def _tell_phase(self, before: Phase) -> None:
        mind = self.coordinator
        if mind.phase is before:
            return
        if mind.phase is Phase.STEADY:
            self.store.give_up(epoch_prefix(mind.epoch - OLDEST_EPOCHS_KEPT))
            self.tell("steady", {"epoch": mind.epoch, "width": len(mind.members)})
            self.progress.tell_soon()
        elif mind.phase is not Phase.HALTED:  # of which the coordinator tells, with its reason
            self.tell(mind.phase.value, {"epoch": mind.latest_epoch})

    async def _clear_up(self, conclusion: Conclude) -> None:
        self.processes.close()
        self.leases.close()
        await self.server.close()
        failed = conclusion.outcome is Outcome.USER_ERROR
        await asyncio.to_thread(partial(self.writer.close, failed=failed))
        await asyncio.to_thread(self.progress.reporter.close)
        end_orphans()
        if conclusion.outcome not in WELL:
            self.witness.keep(self.run_folder.path, self.coordinator.workers, conclusion.worker)
        self.run_folder.close(self._ending(conclusion))

    def _ending(self, conclusion: Conclude) -> Ending:
        return Ending(
            conclusion.outcome,
            exit_code_of(conclusion),
            conclusion.why,
            step=status.newest_step(self.coordinator),
            saved_step=self.writer.durable_step,
            ended_at=time.time(),
        )

    def _launch(self) -> Launch:
        return Launch(
            command=self.settings.command,
            job=self.settings.job,
            incarnation=self.settings.incarnation,
            socket=str(self.run_folder.socket),
            key_file=self.run_folder.key,
            slots=self.run_folder.slots,
            logs=self.run_folder.logs,
            master_port=free_port(),
            gpus=self.settings.width if self.once_per_seat else None,
            shard=self.settings.shard,
            threads=self.settings.threads,
            uuids=self.settings.uuids,
            run=tracking.run_id(self.settings.checkpoints),
        )


def exit_code_of(conclusion: Conclude) -> int:
    """What the agent's own process ends with."""
    if conclusion.outcome is Outcome.USER_ERROR:
        return conclusion.exit_code & 0xFF or 1
    return conclusion.exit_code


def _log_event(what: str, facts: Mapping[str, Any]) -> None:
    log.info("%s %s", what, dict(facts))
