"""The agent: carries out what the coordinator decides, on this machine, with real processes.

It outlives its workers and owns what must: the control store, the key of the job, the snapshots in
shared memory, and the pen that writes them to disk, also after the trainer has died. It is the only
part that reads the clock; everything it learns goes to the coordinator as an event.
"""

import asyncio
import logging
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.agent.actions import Action, Conclude, Send, Signal, Spawn
from weft.agent.checkpoint.vault import Run
from weft.agent.coordinator import Coordinator, Phase
from weft.agent.keeper import Keeper
from weft.agent.limits import Limits
from weft.agent.messages import (
    FRESH,
    Abandon,
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
from weft.agent.outcome import Outcome
from weft.agent.premises import Premises
from weft.agent.processes import (
    Launch,
    Place,
    Processes,
    adopt_orphans,
    end_orphans,
    free_port,
)
from weft.agent.program import digest_of_scripts, version_of
from weft.agent.report import Destination, Reporter, Said
from weft.agent.server import Server
from weft.agent.store import ControlStore, epoch_prefix

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 0.1
OLDEST_EPOCHS_KEPT: Final = 3

Told = Callable[[str, Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Settings:
    """What an agent is told when it is started."""

    command: tuple[str, ...]
    width: int
    job: str = "job"
    incarnation: int = 1
    shard: int = 1
    folder: Path | None = None
    checkpoints: Path | None = None
    save_every_seconds: float = 0.0
    grace_seconds: float = 30.0
    threads: int = 1
    limits: Limits = field(default_factory=Limits)


class Agent:
    """One job on this machine, from its start to its end."""

    def __init__(self, settings: Settings, tell: Told | None = None) -> None:
        self.settings = settings
        self.tell = tell or _log_event
        self.coordinator = Coordinator(settings.width, unit=settings.shard, limits=settings.limits)
        self.store = ControlStore()
        self.premises = Premises(settings.folder)
        self.server = Server(
            settings.job, settings.incarnation, self.premises.token, self.store, self
        )
        self.processes = Processes(self._launch(), self._ended)
        self.keeper = Keeper(
            settings.checkpoints, settings.job, settings.incarnation, self._about_the_run
        )
        self.destination = Destination.from_environment(os.environ)
        self.reporter = Reporter(self.destination)
        self.latest: dict[int, Pulse] = {}
        self.stages: dict[int, Mapping[str, Any]] = {}
        self._queue: deque[Action] = deque()
        self._over: asyncio.Future[Conclude] | None = None
        self._acting = False

    @property
    def folder(self) -> Path:
        return self.premises.folder

    async def run(self) -> Conclude:
        """Until the job is over; then nothing of it is left but logs and checkpoints."""
        over: asyncio.Future[Conclude] = asyncio.get_running_loop().create_future()
        self._over = over
        try:
            self.premises.open(self.settings.job, self.settings.incarnation)
            await self.server.open(self.premises.socket)
            adopt_orphans()
            self.reporter.start()
            self._listen_to_signals()
            source, step = self.keeper.resume()
            now = time.monotonic()
            self._carry_out(self.coordinator.start(now, source=source, saved_step=step))
            await self._tick_until(over)
            return over.result()
        finally:
            await self._clear_up()

    # ------------------------------------------------------------------------ what is heard

    def worker_said(self, worker: int, message: Message) -> None:
        """At the door: a worker's message."""
        match message:
            case Hello():
                warm = self.coordinator.phase is not Phase.GATHERING
                limit = self.settings.limits.hang_seconds
                self.server.send(worker, Welcome(warm, self.coordinator.width, limit))
            case Pulse():
                self.latest[worker] = message
                self._report(worker, message)
            case Staged(report):
                self.stages[worker] = report
                self.tell("stages", {"worker": worker, **report})
            case Saved():
                self.keeper.saved(message)
                self.keeper.sweep(self.premises.slots, self.processes.running)
                self.tell("saved", {"worker": worker, **asdict(message)})
            case Committed() | Leaving():
                self.tell(type(message).__name__.lower(), {"worker": worker, **asdict(message)})
        before = self.coordinator.phase
        self._carry_out(self.coordinator.heard(worker, message, time.monotonic()))
        self._tell_phase(before)

    def _report(self, worker: int, pulse: Pulse) -> None:
        """The first member speaks for the job."""
        if self.coordinator.members[:1] != (worker,):
            return
        stages = self.stages.get(worker, {})
        said = Said(
            step=pulse.step,
            epoch=self.destination.epoch if self.destination else pulse.epoch,
            total_steps=pulse.total,
            checkpoint_step=self.keeper.durable_step + 1,
            samples=pulse.samples,
            samples_per_second=stages.get("samples_per_second"),
            metrics=pulse.metrics,
            stages=stages,
        )
        self.reporter.say(said)

    def worker_silent(self, worker: int) -> None:
        """Its connection has closed; whether it has ended is for the kernel to say."""

    def driver_asked(self, message: Message) -> Answer:
        """At the door: an order by hand, or by the world that this agent works for."""
        now = time.monotonic()
        match message:
            case Resize(width) if width > 0 and width % self.settings.shard == 0:
                self.tell("ordered", {"width": width})
                self._carry_out(self.coordinator.resize(width, now))
            case Drain(grace_seconds):
                self._carry_out(self.coordinator.drain(grace_seconds, now))
            case Save():
                self._carry_out(self.coordinator.save(now))
            case Kill(worker, number) if worker in self.processes.running:
                self.processes.signal(worker, number)
            case Status():
                pass
            case _:
                return Answer(ok=False, body={"why": f"cannot do {message}"})
        return Answer(ok=True, body=self.status())

    def _about_the_run(self) -> Run:
        """What a checkpoint says about the program that made it."""
        settings = self.settings
        return Run(
            world=max(len(self.coordinator.members), 1),
            plan={"shard": settings.shard},
            code=digest_of_scripts(settings.command),
            torch=version_of("torch"),
        )

    def status(self) -> dict[str, Any]:
        """How the job stands, as JSON."""
        mind = self.coordinator
        return {
            "job": self.settings.job,
            "incarnation": self.settings.incarnation,
            "phase": mind.phase.value,
            "epoch": mind.epoch,
            "width": len(mind.members),
            "target": mind.width,
            "members": list(mind.members),
            "step": max((worker.step for worker in mind.workers.values()), default=FRESH),
            "resizes": mind.resizes,
            "restarts": mind.restarts,
            "saved_step": self.keeper.durable_step,
            "workers": {
                str(w.number): {"state": w.state.value, "pid": self.processes.pids.get(w.number)}
                for w in mind.workers.values()
            },
        }

    def _ended(self, worker: int, code: int) -> None:
        before = self.coordinator.phase
        self.tell("exited", {"worker": worker, "code": code})
        self.keeper.sweep(self.premises.slots, self.processes.running)
        self.coordinator.source, self.coordinator.saved_step = self.keeper.newest()
        self._carry_out(self.coordinator.exited(worker, code, time.monotonic()))
        self._tell_phase(before)

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
        saved_seconds = time.monotonic()
        while True:
            await asyncio.sleep(TICK_SECONDS)
            now = time.monotonic()
            self.coordinator.source, self.coordinator.saved_step = self.keeper.newest()
            self._carry_out(self.coordinator.tick(now))
            every = self.settings.save_every_seconds
            if every and now - saved_seconds >= every:
                saved_seconds = now
                self._carry_out(self.coordinator.save(now))

    def _listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate)

    def _terminate(self) -> None:
        self.tell("draining", {"grace_seconds": self.settings.grace_seconds})
        self._carry_out(self.coordinator.drain(self.settings.grace_seconds, time.monotonic()))

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
            case Spawn(worker, rank, width):
                pid = self.processes.start(worker, Place(rank, width))
                self.tell("spawned", {"worker": worker, "pid": pid})
            case Send(worker, message):
                if isinstance(message, Abandon | Halt):
                    self.store.give_up(epoch_prefix(message.epoch))
                self.server.send(worker, message)
            case Signal(worker, number):
                self.processes.signal(worker, number)
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
        else:
            self.tell(mind.phase.value, {"epoch": mind.latest_epoch})

    async def _clear_up(self) -> None:
        for worker in self.processes.running:
            self.processes.signal(worker, signal.SIGKILL)
        await self.server.close()
        await asyncio.to_thread(self.keeper.close)
        await asyncio.to_thread(self.reporter.close)
        end_orphans()
        self.premises.close()

    def _launch(self) -> Launch:
        return Launch(
            command=self.settings.command,
            job=self.settings.job,
            incarnation=self.settings.incarnation,
            socket=self.premises.socket,
            key_file=self.premises.key,
            slots=self.premises.slots,
            logs=self.premises.logs,
            master_port=free_port(),
            shard=self.settings.shard,
            threads=self.settings.threads,
        )


def exit_code_of(conclusion: Conclude) -> int:
    """What the agent's own process ends with."""
    if conclusion.outcome is Outcome.USER_ERROR:
        return conclusion.exit_code & 0xFF or 1
    return conclusion.exit_code


def _log_event(what: str, facts: Mapping[str, Any]) -> None:
    log.info("%s %s", what, dict(facts))
