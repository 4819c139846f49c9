"""Samples of a stream from the worker that reads it to those that do not.

The reader listens, and whoever needs a share asks for it by its positions: so it does not matter in
which order, how often or by how many they are asked for, and a share can be asked for ahead of the
training. Nothing is given to one who does not know the job's key.
"""

import hmac
import os
import socket
import struct
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from weft.crash import passing
from weft.model.errors import WorldError
from weft.train.data.batch_code import packed, unpacked
from weft.train.data.loader_processes import Read
from weft.train.data.split import Share

CONNECT_SECONDS: Final = 10.0
NONCE_BYTES: Final = 32
_ASKED: Final = struct.Struct("<qqq")  # the loop, and the first position and that beyond the last
_SIZES: Final = struct.Struct("<QQ")  # of the description and of the elements


class Gone(WorldError):
    """The worker that reads the stream does not answer."""


class ReaderFailed(RuntimeError):
    """What the stream has raised where it is read, told in another worker."""


class SampleGiver:
    """Listens where the stream is read; one thread for each that asks."""

    def __init__(self, host: str, key: str, read: Callable[[int, Share], Read]) -> None:
        self._key, self._read = key.encode(), read
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listening = socket.create_server((host, 0), family=family)
        self.address: str = f"{host}:{self._listening.getsockname()[1]}"
        self._connected: set[socket.socket] = set()
        threading.Thread(target=self._accept, name="weft-samples", daemon=True).start()

    def close(self) -> None:
        for one in (self._listening, *self._connected):
            _shut(one)

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                asker, _ = self._listening.accept()
                asker.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._connected.add(asker)
                threading.Thread(
                    target=self._serve, args=(asker,), name="weft-samples", daemon=True
                ).start()

    def _serve(self, asker: socket.socket) -> None:
        try:
            nonce = os.urandom(NONCE_BYTES)
            asker.sendall(nonce)
            if hmac.compare_digest(_exactly(asker, NONCE_BYTES), _answer(self._key, nonce)):
                while True:
                    loop, start, stop = _ASKED.unpack(_exactly(asker, _ASKED.size))
                    self._give(asker, loop, Share(start, stop, last=False))
        except (OSError, WorldError):
            pass  # it has gone, or has found another reader
        finally:
            self._connected.discard(asker)
            asker.close()

    def _give(self, asker: socket.socket, loop: int, share: Share) -> None:
        try:
            read = self._read(loop, share)
        except WorldError:
            raise
        except Exception as error:
            head, body = packed(None, error=f"{type(error).__name__}: {error}"[:2000])
        else:
            head, body = packed(read.data, ids=list(read.ids), mark=read.mark)
        passing("samples-given")
        asker.sendall(_SIZES.pack(len(head), len(body)) + head)
        asker.sendall(body)


class SampleAsker:
    """Asks one reader; it connects when it is first asked for something itself."""

    def __init__(self, find: Callable[[], str], key: str, loop: int) -> None:
        self._find, self._key, self._loop = find, key.encode(), loop
        self._socket: socket.socket | None = None
        self._closed = False

    def read(self, share: Share) -> Read:
        """Called by the loader's thread."""
        try:
            connection = self._socket or self._connected()
            connection.sendall(_ASKED.pack(self._loop, share.start, share.stop))
            head_bytes, body_bytes = _SIZES.unpack(_exactly(connection, _SIZES.size))
            head = bytes(_exactly(connection, head_bytes))
            data, told = unpacked(head, _exactly(connection, body_bytes))
        except (OSError, WorldError) as error:
            self.close()
            raise Gone(f"the worker that reads the stream does not answer: {error}") from error
        if "error" in told:
            raise ReaderFailed(f"in the worker that reads the stream: {told['error']}")
        return Read(tuple(told["ids"]), data, 0.0, told.get("mark"))

    def close(self) -> None:
        """From any thread: whoever waits for an answer waits no longer."""
        self._closed = True
        if self._socket is not None:
            _shut(self._socket)

    def _connected(self) -> socket.socket:
        host, _, port = self._find().rpartition(":")
        connection = socket.create_connection((host, int(port)), CONNECT_SECONDS)
        connection.settimeout(None)
        self._socket = connection
        if self._closed:  # before there was anything to close
            self.close()
            raise Gone("the epoch is over")
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(_answer(self._key, bytes(_exactly(connection, NONCE_BYTES))))
        return connection


def _exactly(connection: socket.socket, size: int) -> bytearray:
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        got = connection.recv_into(view[at:])
        if not got:
            raise Gone("the connection has ended")
        at += got
    return found


def _answer(key: bytes, nonce: bytes) -> bytes:
    return hmac.digest(key, nonce, "sha256")


def _shut(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
