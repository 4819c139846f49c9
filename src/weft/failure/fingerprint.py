"""Whether two failures are the same one: the rule, the message without its numbers, the frame.

Numbers, addresses and the last part of paths differ from run to run and from rank to rank; what is
left of a message, with the function that it came from, stays.
"""

import re
from collections.abc import Sequence
from hashlib import blake2b
from typing import Final

from weft.failure.lines import Line

MOST_CHARS: Final = 200
LOOK_BACK_LINES: Final = 40

_FRAME = re.compile(r'File "([^"]{1,300})", line \d{1,9}, in (\S{1,80})')
_VOLATILE = (
    (re.compile(r"\b0x[0-9a-fA-F]{1,32}"), "#"),
    (re.compile(r"\b[0-9a-fA-F]{8,64}(?:-[0-9a-fA-F]{4,12}){0,4}\b"), "#"),
    (re.compile(r"/[^/\s'\"]{1,200}(?=['\"\s:,)]|$)"), "/#"),
    (re.compile(r"\d[\d.,:]{0,30}"), "#"),
)


def fingerprint(rule: str, line: Line, before: Sequence[Line] = ()) -> str:
    """Sixteen digits; `before` are the lines that led up to it."""
    told = "\n".join((rule, normalised(line.text), _frame(line, before)))
    return blake2b(told.encode("utf-8", "replace"), digest_size=8).hexdigest()


def normalised(text: str) -> str:
    """A message without what differs from run to run."""
    short = text[:MOST_CHARS]
    for volatile, sign in _VOLATILE:
        short = volatile.sub(sign, short)
    return " ".join(short.split())


def _frame(line: Line, before: Sequence[Line]) -> str:
    """File and function of the innermost frame shown above it, by the same rank."""
    for one in reversed(before[-LOOK_BACK_LINES:]):
        if one.rank == line.rank and (found := _FRAME.search(one.text)):
            return f"{found[1].rpartition('/')[2]}:{found[2]}"
    return ""
