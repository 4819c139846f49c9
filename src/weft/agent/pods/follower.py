"""A follower: starts, signals and watches workers on its seat, and has no mind of its own.

It does what the head says and tells what ends. If the connection breaks, or no sign of life comes
for some seconds, another seat may lead: the operator knows. One that the head has named as an heir
claims to do so itself. Until then its workers train on, for as long as they can. If nobody leads,
or the head that was known still does and has counted this seat as lost, it kills its workers and
ends. SIGTERM asks the head to let the workers of this seat leave; a second one, or four fifths of
the grace, does not wait.
"""

import asyncio
import os
import signal
import time
from contextlib import suppress
from dataclasses import fields, replace
from socket import AF_INET, AF_INET6, create_server
from typing import Any, Final

from weft.agent.agent import Told
from weft.agent.checkpoint.seat_writers import SeatWriter
from weft.agent.coordination.worker import Worker
from weft.agent.evidence import WELL, Witness
from weft.agent.messages import (
    MOST_LINE_BYTES,
    Beat,
    Brought,
    Exited,
    Heirs,
    Hello,
    Keep,
    Kept,
    Kill,
    Lead,
    Led,
    Message,
    Offer,
    Over,
    Start,
    Started,
    Withdraw,
)
from weft.agent.outcome import DRAINED, INFRASTRUCTURE, Outcome
from weft.agent.plan import parse_plan
from weft.agent.pods.discovery import Head, address_of, host_and_port, present, tell
from weft.agent.pods.mandate import BACKLOG, Mandate, Search
from weft.agent.run_folder import RunFolder
from weft.agent.settings import MASTER_PORT, Pod, Settings
from weft.agent.wire.line import Line
from weft.agent.wire.server import FOLLOWER
from weft.agent.workers import tracking
from weft.agent.workers.output import Outlets
from weft.agent.workers.places import Standing
from weft.agent.workers.processes import (
    Launch,
    Processes,
    adopt_orphans,
    end_orphans,
    reap_orphans,
)
from weft.model.errors import ProtocolError, WorldError

CONNECT_SECONDS: Final = 10.0
JOIN_SECONDS: Final = 2.0
AGAIN_SECONDS: Final = 0.5
ASK_SECONDS: Final = 0.2
PART_OF_GRACE: Final = 0.8

End = Over | Mandate


