"""One connection to the lease server, as whoever trains uses it: bounded, and never an error.

A round trip to the server takes longer than many a stage may be held up. So a worker that is alone
in its job keeps its lease between stages until somebody else wants it: as long as nobody does, its
borders cost no message. A thread listens, and gives back what rests when it is wanted.

A server that is gone is noticed at once, one that is stopped by its silence. Either way the stage
begins, and another server is looked for at a later border.
"""

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Final

from weft.agent.leases.company import SOCKET
from weft.agent.leases.server import MOST_BYTES
from weft.agent.messages import (
    Envelope,
    GivenBack,
    Granted,
    Hello,
    Message,
    Names,
    Turn,
    Wanted,
    decode,
    encode,
)
from weft.model.errors import ProtocolError
from weft.train.membership.contact import Contact

SILENCE_SECONDS: Final = 0.5
REST_SECONDS: Final = 0.25  # before a server is looked for again
LONGEST_REST_SECONDS: Final = 30.0


class LeaseLine:
    """Of one part of a worker, which asks from one thread at a time."""

    def __init__(self, contact: Contact, part: str) -> None:
        self._contact, self._part = contact, part
        self._gang = f"{contact.job}/{contact.slots.name}"  # two jobs may have one name
        self._connection: Connection | None = None
        self._folder = ""
        self._rest_seconds = REST_SECONDS
        self._again_at = 0.0

    def ask(self, folder: str, turn: Turn, given_up: Callable[[], bool]) -> Granted | None:
        """The server's word; None if there is nobody to wait for."""
        try:
            line = self._connected(folder)
            if line is not None:
                return line.take_up(turn) or self._answer(line, turn, given_up)
        except TimeoutError:
            self._lose(stopped=True)
        except (OSError, ProtocolError, ValueError):
            self._lose()
        return None

    def give_back(self, kinds: Names, *, keep: bool = False) -> None:
        """What was never granted need not be given back; what may be kept waits to be wanted."""
        if self._connection is None:
            return
        try:
            self._connection.give_back(kinds, keep=keep)
        except OSError:
            self._lose()

    def close(self) -> None:
        """Whatever is held is free by that."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _answer(
        self, line: "Connection", turn: Turn, given_up: Callable[[], bool]
    ) -> Granted | None:
        deadline = time.monotonic() + turn.bound_seconds + SILENCE_SECONDS
        line.ask(turn)
        while (answer := line.heard()) is not None:
            if isinstance(answer, Granted):
                self._rest_seconds = REST_SECONDS
                return line.granted(turn, answer)
            if given_up():
                self.close()
                return None
            if time.monotonic() > deadline:
                raise ProtocolError("the lease server keeps nobody's bound")
        raise OSError("the lease server has gone")

    def _connected(self, folder: str) -> "Connection | None":
        if folder != self._folder:
            self.close()
            self._folder, self._again_at = folder, 0.0
        if self._connection is None and time.monotonic() >= self._again_at:
            self._connection = Connection(Path(folder) / SOCKET, self._gang, self._contact)
            self._connection.greet(self._part, self._contact.worker)
        return self._connection

    def _lose(self, *, stopped: bool = False) -> None:
        """One that is gone costs nothing to look for; one that is stopped is left for longer."""
        self.close()
        self._again_at = time.monotonic() + self._rest_seconds
        if stopped:
            self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)


class Connection:
    """What is held over one connection, and what the server says."""

    def __init__(self, path: Path, gang: str, contact: Contact) -> None:
        self._gang, self._incarnation, self._said = gang, contact.incarnation, 0
        self._heard: SimpleQueue[Message | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._held: Names = ()
        self._turn: Turn | None = None  # the one that was granted last
        self._granted: Granted | None = None
        self._rests = self._wanted = self._gone = False
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.settimeout(SILENCE_SECONDS)
            self._socket.connect(str(path))
        except OSError:
            self._socket.close()
            raise
        self._socket.settimeout(None)
        threading.Thread(target=self._listen, name="weft-lease", daemon=True).start()

    def greet(self, part: str, worker: int) -> None:
        self._say(Hello(part, worker, os.getpid(), ""))

    def take_up(self, turn: Turn) -> Granted | None:
        """The lease of an earlier turn, if it is the same and nobody has wanted it since."""
        with self._lock:
            before = self._turn
            if not self._rests or before is None or before.epoch != turn.epoch:
                return None
            if (before.gpus, before.kinds) != (turn.gpus, turn.kinds):
                return None
            self._rests = False
            return self._granted and replace(self._granted, breach=False)

    def ask(self, turn: Turn) -> None:
        with self._lock:
            self._rests = self._wanted = False
            self._held = ()
            with suppress(Empty):
                while self._heard.get_nowait() is not None:
                    pass
            self._say(turn)

    def heard(self) -> Message | None:
        """The next word; None when the server has gone."""
        try:
            return self._heard.get(timeout=SILENCE_SECONDS)
        except Empty:
            raise TimeoutError("the lease server is silent") from None

    def granted(self, turn: Turn, answer: Granted) -> Granted:
        with self._lock:
            self._turn, self._granted = turn, answer
            self._held = () if self._gone else turn.kinds
        return answer

    def give_back(self, kinds: Names, *, keep: bool) -> None:
        with self._lock:
            back = tuple(kind for kind in kinds if kind in self._held)
            if back and keep and not self._wanted:
                self._rests = True
            elif back:
                self._held = tuple(kind for kind in self._held if kind not in back)
                self._say(GivenBack(back))

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _listen(self) -> None:
        with suppress(OSError, ProtocolError, ValueError):
            while packet := self._socket.recv(MOST_BYTES):
                message = decode(packet, strict=False).message
                if isinstance(message, Wanted):
                    self._yield()
                else:
                    self._heard.put(message)
        with self._lock:
            self._gone, self._rests, self._held = True, False, ()
        self._heard.put(None)

    def _yield(self) -> None:
        """What rests is given back at once, what is in use at the end of its stage."""
        with self._lock:
            self._wanted = True
            if self._rests:
                self._rests, held, self._held = False, self._held, ()
                self._say(GivenBack(held))

    def _say(self, message: Message) -> None:
        self._said += 1
        packet = encode(Envelope(self._gang, self._incarnation, self._said, message))
        self._socket.send(packet, socket.MSG_DONTWAIT)
