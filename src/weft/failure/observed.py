"""What is observed of an end, by kind; each is told as lines, and rules do the rest.

So there is one way to decide, whatever was seen, and always a line to show for it. Who said
something matters: what a container wrote itself comes as the program's word, what its runtime says
about it as the platform's.
"""

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from weft.failure.lines import Line, Stream, lines_of, plain
from weft.model.ids import NodeId

FIRST_SIGNAL: Final = 128
MOST_ERROR_FILE_CHARS: Final = 256 * 1024
LARGEST_TIME: Final = 1e11


class Observed(Protocol):
    """Anything that can be told in lines."""

    def lines(self) -> Iterator[Line]: ...


@dataclass(frozen=True, slots=True)
class Where:
    """Time, node and rank of an observation, as far as they are known."""

    at_seconds: float | None = None
    node: NodeId | None = None
    rank: int | None = None

    def line(self, text: str, stream: Stream) -> Line:
        return Line(plain(text), stream, self.at_seconds, self.node, self.rank)


@dataclass(frozen=True, slots=True)
class Exit:
    """A process that ended; a negative code is a signal, as `subprocess` has it."""

    code: int
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        if self.code:
            number = self.code if self.code > 0 else FIRST_SIGNAL - self.code
            yield self.where.line(f"exit code {number}{_signal(number)}", Stream.PLATFORM)


@dataclass(frozen=True, slots=True)
class Container:
    """A container that ended or could not begin, as its runtime tells it.

    `message` is the runtime's; `last_words` is what the container left to be read, which its
    program may have written.
    """

    reason: str
    exit_code: int | None = None
    message: str = ""
    last_words: str = ""
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        code = "" if self.exit_code is None else f" (exit code {self.exit_code})"
        said = f": {self.message}" if self.message else ""
        yield self.where.line(f"container {self.reason}{code}{said}", Stream.PLATFORM)
        yield from Output(self.last_words, self.where).lines()


@dataclass(frozen=True, slots=True)
class NodeCondition:
    """A node that is not as it should be: NotReady, DiskPressure, or what a monitor reports."""

    condition: str
    message: str
    where: Where

    def lines(self) -> Iterator[Line]:
        said = f": {self.message}" if self.message else ""
        text = f"node {self.where.node} {self.condition}{said}"
        yield self.where.line(text, Stream.PLATFORM)


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """What a job's memory cgroup counted while it ran (`oom_kill` of `memory.events`)."""

    kills: int
    limit_gib: float | None = None
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        if self.kills > 0:
            limit = "" if self.limit_gib is None else f" at a limit of {self.limit_gib:.1f} GiB"
            processes = "1 process" if self.kills == 1 else f"{self.kills} processes"
            yield self.where.line(f"memory cgroup: {processes} killed{limit}", Stream.KERNEL)


@dataclass(frozen=True, slots=True)
class KernelLog:
    """Lines of a node's kernel from the time of the run: older ones would be taken for a cause."""

    text: str
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        return lines_of(self.text, self.where.line("", Stream.KERNEL))


@dataclass(frozen=True, slots=True)
class Output:
    """The end of what a rank printed."""

    text: str
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        return lines_of(self.text, self.where.line("", Stream.APP))


@dataclass(frozen=True, slots=True)
class ErrorFile:
    """The file in which torch keeps the exception of a worker, as it stands on disk."""

    text: str
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        message, stack, at = _told(self.text)
        where = self.where if at is None else Where(at, self.where.node, self.where.rank)
        yield from Output(stack, where).lines()
        yield from Output(message, where).lines()


@dataclass(frozen=True, slots=True)
class Hang:
    """A job without progress for longer than its limit; stacks are kept to be shown."""

    stalled_seconds: float
    limit_seconds: float
    stacks: str = ""
    where: Where = Where()

    def lines(self) -> Iterator[Line]:
        text = f"no progress for {self.stalled_seconds:.0f} s (limit {self.limit_seconds:.0f})"
        yield self.where.line(f"hang: {text}", Stream.PLATFORM)


def _signal(number: int) -> str:
    try:
        return f" ({signal.Signals(number - FIRST_SIGNAL).name})"
    except ValueError:
        return ""


def _told(text: str) -> tuple[str, str, float | None]:
    """Message, stack and time of torch's error file; a program may have written it, so anything."""
    try:
        told = json.loads(text) if len(text) <= MOST_ERROR_FILE_CHARS else None
    except (ValueError, RecursionError):
        told = None
    inner = _field(told, "message")
    if isinstance(inner, str):
        return inner, "", None
    message, extra = _field(inner, "message"), _field(inner, "extraInfo")
    stack, at = _field(extra, "py_callstack"), _field(extra, "timestamp")
    return (
        message if isinstance(message, str) else "",
        stack if isinstance(stack, str) else "",
        _seconds(at),
    )


def _field(value: Any, name: str) -> Any:  # noqa: ANN401
    return value.get(name) if isinstance(value, dict) else None


def _seconds(value: object) -> float | None:
    try:
        found = float(value) if isinstance(value, str | int | float) else None
    except (ValueError, OverflowError):
        return None
    return found if found is not None and 0.0 < found < LARGEST_TIME else None
