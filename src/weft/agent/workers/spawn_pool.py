"""The agent's side of the zygote: workers by fork, where that is possible and safe.

A script that imports torch starts in a tenth of the time when it is forked from a process that has
imported it already (`weft.train.zygote`). Requests wait until that process says that it is ready,
and are answered one by one. If it is not usable, because torch is missing or because a library has
started threads, everything that waits is given back, to be started the plain way.
"""

import asyncio
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Final

MODULE: Final = "weft.train.zygote"
SWITCH: Final = "WEFT_ZYGOTE"  # 0: never; a number above 2: the socket of one that is there
IMPORTS_TORCH: Final = re.compile(r"^\s*(?:import|from)\s+(?:torch|weft)\b", re.MULTILINE)
PYTHON: Final = re.compile(r"python[0-9.]*")
FLAGS: Final = ("-u",)
LENGTH: Final = struct.Struct("<I")
FIRST_FREE: Final = 3
NOBODY: Final = {"WEFT_WORKER": "-1"}  # what /proc shows of it, and of all that it forks

Born = Callable[[int | None], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One worker: `born` is told its process id, or None if it has to be started otherwise.

    `prints` are the handles of its output and of its errors.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cpus: tuple[int, ...]
    prints: tuple[int, int]
    born: Born


def script_of(command: Sequence[str]) -> tuple[str, ...]:
    """The script with its arguments, if the command is one that can be forked; else nothing."""
    if not command or not PYTHON.fullmatch(PurePath(command[0]).name):
        return ()
    rest = tuple(command[1:])
    while rest and rest[0] in FLAGS:
        rest = rest[1:]
    if not rest or not rest[0].endswith(".py"):
        return ()
    try:
        text = Path(rest[0]).read_text(errors="replace")
    except OSError:
        return ()
    return rest if IMPORTS_TORCH.search(text) else ()


class SpawnPool:
    """One zygote and who waits for it."""

    def __init__(self, python: str, variables: Mapping[str, str], log: Path) -> None:
        self._ready = self._closed = False
        self._waiting: deque[Request] = deque()
        self._asked: Request | None = None
        self._received = b""
        self._process: subprocess.Popen[bytes] | None = None
        given = os.environ.get(SWITCH, "")
        if given.isdecimal() and int(given) >= FIRST_FREE:
            self._line = socket.socket(fileno=int(given))
            self._ready = True
        else:
            self._line = self._started(python, variables, log)
        self._line.setblocking(True)
        asyncio.get_running_loop().add_reader(self._line, self._readable)

    @staticmethod
    def suits(command: Sequence[str], threads: int) -> bool:
        """More threads of torch are more threads of numpy too, and those start with the import."""
        return os.environ.get(SWITCH) != "0" and threads == 1 and bool(script_of(command))

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def ask(self, request: Request) -> None:
        """Its answer comes later, or at once if there is no zygote any more."""
        if self._closed:
            request.born(None)
            return
        self._waiting.append(request)
        self._go_on()

    def close(self) -> None:
        """End the zygote; what waits is given back."""
        if self._closed:
            return
        self._closed = True
        asyncio.get_running_loop().remove_reader(self._line)
        self._line.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        left = [self._asked] if self._asked else []
        for request in [*left, *self._waiting]:
            request.born(None)

    def _started(self, python: str, variables: Mapping[str, str], log: Path) -> socket.socket:
        ours, theirs = socket.socketpair()
        with theirs, log.open("ab") as out:
            self._process = subprocess.Popen(
                [shutil.which(python) or sys.executable, "-m", MODULE, str(theirs.fileno())],
                env={**os.environ, **variables, **NOBODY},
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the agent
            )
        return ours

    def _go_on(self) -> None:
        if not self._ready or self._asked is not None or not self._waiting:
            return
        request = self._asked = self._waiting.popleft()
        body = {"argv": request.argv, "env": dict(request.env), "cpus": request.cpus}
        text = json.dumps(body).encode()
        with suppress(OSError):  # it has died, which is read next
            socket.send_fds(self._line, [LENGTH.pack(len(text))], request.prints)
            self._line.sendall(text)

    def _readable(self) -> None:
        try:
            block = self._line.recv(4096)
        except OSError:
            block = b""
        if not block:
            self.close()
            return
        self._received += block
        while (message := self._message()) is not None:
            self._heard(message)

    def _message(self) -> dict[str, object] | None:
        if len(self._received) < LENGTH.size:
            return None
        (length,) = LENGTH.unpack_from(self._received)
        end = LENGTH.size + length
        if len(self._received) < end:
            return None
        text, self._received = self._received[LENGTH.size : end], self._received[end:]
        found: dict[str, object] = json.loads(text)
        return found

    def _heard(self, message: dict[str, object]) -> None:
        pid = message.get("pid")
        if isinstance(pid, int) and self._asked is not None:
            request, self._asked = self._asked, None
            request.born(pid)
        elif message.get("ready") is True:
            self._ready = True
        else:
            self.close()
            return
        self._go_on()
