"""The connections that a process group has opened, so that they can be cut.

A machine that loses its power resets nothing: who waits for it in gloo waits until a time limit,
and neither `abort` nor `shutdown` of gloo ends that (torch 2.15). The agent knows sooner, because
head and followers give signs of life. So the sockets that appear while a group is built are noted,
and cutting them ends every wait on that group at once, on this side and on the other.

The script opens connections of its own meanwhile, to its data or its tracker, and those are none of
ours. Members tell each other through the store at which address they listen, and no two sockets of
a machine share one: a connection is the group's own if one of its ends is such an address. Which
descriptor it has may change hands later; the kernel's number for the socket tells.
"""

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

HANDLES: Final = Path("/proc/self/fd")


class Connections:
    """What was opened inside a `with` block, by whomever; `keep` leaves those of the group."""

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

    def keep(self, told: Sequence[bytes]) -> None:
        """Only those with an end at an address that is in what the members have told."""
        self._opened = frozenset(one for one in self._opened if _ends_in(one[0], told))

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


def _ends_in(handle: int, told: Sequence[bytes]) -> bool:
    """Whether this connection begins or ends at one of the addresses that were told."""
    try:
        with socket.socket(fileno=os.dup(handle)) as connection:
            ends = [connection.getsockname(), connection.getpeername()]
            raw = [_as_the_kernel_has_it(connection.family, *end[:2]) for end in ends]
    except (OSError, TypeError):  # it has gone, listens only, or is of another kind
        return False
    return any(end in text for end in raw for text in told)


def _as_the_kernel_has_it(family: int, host: str, port: int) -> bytes:
    """The bytes in which gloo tells an address: the port, then the host."""
    between = bytes(4) if family == socket.AF_INET6 else b""
    return port.to_bytes(2, "big") + between + socket.inet_pton(family, host.partition("%")[0])


def _shut(handle: int) -> None:
    """Not one that listens: gloo would end the process."""
    with socket.socket(fileno=os.dup(handle)) as connection:
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)
