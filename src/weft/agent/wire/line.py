"""One connection between two parts of a job: messages in their order, in both directions.

What belongs to another job or to another start of it, or comes out of order, is dropped and told
to whoever counts.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from weft.agent.messages import Envelope, Message, decode, encode


def _uncounted(why: str) -> None:
    """Nobody counts what is dropped here."""


class Line:
    """A stream that speaks in messages."""

    def __init__(
        self,
        job: str,
        incarnation: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        drop: Callable[[str], None] = _uncounted,
        *,
        strict: bool = True,
    ) -> None:
        self.job, self.incarnation = job, incarnation
        self._reader, self._writer, self._drop = reader, writer, drop
        self._strict = strict
        self._heard = self._said = 0

    async def hear(self) -> Message | None:
        """The next message that counts; None when the other side has gone, however it went."""
        while raw := await self._line():
            envelope = decode(raw, strict=self._strict)
            why = self._stale(envelope)
            if not why:
                self._heard = envelope.seq
                return envelope.message
            self._drop(why)
        return None

    async def _line(self) -> bytes:
        try:
            return await self._reader.readline()
        except OSError:
            return b""

    def say(self, message: Message) -> None:
        if self._writer.is_closing():
            return
        self._said += 1
        self._writer.write(encode(Envelope(self.job, self.incarnation, self._said, message)))

    def close(self) -> None:
        self._writer.close()

    async def said_all(self) -> None:
        """Close when everything that was said is on its way."""
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    def _stale(self, envelope: Envelope) -> str:
        if envelope.job != self.job:
            return "job"
        if envelope.incarnation != self.incarnation:
            return "incarnation"
        return "" if envelope.seq > self._heard else "seq"
