"""The job's side of a session: a shell on a terminal of its own, for the one who connects.

It runs as the user, under the agent that every job has, so the shell is bound to the job's GPUs and
ends with the job. The socket lies in a folder that only this user can enter, and the kernel is
asked who connects all the same. When the other end leaves, the shell is hung up and the job ends:
nobody holds GPUs whom nobody sees.

`python -m weft.cli.shell.session SOCKET IDLE_SECONDS`
"""

import fcntl
import os
import pty
import select
import signal
import socket
import struct
import sys
import termios
import time
from contextlib import suppress
from types import FrameType
from typing import Final

from weft.cli.shell.frames import DATA, END, NOTICE, SIZE, STATUS, WINDOW, Frames, frame
from weft.cli.shell.idleness import Idleness

CONNECT_SECONDS: Final = 60.0
SEND_SECONDS: Final = 60.0  # a terminal that takes nothing for so long has been left
LOOK_SECONDS: Final = 5.0
HANGUP_SECONDS: Final = 5.0
AT_ONCE: Final = 65_536
CREDENTIALS: Final = struct.Struct("iII")
HUNG_UP: Final = 128 + signal.SIGHUP
# A shell is no worker: what is started in it finds its devices, and no rank.
WORKERS_OWN: Final = ("PET_", "TORCHELASTIC_", "ROLE_", "GROUP_", "MASTER_", "WEFT_")
WORKERS_WORDS: Final = (
    *("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "NODE_RANK", "PYTHONUNBUFFERED"),
    "OMP_NUM_THREADS",
)
KEPT: Final = ("WEFT_JOB", "WEFT_INCARNATION_MARK", "WEFT_CHECKPOINT_PATH")


STOPPED: Final = b"the job is stopped, and the session with it"


class Stopped(Exception):
    """The job is told to stop."""


def main(path: str, idle_seconds: float) -> int:
    """Serve one session; 0 once it is over, 1 where nobody came."""
    signal.signal(signal.SIGTERM, _stop)
    connected = _awaited(path)
    if connected is None:
        print("nobody came to the session", flush=True)  # noqa: T201 - its log
        return 1
    connected.settimeout(SEND_SECONDS)
    with connected:
        child = 0
        try:
            child, terminal = pty.fork()
            if child == 0:
                _become_shell()
            Session(connected, child, terminal, idle_seconds).serve()
        except Stopped:
            _tell(connected, NOTICE, STOPPED)
        _tell(connected, END, STATUS.pack(_ended(child) if child else HUNG_UP))
    return 0


class Session:
    """Bytes both ways, until one end leaves or nobody has worked for too long."""

    def __init__(
        self, connected: socket.socket, child: int, terminal: int, idle_seconds: float
    ) -> None:
        self._connected, self._terminal = connected, terminal
        self._frames = Frames()
        self._idle = Idleness(idle_seconds, child, time.monotonic())

    def serve(self) -> None:
        ends: list[socket.socket | int] = [self._connected, self._terminal]
        pause = min(LOOK_SECONDS, self._idle.warning_seconds / 2)
        while True:
            ready = select.select(ends, [], [], pause)[0]
            if self._terminal in ready and not self._printed():
                return
            if self._connected in ready and not self._typed():
                return
            if not ready and self._given_up():
                return

    def _printed(self) -> bool:
        try:
            told = os.read(self._terminal, AT_ONCE)
        except OSError:  # the shell has ended
            return False
        self._idle.touch(time.monotonic())
        return bool(told) and _tell(self._connected, DATA, told)

    def _typed(self) -> bool:
        try:
            piece = self._connected.recv(AT_ONCE)
        except OSError:
            return False
        for kind, content in self._frames.feed(piece):
            if kind == DATA:
                self._idle.touch(time.monotonic())
                os.write(self._terminal, content)
            elif kind == WINDOW:
                rows, columns = SIZE.unpack(content)
                size = struct.pack("HHHH", rows, columns, 0, 0)
                fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        return bool(piece)

    def _given_up(self) -> bool:
        now = time.monotonic()
        self._idle.look(now)
        left = self._idle.left(now)
        if left <= 0:
            told = f"idle for {self._idle.limit_seconds:.0f} s: the session ends, its GPUs are free"
            _tell(self._connected, NOTICE, told.encode())
            return True
        if self._idle.warns(now):
            told = f"idle: the session ends in {max(left, 1):.0f} s; press a key to keep it"
            _tell(self._connected, NOTICE, told.encode())
        return False


def _awaited(path: str) -> socket.socket | None:
    """The first of our own who connects; None where nobody does in time."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(1)
        listener.settimeout(CONNECT_SECONDS)
        try:
            while True:
                connected, _ = listener.accept()
                told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
                if CREDENTIALS.unpack(told)[1] == os.geteuid():
                    return connected
                connected.close()
        except TimeoutError:
            return None
        finally:
            with suppress(OSError):
                os.unlink(path)


def _become_shell() -> None:
    shell = os.environ.get("SHELL") or "/bin/sh"
    variables = {
        name: text
        for name, text in os.environ.items()
        if name in KEPT or not (name in WORKERS_WORDS or name.startswith(WORKERS_OWN))
    }
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        os.execvpe(shell, [shell], variables)
    finally:
        os._exit(127)


def _ended(child: int) -> int:
    """The shell's status; one that does not leave is hung up, then killed."""
    for number in (0, signal.SIGHUP, signal.SIGKILL):
        with suppress(ProcessLookupError):
            if number:
                os.killpg(child, number)
        until = time.monotonic() + (HANGUP_SECONDS if number else 0.2)
        while time.monotonic() < until:
            pid, status = os.waitpid(child, os.WNOHANG)
            if pid:
                code = os.waitstatus_to_exitcode(status)
                return code if code >= 0 else 128 - code
            time.sleep(0.01)
    return HUNG_UP


def _tell(connected: socket.socket, kind: bytes, content: bytes) -> bool:
    """Whether it was taken."""
    try:
        connected.sendall(frame(kind, content))
    except OSError:
        return False
    return True


def _stop(number: int, stack: FrameType | None) -> None:
    """Once: what is told and hung up because of it is not to be interrupted by the next one."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise Stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], float(sys.argv[2])))
