"""Lines of evidence: what a program, a kernel or a platform said, made harmless.

Whoever writes a log may write anything into it: megabytes without an end of line, sequences that
steer a terminal, and lines that look like a kernel's. So a line is cut, stripped of whatever does
not print, and carries the stream that it came from: only the kernel can speak as the kernel.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from weft.model.ids import NodeId

HEAD_CHARS: Final = 1536
TAIL_CHARS: Final = 512
CUT: Final = " … "
SHOWN_CHARS: Final = 300

_STEERING = re.compile(
    r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]{0,512}(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|\x1b[ -/]{0,8}[0-~]?"
)
# The rank in front of a line, as torchrun, srun and the agent write it.
_RANK = re.compile(r"\s{0,8}(?:\[(?:rank|default)?(\d{1,6})\]:?|(\d{1,6}):)\s")


class Stream(StrEnum):
    """Who said it."""

    APP = "app"  # the job's own processes: their owner can write whatever he likes
    KERNEL = "kernel"
    PLATFORM = "platform"  # the scheduler, the container runtime, the agent


@dataclass(frozen=True, slots=True)
class Line:
    """One line; time, node and rank where they are known."""

    text: str
    stream: Stream = Stream.APP
    at_seconds: float | None = None
    node: NodeId | None = None
    rank: int | None = None


def lines_of(text: str, like: Line) -> Iterator[Line]:
    """The lines of a text, with the origin of `like`; a rank in front of a line is that rank."""
    for raw in text.splitlines():
        body, rank = plain(raw), like.rank
        if like.stream is Stream.APP:
            body, told = unranked(body)
            rank = told if rank is None else rank
        if body:
            yield Line(body, like.stream, like.at_seconds, like.node, rank)


def unranked(line: str) -> tuple[str, int | None]:
    """A line without the rank in front of it, and the rank."""
    found = _RANK.match(line)
    if found is None:
        return line, None
    return line[found.end() :], int(found[1] or found[2])


def plain(raw: str) -> str:
    """What of a line prints: nothing that steers a terminal, nothing beyond the bound."""
    line = raw if len(raw) <= HEAD_CHARS + TAIL_CHARS else _cut(raw)
    if line.isprintable():
        return line
    line = _STEERING.sub("", line).replace("\t", " ")
    return line if line.isprintable() else "".join(filter(str.isprintable, line))


def shown(line: str) -> str:
    """What people get to see of it."""
    text = plain(line).strip()
    return text if len(text) <= SHOWN_CHARS else text[: SHOWN_CHARS - 1] + "…"


def _cut(line: str) -> str:
    """Its beginning and its end: messages stand at one of them."""
    return line[:HEAD_CHARS] + CUT + line[-TAIL_CHARS:]
