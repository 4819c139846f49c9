"""The connections that a process group has opened, so that they can be cut.

A machine that loses its power resets nothing: who waits for it in gloo waits until a time limit,
and neither `abort` nor `shutdown` of gloo ends that (torch 2.15). The agent knows sooner, because
head and outposts give signs of life. So the sockets that appear while a group is built are noted,
and cutting them ends every wait on that group at once, on this side and on the other. A descriptor
may have been given to something else since; the kernel's number for the socket tells.
"""

import os
import socket
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

HANDLES: Final = Path("/proc/self/fd")


class Connections:
    """What was opened inside a `with` block."""

    def __init__(self) -> None:
        self._before: frozenset[tuple[int, str]] = frozenset()
        self._opened: frozenset[tuple[int, str]] = frozenset()

    def __enter__(self) -> Self:
        self._before = _sockets()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._opened = _sockets() - self._before

    def cut(self) -> None:
        """End them for both sides; whoever waits on one is told so."""
        for handle, name in self._opened:
            with suppress(OSError):
                if os.readlink(HANDLES / str(handle)) == name:
                    _shut(handle)


def _sockets() -> frozenset[tuple[int, str]]:
    found = set()
    for handle in os.listdir(HANDLES):
        with suppress(OSError):
            name = os.readlink(HANDLES / handle)
            if name.startswith("socket:"):
                found.add((int(handle), name))
    return frozenset(found)


def _shut(handle: int) -> None:
    """Not one that listens: gloo would end the process."""
    with socket.socket(fileno=os.dup(handle)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)
