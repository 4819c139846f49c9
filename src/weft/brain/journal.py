"""The journal: every event and the instructions it led to, one JSON line each.

A brain is a function of its events, so the events are the whole history: replaying them must give
the same instructions, bit for bit, on any machine and under any hash seed. The running hash over
the lines is the run's fingerprint.
"""

from collections.abc import Sequence
from hashlib import blake2b
from typing import BinaryIO

import orjson

from weft.brain.event import Event
from weft.brain.instruction import Instruction

FORMAT = "weft-journal/2"
HEADER_STYLE = orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE


class Journal:
    """Hashes every record; keeps them too if a stream is given."""

    def __init__(
        self, stream: BinaryIO | None = None, header: dict[str, object] | None = None
    ) -> None:
        self._stream = stream
        self._hash = blake2b(digest_size=16)
        self.records = 0
        if header is not None:
            self._write(orjson.dumps({"format": FORMAT, **header}, option=HEADER_STYLE))

    def record(self, event: Event, instructions: Sequence[Instruction]) -> None:
        self.records += 1
        self._write(encode(event, instructions))

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()

    def _write(self, line: bytes) -> None:
        self._hash.update(line)
        if self._stream is not None:
            self._stream.write(line)


def encode(event: Event, instructions: Sequence[Instruction]) -> bytes:
    """One line: the event's type and fields, then each instruction's."""
    return orjson.dumps(
        (type(event).__name__, event, [(i.verb, i) for i in instructions]),
        default=_in_order,
        option=orjson.OPT_APPEND_NEWLINE,
    )


def _in_order(value: object) -> list[str]:
    """A set is written in one order, whatever the hash seed."""
    if isinstance(value, frozenset):
        return sorted(value)
    raise TypeError(type(value).__name__)
