"""The file of a Unix socket: who may open it, and which server it belongs to.

A file that a server left behind is no reason not to start; one that is answered is. Between looking
and binding somebody else may start too, so the whole is done under a lock beside the file, and the
lock is held for as long as the server lives.
"""

import fcntl
import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

from weft.model.errors import WorldError

BACKLOG: Final = 128
LONGEST: Final = 107  # bytes of a path in sockaddr_un
EVERYBODY, GROUP, OWNER = 0o666, 0o660, 0o600


@dataclass(slots=True)
class SocketFile:
    """A socket that listens, its file, and the lock on it."""

    path: Path
    listening: socket.socket
    lock: TextIO

    def close(self) -> None:
        """Nobody is heard any more; the file goes before the lock does."""
        with suppress(FileNotFoundError):
            self.path.unlink()
        self.listening.close()
        self.lock.close()


def listen_at(path: Path, *, mode: int, group: int | None = None) -> SocketFile:
    """A socket at that path, open to those whom `mode` names."""
    if len(os.fsencode(path)) > LONGEST:
        raise WorldError(f"{path} is too long for a socket", hint="choose a shorter --socket")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
        try:
            return SocketFile(path, _bound(path, mode, group), lock)
        except BaseException:
            lock.close()
            raise
    except OSError as error:
        raise WorldError(f"cannot listen at {path}: {error}", hint="choose another --socket") from (
            error
        )


def _locked(path: Path) -> TextIO:
    lock = path.with_name(f"{path.name}.lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise WorldError(
            f"somebody serves {path} already", hint="weft local status tells who; weft local down"
        ) from None
    return lock


def _bound(path: Path, mode: int, group: int | None) -> socket.socket:
    """Nobody can connect before the file has its mode: it listens only after."""
    with suppress(FileNotFoundError):
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listening.bind(str(path))
        if group is not None:
            os.chown(path, -1, group)
        path.chmod(mode)
        listening.listen(BACKLOG)
    except BaseException:
        listening.close()
        raise
    return listening
