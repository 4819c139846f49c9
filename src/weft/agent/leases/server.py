"""The lease server of a company: one process that serves, on a Unix socket in the company's folder.

Each member's agent brings one. The first has the lock of the folder and serves; the others wait for
the lock, which the kernel lets go of with the process, and then serve in its place. Workers that
lose their server go on without leases and look for the next one at a later border, so nothing here
has to be saved: a server begins with an empty table.

    python -m weft.agent.leases FOLDER

Who may enter the folder may take part; nobody can speak for a gang of another user.
"""

import fcntl
import logging
import os
import selectors
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from weft.agent.leases.company import SOCKET
from weft.agent.leases.gangs import Gangs, Told, Worker, gang_of
from weft.agent.messages import (
    Envelope,
    GivenBack,
    Granted,
    Hello,
    Message,
    Turn,
    Waits,
    decode,
    encode,
)
from weft.agent.messages.turns import PARTS
from weft.model.errors import ProtocolError

log = logging.getLogger(__name__)

LOCK: Final = "leases.lock"
MOST_BYTES: Final = 1 << 16
MOST_CONNECTIONS: Final = 512
MOST_ROUNDS: Final = 64  # of hearing what has come, before the time is looked at
REMIND_SECONDS: Final = 0.1  # between two signs that a wait goes on
CREDENTIALS: Final = struct.Struct("3i")


def serve(folder: Path) -> None:
    """As soon as nobody else does, for as long as this process lives.

    The lock names who serves, and does so only once its door is open.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660)
    fcntl.flock(lock, fcntl.LOCK_EX)
    os.ftruncate(lock, 0)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as door:
        _listen(door, folder / SOCKET)
        os.write(lock, str(os.getpid()).encode())
        door.setblocking(False)
        Server(door).run()


def _listen(door: socket.socket, path: Path) -> None:
    """Under its name once it listens: who finds a socket there is let in."""
    new = path.with_name("new")
    new.unlink(missing_ok=True)
    door.bind(str(new))
    new.chmod(0o660)
    door.listen(MOST_CONNECTIONS)
    new.rename(path)


class Server:
    """Connections, and what the gangs behind them are told."""

    def __init__(self, door: socket.socket) -> None:
        self._door = door
        self._gangs = Gangs()
        self._events = selectors.DefaultSelector()
        self._events.register(door, selectors.EVENT_READ)
        self._lines: dict[Worker, Line] = {}
        self._waiting: dict[Worker, float] = {}  # when each is to hear of it again

    def run(self) -> None:
        """Nobody is late whose word has come while this process was kept from its processor."""
        while True:
            rest, rounds = self._rest(), 0
            while rounds < MOST_ROUNDS and (ready := self._events.select(rest)):
                for key, _ in ready:
                    if key.fileobj is self._door:
                        self._meet()
                    else:
                        self._hear(key.data)
                rest, rounds = 0.0, rounds + 1
            self._pass_time(time.monotonic())

    def _rest(self) -> float | None:
        due = [*self._waiting.values()]
        deadline = self._gangs.next_deadline
        if deadline is not None:
            due.append(deadline)
        return max(min(due) - time.monotonic(), 0.0) if due else None

    def _pass_time(self, now: float) -> None:
        deadline = self._gangs.next_deadline
        if deadline is not None and deadline <= now:
            self._tell(self._gangs.passed(now))
        for worker in [worker for worker, at in self._waiting.items() if at <= now]:
            self._remind(worker, now)

    def _meet(self) -> None:
        with suppress(OSError):
            connection, _ = self._door.accept()
            if len(self._events.get_map()) > MOST_CONNECTIONS:
                connection.close()
                return
            line = Line(connection)
            self._events.register(connection, selectors.EVENT_READ, line)

    def _hear(self, line: "Line") -> None:
        try:
            envelope = line.hear()
            if envelope is None:
                self._part(line)
            else:
                self._heed(line, envelope)
        except (ProtocolError, ValueError, OSError) as error:
            log.warning("a connection was closed: %s", error)
            self._part(line)

    def _heed(self, line: "Line", envelope: Envelope) -> None:
        now, message = time.monotonic(), envelope.message
        match message:
            case Hello() if line.worker is None and message.role in PARTS:
                self._welcome(line, line.named(envelope, message), now)
            case Turn() if line.worker is not None:
                self._ask(line.worker, message, now)
            case GivenBack() if line.worker is not None:
                self._tell(self._gangs.given_back(line.worker, message.kinds, now))
            case _:
                raise ProtocolError(f"{type(message).__name__} has no place here")

    def _welcome(self, line: "Line", worker: Worker, now: float) -> None:
        """One that is here already has begun anew, and its first connection is of no use."""
        if worker in self._lines:
            self._part(self._lines[worker])
        line.worker, self._lines[worker] = worker, line
        self._gangs.came(worker)

    def _ask(self, worker: Worker, turn: Turn, now: float) -> None:
        self._waiting[worker] = now
        self._tell(self._gangs.asked(worker, turn, now))
        if worker in self._waiting:
            self._remind(worker, now)

    def _remind(self, worker: Worker, now: float) -> None:
        self._waiting[worker] = now + REMIND_SECONDS
        self._lines[worker].say(Waits())

    def _tell(self, told: list[Told]) -> None:
        for worker, message in told:
            if isinstance(message, Granted):
                self._waiting.pop(worker, None)
            if worker in self._lines:
                self._lines[worker].say(message)

    def _part(self, line: "Line") -> None:
        with suppress(KeyError, ValueError):
            self._events.unregister(line.connection)
        line.connection.close()
        worker, line.worker = line.worker, None
        if worker is not None:
            self._lines.pop(worker, None)
            self._waiting.pop(worker, None)
            self._tell(self._gangs.left(worker, time.monotonic()))


class Line:
    """One connection; a packet is a message."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        self.connection = connection
        self.worker: Worker | None = None
        self._said = 0
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        self._user = CREDENTIALS.unpack(raw)[1]

    def named(self, envelope: Envelope, hello: Hello) -> Worker:
        gang = gang_of(self._user, envelope.job, envelope.incarnation)
        return Worker(gang, hello.role, hello.worker)

    def hear(self) -> Envelope | None:
        """None when the other side has gone."""
        packet = self.connection.recv(MOST_BYTES)
        return decode(packet, strict=True) if packet else None

    def say(self, message: Message) -> None:
        """One that does not read what it is told will miss it, and go on at its own bound."""
        self._said += 1
        with suppress(OSError):
            self.connection.send(encode(Envelope("", 0, self._said, message)))
