"""One authenticated connection to the agent, as a blocking socket that speaks in messages."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress

from weft.agent.messages import Envelope, Hello, Message, decode, encode
from weft.model.errors import WorldError
from weft.train.membership.contact import Contact


class Wire:
    """Messages out from any thread, messages in to one."""

    def __init__(self, contact: Contact, role: str) -> None:
        self._contact = contact
        self._socket = _connected(contact.address)
        self._reader = self._socket.makefile("rb")
        self._lock = threading.Lock()
        self._said = self._heard = 0
        self.say(Hello(role, contact.worker, os.getpid(), contact.key))

    def say(self, message: Message) -> None:
        with self._lock:
            self._said += 1
            line = encode(
                Envelope(self._contact.job, self._contact.incarnation, self._said, message)
            )
            try:
                self._socket.sendall(line)
            except OSError as error:
                raise WorldError(f"the agent is gone: {error}") from error

    def hear(self) -> Iterator[Message]:
        """Everything that comes, until the agent is gone."""
        while (message := self.next()) is not None:
            yield message

    def next(self) -> Message | None:
        """The next message that counts; None when the agent has gone."""
        while line := self._line():
            envelope = decode(line, strict=False)
            if envelope.seq > self._heard and envelope.incarnation == self._contact.incarnation:
                self._heard = envelope.seq
                return envelope.message
        return None

    def close(self) -> None:
        self._socket.close()

    def cut(self) -> None:
        """From any thread: whoever listens here hears the end."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _line(self) -> bytes:
        try:
            return self._reader.readline()
        except (OSError, ValueError):
            return b""


def _connected(address: str) -> socket.socket:
    host, separator, port = address.rpartition(":")
    try:
        if separator and port.isdigit():
            return socket.create_connection((host.strip("[]"), int(port)), timeout=None)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(address)
    except OSError as error:
        raise WorldError(
            f"no agent answers at {address}: {error}",
            hint="unset WEFT_SOCKET to run without one",
        ) from error
    return connection
