"""Whether a service answers, asked where an administrator says that it is.

Jobs name a service by what they print, and never its address: whoever can print a line could
otherwise have a daemon or an operator call on any machine. A question is a connection, or one
request whose answer is read no further than its first line; redirects are not followed. It has a
few seconds for all of it, and of each service one question is under way at a time. Of a service
without an address nothing is said, and jobs find out for themselves after a while.
"""

import asyncio
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from weft.brain.instruction import AskService

TIMEOUT_SECONDS: Final = 5.0
MOST_BYTES: Final = 1024
SERVER_ERRORS: Final = 500
TOO_MANY: Final = 429

_STATUS = re.compile(rb"HTTP/\d(?:\.\d)? (\d{3})\b")

Answered = Callable[[str, bool], None]


@dataclass(frozen=True, slots=True)
class Address:
    """Where a service is; without a path a connection is answer enough."""

    host: str
    port: int
    path: str = ""
    tls: bool = False


class Services:
    """Asks, and tells `answered` what came of it."""

    def __init__(self, addresses: Mapping[str, Address], answered: Answered) -> None:
        self._addresses, self._answered = addresses, answered
        self._asking: dict[str, asyncio.Task[None]] = {}

    def ask(self, asked: AskService) -> None:
        address = self._addresses.get(asked.service)
        if address is None or asked.service in self._asking:
            return
        asking = self._ask(asked.service, address)
        self._asking[asked.service] = asyncio.get_running_loop().create_task(asking)

    async def _ask(self, service: str, address: Address) -> None:
        try:
            self._answered(service, await answers(address))
        finally:
            self._asking.pop(service, None)

    def close(self) -> None:
        """Nobody wants to know any more."""
        for task in tuple(self._asking.values()):
            task.cancel()


async def answers(address: Address, seconds: float = TIMEOUT_SECONDS) -> bool:
    """Whether it does, within that time; an answer that refuses us is one too."""
    try:
        async with asyncio.timeout(seconds):
            return await _asked(address)
    except (OSError, EOFError, ValueError):  # TimeoutError and TLS's are among the first
        return False


async def _asked(address: Address) -> bool:
    reader, writer = await asyncio.open_connection(
        address.host,
        address.port,
        ssl=ssl.create_default_context() if address.tls else None,
        limit=MOST_BYTES,
    )
    try:
        if not address.path:
            return True
        writer.write(_request(address))
        await writer.drain()
        found = _STATUS.match(await reader.readline())
        return found is not None and _is_well(int(found[1]))
    finally:
        writer.close()


def _request(address: Address) -> bytes:
    host = f"[{address.host}]" if ":" in address.host else address.host
    fields = (f"GET {address.path} HTTP/1.1", f"Host: {host}:{address.port}", "Connection: close")
    return "".join(f"{field}\r\n" for field in (*fields, "User-Agent: weft", "")).encode("ascii")


def _is_well(status: int) -> bool:
    return status < SERVER_ERRORS and status != TOO_MANY
