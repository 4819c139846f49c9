"""HTTP over a Unix socket with the standard library, so that a command starts at once."""

import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from weft.api.errors import NoAnswer, told
from weft.api.peer import Peer, peer_of

PATIENCE_SECONDS: Final = 20.0
SILENCE_SECONDS: Final = 35.0  # of a stream, which is to break its silence every ten
CROWD_SECONDS: Final = 5.0
CROWD_PAUSE_SECONDS: Final = 0.02
MOST_LINE_BYTES: Final = 16 * 1024**2
PIECE_BYTES: Final = 256 * 1024
REFUSED: Final = 400

START: Final = "weft local up starts a world on this machine"
Json = Any  # what `json` reads
Query = Mapping[str, object]


class UnixConnection(HTTPConnection):
    """To the socket at that path."""

    def __init__(self, path: Path, *, timeout_seconds: float) -> None:
        super().__init__("localhost", timeout=timeout_seconds)
        self.path = path
        self.raw: socket.socket | None = None

    def connect(self) -> None:
        """While too many others wait at the door, it is tried again and again."""
        self.raw = self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        until = time.monotonic() + CROWD_SECONDS
        while True:
            try:
                return self.sock.connect(str(self.path))
            except OSError as error:
                if isinstance(error, BlockingIOError) and time.monotonic() < until:
                    time.sleep(CROWD_PAUSE_SECONDS)
                    continue
                self.sock.close()
                raise _unheard(self.path, error) from error


class Lines:
    """The lines of an answer that goes on. It may be closed from another thread."""

    def __init__(self, connection: UnixConnection, response: HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self._reading = threading.Lock()

    def __iter__(self) -> Iterator[bytes]:
        """Whole lines without their ends; they never end, but break off, which is an error."""
        rest = b""
        while True:
            *lines, rest = (rest + self._piece()).split(b"\n")
            yield from lines
            if len(rest) > MOST_LINE_BYTES:
                raise _broken("a line of it has no end")

    def _piece(self) -> bytes:
        try:
            with self._reading:
                piece = self._response.read1(PIECE_BYTES)
        except TimeoutError as error:
            raise _broken(f"nothing was heard for {SILENCE_SECONDS:.0f} s") from error
        except (OSError, HTTPException, ValueError) as error:
            raise _broken(repr(error)) from error
        if not piece:
            raise _broken("it broke off")
        return piece

    def close(self) -> None:
        """The server hears of it, and so does whoever reads; only then it is taken apart."""
        if self._connection.raw is not None:
            with suppress(OSError):
                self._connection.raw.shutdown(socket.SHUT_RDWR)
        with self._reading:
            self._connection.close()


def ask(
    path: Path, method: str, target: str, *, query: Query | None = None, body: object = None
) -> Json:
    """What the server answers, as plain values; a refusal is raised."""
    connection, response = _sent(
        path, method, target, query=query, body=body, timeout_seconds=PATIENCE_SECONDS
    )
    try:
        return _read(response)
    finally:
        connection.close()


def follow(path: Path, target: str, *, query: Query | None = None) -> Lines:
    """The lines of an answer that goes on; a refusal is raised."""
    connection, response = _sent(path, "GET", target, query=query, timeout_seconds=SILENCE_SECONDS)
    if response.status < REFUSED:
        return Lines(connection, response)
    try:
        _read(response)
    finally:
        connection.close()
    raise NoAnswer(f"{path} answered with status {response.status}")


def server_of(path: Path) -> Peer:
    """The process that listens there."""
    connection = UnixConnection(path, timeout_seconds=PATIENCE_SECONDS)
    connection.connect()
    try:
        found = peer_of(connection.sock)
    finally:
        connection.close()
    assert found is not None  # it is a Unix socket
    return found


def _sent(
    path: Path,
    method: str,
    target: str,
    *,
    query: Query | None,
    body: object = None,
    timeout_seconds: float,
) -> tuple[UnixConnection, HTTPResponse]:
    connection = UnixConnection(path, timeout_seconds=timeout_seconds)
    words = urlencode({name: each for name, each in (query or {}).items() if each}, doseq=True)
    sent = None if body is None else json.dumps(body).encode()
    headers = {} if sent is None else {"Content-Type": "application/json"}
    try:
        connection.connect()
        with suppress(BrokenPipeError):  # it may have answered before it had heard everything
            connection.request(method, f"{target}?{words}" if words else target, sent, headers)
        return connection, connection.getresponse()
    except TimeoutError as error:
        connection.close()
        raise NoAnswer(
            f"no answer from {path} within {timeout_seconds:.0f} s",
            hint="weft local status tells how it is",
        ) from error
    except (OSError, HTTPException) as error:
        connection.close()
        raise _broken(repr(error)) from error


def _read(response: HTTPResponse) -> Json:
    try:
        body = response.read()
    except (OSError, HTTPException) as error:
        raise _broken(repr(error)) from error
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {"error": body[:200].decode(errors="replace").strip()}
        raise told(answer, status=response.status) from None
    if response.status >= REFUSED:
        raise told(answer if isinstance(answer, dict) else {}, status=response.status)
    return answer


def _unheard(path: Path, error: OSError) -> NoAnswer:
    if isinstance(error, PermissionError):
        hint = "ask to be put into the group that the socket belongs to"
        return NoAnswer(f"you may not speak to {path}", hint=hint)
    return NoAnswer(f"nobody answers at {path}: {error.strerror or error}", hint=START)


def _broken(why: str) -> NoAnswer:
    return NoAnswer(f"the answer could not be read: {why}", hint="is the world still up? try again")