class Follower:
    """One seat of a job, but the one that leads."""

    def __init__(
        self, settings: Settings, pod: Pod, head: Head, tell: Told, outlets: Outlets | None = None
    ) -> None:
        self.settings, self.pod, self.head, self.tell = settings, pod, head, tell
        self.run_folder = RunFolder(settings.folder, head.key)
        self.processes = Processes(self._launch(), self._ended, self._started, outlets)
        self._line: Line | None = None
        self._writer: SeatWriter | None = None
        self._over: asyncio.Future[End] | None = None
        self._heard = 0.0
        self._terminated = False
        self._claiming = False
        self._leading: asyncio.Task[None] | None = None
        self._heirs: Heirs | None = None
        self.witness = Witness(ranked=not settings.once_per_seat)
        self._workers: dict[int, Worker] = {}  # all that were started here
        self._judged = False  # whether the head itself has said that it is over
        self._stand: dict[int, Brought] = {}
        self._unheard: dict[int, int] = {}  # who has ended while nobody led

    async def run(self) -> End:
        """Until no head has use for this seat, or none is left, or this seat is to lead."""
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        loop.add_signal_handler(signal.SIGTERM, self._terminate)
        loop.add_signal_handler(signal.SIGINT, self._terminate)
        end: End | None = None
        try:
            self.run_folder.open(self.settings.job, self.settings.incarnation)
            self._open_writer(loop)
            adopt_orphans()
            await self._connect_unless(self._over)
            while end is None:
                end = await self._serve(self._over) or await self._headless(self._over)
            return end
        finally:
            self._close_line()
            if not isinstance(end, Mandate):
                self._clear_up(end)

    async def _connect_unless(self, over: "asyncio.Future[End]") -> None:
        """Find the way to the head, unless this seat is given back meanwhile."""
        connecting = asyncio.create_task(self._connect())
        ends: list[asyncio.Future[Any]] = [over, connecting]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if connecting.done():
            connecting.result()
        connecting.cancel()

    async def _connect(self) -> None:
        """A new pod's network may take a while to let it through."""
        deadline = time.monotonic() + self.settings.limits.warm_seconds
        while True:
            try:
                await self._join(self.head, CONNECT_SECONDS)
                return
            except OSError as error:
                if time.monotonic() > deadline:
                    raise WorldError(
                        f"no head answers at {self.head.address}: {error}",
                        hint="see whether a network policy keeps the job's pods apart",
                    ) from error
            await asyncio.sleep(AGAIN_SECONDS)

    async def _join(self, head: Head, seconds: float) -> None:
        """Serve that head: bring it what stands here, and let the workers know."""
        host, port = host_and_port(head.address)
        async with asyncio.timeout(seconds):
            reader, writer = await asyncio.open_connection(host, port, limit=MOST_LINE_BYTES)
        settings = self.settings
        line = Line(settings.job, settings.incarnation, reader, writer, strict=False)
        self.head, self._line, self._heard = head, line, time.monotonic()
        self.processes.serve(self._launch(), self._ended, self._started)
        line.say(Hello(FOLLOWER, self.pod.seat, os.getpid(), head.key))
        self._bring(line)
        line.say(Offer(self.pod.gpus, self.pod.host))
        if self._terminated:
            line.say(Withdraw(settings.grace_seconds))
        self.run_folder.write_head(head.term, head.address)
        self.tell("joined", {"head": head.address, "seat": self.pod.seat, "term": head.term})

    def _bring(self, line: Line) -> None:
        """Workers that another head has started, and those who have ended since it was lost."""
        for brought in self._stand.values():
            line.say(brought)
        for worker, code in self._unheard.items():
            line.say(Exited(worker, code))
            del self._stand[worker]
        self._unheard = {}

    async def _serve(self, over: "asyncio.Future[End]") -> End | None:
        """Until it is over, or the head is gone."""
        if over.done():
            return over.result()
        tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._beat())]
        ends: list[asyncio.Future[Any]] = [over, *tasks]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
            return over.result() if over.done() else None
        finally:
            for task in tasks:
                task.cancel()

    # -------------------------------------------------------------------------- without a head

    async def _headless(self, over: "asyncio.Future[End]") -> End | None:
        """Until another head is found, which is served then, or this seat leads."""
        self._close_line()
        if self._heirs is None or not self._heirs.heirs:
            return Over(INFRASTRUCTURE, "the head is gone")
        self.tell("headless", {"term": self.head.term})
        search = Search(self._heirs, self.pod, self.head, self.settings.limits, time.monotonic())
        while not over.done():
            now = time.monotonic()
            destination = self.pod.destination
            found = await asyncio.to_thread(present, destination) if destination else None
            if why := search.ends(found, now):
                return Over(INFRASTRUCTURE, why)
            if found is not None and search.leads(found):
                try:
                    await self._join(found, JOIN_SECONDS)
                    return None
                except OSError:
                    search.is_dead(found)
            elif (term := self._may_claim(search, now)) is not None:
                mandate = await self._claim(term, owed=True)
                if mandate is not None:
                    return mandate
            await asyncio.sleep(ASK_SECONDS)
        return over.result()

    def _may_claim(self, search: Search, now: float) -> int | None:
        return search.may_claim(now, self.processes.running, leaves=self._terminated)

    async def _claim(self, term: int, *, owed: bool) -> Mandate | None:
        """Lead, if the operator says so: from then on nobody else does in that term."""
        assert self.pod.destination is not None
        family = AF_INET6 if ":" in self.pod.host else AF_INET
        listening = create_server((self.pod.host, 0), family=family, backlog=BACKLOG)
        head = Head(address_of(self.pod.host, listening.getsockname()[1]), self.head.key, term)
        self.tell("claiming", {"term": term})
        word = await asyncio.to_thread(tell, self.pod.destination, head)
        if word is None or not word.leads or self._heirs is None:
            listening.close()
            return None
        seats = frozenset(self._heirs.seats) - {self.pod.seat}
        return Mandate(
            head=head,
            listening=listening,
            expected=seats,
            members=self._heirs.members,
            next_worker=self._heirs.next_worker,
            plan=parse_plan(self._heirs.plan) if self._heirs.plan else self.settings.plan,
            turning=self._heirs.turning,
            offers=self._heirs.offers,
            owed=owed,
            brought=self._stand,
            ended=self._unheard,
            run_folder=self.run_folder,
            processes=self.processes,
            word=word,
            terminated=self._terminated,
        )

    async def _lead(self) -> None:
        """The head wants to leave: from here on it gets no sign of life, unless this fails."""
        self._claiming = True
        mandate = await self._claim(self.head.term + 1, owed=False)
        self._claiming = False
        self._say(Led(ok=mandate is not None))
        if mandate is not None:
            self._end(mandate)

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
                self._judged = True
                self._end(message)
            case Heirs():
                self._heirs = message
            case Lead() if not self._claiming:
                self._leading = asyncio.create_task(self._lead())

    def _open_writer(self, loop: asyncio.AbstractEventLoop) -> None:
        """Where all pods share a vault, each writes what its own workers have saved."""
        vault = self.settings.shared_vault

        def tell(kept: Kept) -> None:
            with suppress(RuntimeError):  # the loop is over, and with it this seat
                loop.call_soon_threadsafe(self._say, kept)

        if vault is not None:
            self._writer = SeatWriter(vault, self.run_folder.slots, tell)

    def _start(self, order: Start) -> None:
        self._stand[order.worker] = Brought(order.worker, order.rank, order.index, 0)
        self._workers[order.worker] = Worker(order.worker, rank=order.rank)
        names = [field.name for field in fields(Standing)]
        standing = Standing(**{name: getattr(order, name) for name in names})
        try:
            plan = parse_plan(order.plan) if order.plan else None
            self.processes.start(order.worker, standing, plan=plan)
        except OSError as error:
            self.tell("failed", {"worker": order.worker, "why": str(error)})
            self._stand.pop(order.worker, None)
            self._say(Exited(order.worker, INFRASTRUCTURE))

    def _started(self, worker: int, pid: int) -> None:
        self.tell("spawned", {"worker": worker, "pid": pid})
        if worker in self._stand:
            self._stand[worker] = replace(self._stand[worker], pid=pid)
        self._say(Started(worker, pid))

    def _ended(self, worker: int, code: int) -> None:
        self.tell("exited", {"worker": worker, "code": code})
        if self._line is None:
            self._unheard[worker] = code
            return
        self._stand.pop(worker, None)
        self._say(Exited(worker, code))

    def _terminate(self) -> None:
        """The first time ask to leave; the second time leave."""
        grace = self.settings.grace_seconds
        self.tell("draining", {"grace_seconds": grace})
        again, self._terminated = self._terminated, True
        if again or (self._line is None and self._heirs is None):
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
            if not self._claiming:
                self._say(Beat())
            now = time.monotonic()
            slept = now - looked - limits.beat_seconds
            looked = now
            self._heard += max(slept - limits.beat_seconds, 0.0)  # not the head's fault
            reap_orphans(self.processes.pids)
            if now - self._heard > limits.beatless_seconds:
                return

    # -------------------------------------------------------------------------- what is done

    def _say(self, message: Message) -> None:
        if self._line is not None:
            self._line.say(message)

    def _end(self, over: End) -> None:
        if self._over is not None and not self._over.done():
            self._over.set_result(over)

    def _close_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _clear_up(self, end: Over | None) -> None:
        self.processes.close()
        end_orphans()
        if end is not None and self._judged and Outcome.of(end.exit_code) not in WELL:
            self.witness.keep(self.run_folder.path, self._workers, None)
        self.run_folder.close()

    def _launch(self) -> Launch:
        settings, pod = self.settings, self.pod
        return Launch(
            command=settings.command,
            job=settings.job,
            incarnation=settings.incarnation,
            socket=self.head.address,
            key_file=self.run_folder.key,
            slots=self.run_folder.slots,
            logs=self.run_folder.logs,
            host=pod.host,
            master_host=self.head.host,
            master_port=MASTER_PORT,
            gpus=pod.gpus if settings.once_per_seat else None,
            shard=settings.shard,
            threads=settings.threads,
            run=tracking.kept(settings.checkpoints),
            head_file=self.run_folder.head,
            writer=settings.shared_vault is not None,
        )
