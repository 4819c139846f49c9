"""An outpost: starts, signals and watches workers on its seat, and has no mind of its own.

It does what the head says and tells what ends. Without its head it has no business: if the
connection breaks, or no sign of life comes for some seconds, it kills its workers and ends, because
the head has counted them as lost and may have put others in their place. SIGTERM asks the head to
let the workers of this seat leave; a second one, or four fifths of the grace, does not wait.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import fields
from typing import Any, Final

from weft.agent import tracking
from weft.agent.agent import Told
from weft.agent.line import Line
from weft.agent.meeting import Head, host_and_port
from weft.agent.messages import (
    MOST_LINE_BYTES,
    Beat,
    Exited,
    Hello,
    Keep,
    Kept,
    Kill,
    Message,
    Offer,
    Over,
    Start,
    Started,
    Withdraw,
)
from weft.agent.outcome import DRAINED, INFRASTRUCTURE
from weft.agent.output import Outlets
from weft.agent.places import Standing
from weft.agent.premises import Premises
from weft.agent.processes import (
    Launch,
    Processes,
    adopt_orphans,
    end_orphans,
    reap_orphans,
)
from weft.agent.program import starts_its_own
from weft.agent.server import OUTPOST
from weft.agent.settings import MASTER_PORT, Pod, Settings
from weft.agent.writers import SeatWriter
from weft.model.errors import ProtocolError, WorldError

CONNECT_SECONDS: Final = 10.0
AGAIN_SECONDS: Final = 0.5
PART_OF_GRACE: Final = 0.8


class Outpost:
    """One seat of a job, but its first."""

    def __init__(
        self, settings: Settings, pod: Pod, head: Head, tell: Told, outlets: Outlets | None = None
    ) -> None:
        self.settings, self.pod, self.head, self.tell = settings, pod, head, tell
        self.premises = Premises(settings.folder, head.key)
        self.processes = Processes(self._launch(), self._ended, self._started, outlets)
        self._line: Line | None = None
        self._writer: SeatWriter | None = None
        self._over: asyncio.Future[Over] | None = None
        self._heard = 0.0
        self._terminated = False

    async def run(self) -> Over:
        """Until the head has no more use for this seat, or is gone."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._terminate)
        try:
            self.premises.open(self.settings.job, self.settings.incarnation)
            self._open_writer(loop)
            adopt_orphans()
            await self._connect_unless(self._over)
            return await self._serve(self._over)
        finally:
            self._clear_up()

    async def _connect_unless(self, over: "asyncio.Future[Over]") -> None:
        """Find the way to the head, unless this seat is given back meanwhile."""
        connecting = asyncio.create_task(self._connect())
        ends: list[asyncio.Future[Any]] = [over, connecting]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if connecting.done():
            connecting.result()
        connecting.cancel()

    async def _connect(self) -> None:
        reader, writer = await self._reach_head()
        settings = self.settings
        line = Line(settings.job, settings.incarnation, reader, writer, strict=False)
        line.say(Hello(OUTPOST, self.pod.seat, os.getpid(), self.head.key))
        line.say(Offer(self.pod.gpus, self.pod.host))
        self._line, self._heard = line, time.monotonic()
        self.tell("joined", {"head": self.head.address, "seat": self.pod.seat})

    async def _reach_head(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A new pod's network may take a while to let it through."""
        host, port = host_and_port(self.head.address)
        deadline = time.monotonic() + self.settings.limits.warm_seconds
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(host, port, limit=MOST_LINE_BYTES)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise WorldError(
                        f"no head answers at {self.head.address}: {error}",
                        hint="see whether a network policy keeps the job's pods apart",
                    ) from error
            await asyncio.sleep(AGAIN_SECONDS)

    async def _serve(self, over: "asyncio.Future[Over]") -> Over:
        if over.done():
            return over.result()
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._beat())]
        ends: list[asyncio.Future[Any]] = [over, *tasks]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return over.result() if over.done() else Over(INFRASTRUCTURE, "the head is gone")
        finally:
            for task in tasks:
                task.cancel()

    # ------------------------------------------------------------------------ what is heard

    async def _listen(self) -> None:
        """Until the connection ends."""
        assert self._line is not None
        try:
            while (message := await self._line.hear()) is not None:
                self._heard = time.monotonic()
                self._obey(message)
        except ProtocolError as error:
            self._end(Over(INFRASTRUCTURE, f"the head cannot be understood: {error}"))

    def _obey(self, message: Message) -> None:
        match message:
            case Start():
                self._start(message)
            case Kill(worker, number):
                self.processes.signal(worker, number)
            case Keep() if self._writer is not None:
                self._writer.order(message)
            case Over():
                self._end(message)

    def _open_writer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Where all pods share a vault, each writes what its own workers have saved."""
        vault = self.settings.shared_vault

        def tell(kept: Kept) -> None:
            with suppress(RuntimeError):  # the loop is over, and with it this seat
                loop.call_soon_threadsafe(self._say, kept)

        if vault is not None:
            self._writer = SeatWriter(vault, self.premises.slots, tell)

    def _start(self, order: Start) -> None:
        names = [field.name for field in fields(Standing)]
        standing = Standing(**{name: getattr(order, name) for name in names})
        try:
            self.processes.start(order.worker, standing)
        except OSError as error:
            self.tell("failed", {"worker": order.worker, "why": str(error)})
            self._say(Exited(order.worker, INFRASTRUCTURE))

    def _started(self, worker: int, pid: int) -> None:
        self.tell("spawned", {"worker": worker, "pid": pid})
        self._say(Started(worker, pid))

    def _ended(self, worker: int, code: int) -> None:
        self.tell("exited", {"worker": worker, "code": code})
        self._say(Exited(worker, code))

    def _terminate(self) -> None:
        """The first time ask to leave; the second time leave."""
        grace = self.settings.grace_seconds
        self.tell("draining", {"grace_seconds": grace})
        again, self._terminated = self._terminated, True
        if again or self._line is None:
            self._end(Over(DRAINED, "ended by a signal"))
            return
        self._say(Withdraw(grace))
        loop = asyncio.get_running_loop()
        late = Over(DRAINED, "the grace is over")
        loop.call_later(PART_OF_GRACE * grace, self._end, late)

    async def _beat(self) -> None:
        """Signs of life to the head, and an eye on those that come from it."""
        limits = self.settings.limits
        looked = time.monotonic()
        while True:
            await asyncio.sleep(limits.beat_seconds)
            self._say(Beat())
            now = time.monotonic()
            slept = now - looked - limits.beat_seconds
            looked = now
            self._heard += max(slept - limits.beat_seconds, 0.0)  # not the head's fault
            if now - self._heard > limits.beatless_seconds:
                self._end(Over(INFRASTRUCTURE, "the head is silent"))
            reap_orphans(self.processes.pids)

    # -------------------------------------------------------------------------- what is done

    def _say(self, message: Message) -> None:
        if self._line is not None:
            self._line.say(message)

    def _end(self, over: Over) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(over)

    def _clear_up(self) -> None:
        self.processes.close()
        end_orphans()
        if self._line is not None:
            self._line.close()
        self.premises.close()

    def _launch(self) -> Launch:
        settings, pod = self.settings, self.pod
        once = starts_its_own(settings.command)
        return Launch(
            command=settings.command,
            job=settings.job,
            incarnation=settings.incarnation,
            socket=self.head.address,
            key_file=self.premises.key,
            slots=self.premises.slots,
            logs=self.premises.logs,
            host=pod.host,
            master_host=self.head.host,
            master_port=MASTER_PORT,
            gpus=pod.gpus if once else None,
            shard=settings.shard,
            threads=settings.threads,
            run=tracking.kept(settings.checkpoints),
            writer=settings.shared_vault is not None,
        )
