"""One connection to the lease server, as whoever trains uses it: bounded, and never an error.

A server that is gone is noticed at once, one that is stopped by its silence. Either way the stage
begins, and another server is looked for at a later border.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from weft.agent.leases.server import MOST_BYTES, SOCKET
from weft.agent.messages import (
    Envelope,
    GivenBack,
    Granted,
    Hello,
    Message,
    Names,
    Turn,
    Waits,
    decode,
    encode,
)
from weft.model.errors import ProtocolError
from weft.train.membership.contact import Contact

SILENCE_SECONDS: Final = 0.5
REST_SECONDS: Final = 0.25  # before a server is looked for again
LONGEST_REST_SECONDS: Final = 30.0


class LeaseLine:
    """Of one part of a worker."""

    def __init__(self, contact: Contact, part: str) -> None:
        self._contact, self._part = contact, part
        self._gang = f"{contact.job}/{contact.slots.name}"  # two jobs may have one name
        self._socket: socket.socket | None = None
        self._folder = ""
        self._said = 0
        self._held: Names = ()
        self._rest_seconds = REST_SECONDS
        self._again_at = 0.0

    def ask(self, folder: str, turn: Turn, given_up: Callable[[], bool]) -> Granted | None:
        """The server's word; None if there is nobody to wait for."""
        try:
            line = self._connected(folder)
            if line is None:
                return None
            self._say(line, turn)
            granted = self._answer(line, time.monotonic() + turn.bound_seconds, given_up)
        except TimeoutError:
            self._lose(stopped=True)
            return None
        except (OSError, ProtocolError, ValueError):
            self._lose()
            return None
        self._held = turn.kinds if granted else ()
        return granted

    def give_back(self, kinds: Names) -> None:
        """What was never granted need not be given back."""
        back = tuple(kind for kind in kinds if kind in self._held)
        if self._socket is None or not back:
            return
        self._held = tuple(kind for kind in self._held if kind not in back)
        try:
            self._say(self._socket, GivenBack(back))
        except OSError:
            self._lose()

    def close(self) -> None:
        """Whatever is held is free by that."""
        self._held = ()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _answer(
        self, line: socket.socket, deadline: float, given_up: Callable[[], bool]
    ) -> Granted | None:
        while packet := line.recv(MOST_BYTES):
            answer = decode(packet, strict=False).message
            if isinstance(answer, Granted):
                self._rest_seconds = REST_SECONDS
                return answer
            if not isinstance(answer, Waits):
                raise ProtocolError(f"a lease server said {type(answer).__name__}")
            if given_up():
                self.close()
                return None
            if time.monotonic() > deadline + SILENCE_SECONDS:
                raise ProtocolError("the lease server keeps nobody's bound")
        raise OSError("the lease server has gone")

    def _connected(self, folder: str) -> socket.socket | None:
        if folder != self._folder:
            self.close()
            self._folder, self._again_at = folder, 0.0
        if self._socket is None and time.monotonic() >= self._again_at:
            self._socket = self._met(Path(folder) / SOCKET)
        return self._socket

    def _met(self, path: Path) -> socket.socket:
        line = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            line.settimeout(SILENCE_SECONDS)
            line.connect(str(path))
            self._said = 0
            self._say(line, Hello(self._part, self._contact.worker, os.getpid(), ""))
        except OSError:
            line.close()
            raise
        return line

    def _say(self, line: socket.socket, message: Message) -> None:
        self._said += 1
        line.send(encode(Envelope(self._gang, self._contact.incarnation, self._said, message)))

    def _lose(self, *, stopped: bool = False) -> None:
        """One that is gone costs nothing to look for; one that is stopped is left for longer."""
        self.close()
        self._again_at = time.monotonic() + self._rest_seconds
        if stopped:
            self._rest_seconds = min(2 * self._rest_seconds, LONGEST_REST_SECONDS)
