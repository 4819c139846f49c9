"""What of a log is Python's report of an exception: its beginning, what it quotes, what it raised.

The report of an exception that nobody caught is a program's last word, so it says more than what
was printed before. The lines of source that it quotes say nothing: a comment among them may speak
of any error.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.failure.lines import Line, Stream

HEADER: Final = "Traceback (most recent call last)"
_FRAME = re.compile(r'\s+File "')


@dataclass(frozen=True, slots=True)
class Tracebacks:
    """Numbers of lines; `last`, by rank, is where its last report begins."""

    quoted: set[int] = field(default_factory=set)
    raised: set[int] = field(default_factory=set)
    last: dict[int | None, int] = field(default_factory=dict)

    def goes_before(self, number: int, rank: int | None) -> bool:
        """Whether a line was merely printed, and the rank reported an exception after it."""
        return number not in self.raised and number < self.last.get(rank, -1)


def tracebacks_in(lines: Sequence[Line]) -> Tracebacks:
    """Of all ranks, whose lines may be mixed."""
    found, within = Tracebacks(), set[int | None]()
    for number, line in enumerate(lines):
        if line.stream is not Stream.APP:
            continue
        if HEADER in line.text:
            found.last[line.rank] = number
            within.add(line.rank)
        elif line.rank in within:
            _read(found, number, line, within)
    return found


def _read(found: Tracebacks, number: int, line: Line, within: set[int | None]) -> None:
    """A line of a report: a frame, what is quoted of it, or the exception, which ends it."""
    if not line.text[:1].isspace():
        found.raised.add(number)
        within.discard(line.rank)
    elif not _FRAME.match(line.text):
        found.quoted.add(number)
