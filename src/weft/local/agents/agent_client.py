"""Speaking with an agent, as whoever it works for.

The folder is the owner's to fill, so nothing in it is trusted further than the owner is: the card
and the key are read as plain files of the owner's, and whoever listens at the socket must run under
the owner's account. A key that was replaced by a link to a secret of root's is not sent anywhere.
"""

import asyncio
import json
import os
import socket
import struct
from pathlib import Path
from typing import Final

from weft.agent.messages import MOST_LINE_BYTES, Answer, Hello, Message
from weft.agent.wire.line import Line
from weft.agent.wire.orders import CARD, KEY, SOCKET
from weft.local.folders import folder_of, read_file
from weft.local.record.entry import Owner
from weft.model.errors import ProtocolError, WorldError

PATIENCE_SECONDS: Final = 5.0
CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


class AgentClient:
    """A line to one agent, opened when it is first needed and again when it broke."""

    def __init__(self, job_folder: Path, epoch_folder: str, owner: Owner) -> None:
        self._job_folder, self._epoch_folder, self._owner = job_folder, epoch_folder, owner
        self._line: Line | None = None
        self._turn = asyncio.Lock()

    async def ask(self, message: Message) -> Answer:
        """Say it, and what the agent answered."""
        async with self._turn:
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    return await self._ask(message)
            except (OSError, TimeoutError, ValueError, ProtocolError) as error:
                self.close()
                raise WorldError(
                    f"the agent does not answer: {error or 'not in time'}", hint="is the job over?"
                ) from error
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    async def _ask(self, message: Message) -> Answer:
        if self._line is None:
            self._line = await self._opened()
        self._line.say(message)
        answer = await self._line.hear()
        if not isinstance(answer, Answer):
            raise ProtocolError("it closed the line")
        return answer

    async def _opened(self) -> Line:
        with folder_of(self._job_folder, self._epoch_folder) as folder:
            card = _card(read_file(folder, CARD, self._owner))
            key = read_file(folder, KEY, self._owner).decode("ascii")
            connected = await _connected(f"/proc/self/fd/{folder}/{SOCKET}", self._owner)
        reader, writer = await asyncio.open_unix_connection(sock=connected, limit=MOST_LINE_BYTES)
        line = Line(card[0], card[1], reader, writer, strict=False)
        line.say(Hello("driver", -1, os.getpid(), key))
        return line


def _card(raw: bytes) -> tuple[str, int]:
    try:
        card = json.loads(raw or b"{}")
    except RecursionError as error:
        raise ValueError("this is no card") from error
    if not isinstance(card, dict):
        raise ValueError("this is no card")
    job, incarnation = card.get("job"), card.get("incarnation")
    if not isinstance(job, str) or not isinstance(incarnation, int):
        raise ValueError("there is no card yet")
    return job, incarnation


async def _connected(path: str, owner: Owner) -> socket.socket:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setblocking(False)
        await asyncio.get_running_loop().sock_connect(door, path)
        raw = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        if CREDENTIALS.unpack(raw)[1] != owner.uid:
            raise ValueError(f"somebody other than {owner.user} listens there")
    except BaseException:
        door.close()
        raise
    return door
