"""Who asks, as the kernel says: the credentials that a Unix socket's other end connected with.

Nothing that a request carries can change them, so there is no password and no token. They are those
of the moment of connecting; a process that hands its connection on hands its rights on.
"""

import pwd
import socket
import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, Protocol

from weft.api.backend import Identity
from weft.api.errors import Forbidden

CREDENTIALS: Final = struct.Struct("iII")  # struct ucred of unix(7)

# What the kernel says of a user whom this machine's user namespace does not know. Many people
# would share this name, and each other's jobs.
OVERFLOW_UID: Final = 65_534


class Connected(Protocol):
    """A socket, or asyncio's view of one."""

    @property
    def family(self) -> int: ...

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Peer:
    """The process at the other end."""

    pid: int
    uid: int
    gid: int


def peer_of(connected: Connected) -> Peer | None:
    """The other end's credentials; None for a socket of another kind."""
    if connected.family != socket.AF_UNIX:
        return None
    told = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    return Peer(*CREDENTIALS.unpack(told))


def identity_of(peer: Peer, admins: Collection[int]) -> Identity:
    """The user behind a peer."""
    if peer.uid == OVERFLOW_UID:
        raise Forbidden(
            "you are nobody here: the kernel cannot tell which user you are",
            hint="ask from outside the container, or map your user into it",
        )
    return Identity(peer.uid, user_name(peer.uid), peer.uid in admins)


def user_name(uid: int) -> str:
    """The user's name; one that has none goes by the number."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
