"""Jobs that share GPUs in a test: where they meet, who serves, and what their lines prove."""

import os
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.train.lines import Line
from tests.waiting import until
from weft.agent.leases.company import SOCKET
from weft.agent.leases.server import LOCK
from weft.agent.messages import Envelope, Hello, Turn, encode

Span = tuple[float, float]


def serving(folder: Path, but: int = 0) -> int:
    """The process that serves leases in this folder, once one does that is not `but`."""

    def found() -> int:
        text = (folder / LOCK).read_text() if (folder / LOCK).exists() else ""
        there = text and int(text) != but and (folder / SOCKET).exists()
        return int(text) if there else 0

    return until(found, "a process to serve leases")


def computing(lines: Iterable[Line]) -> Iterator[Span]:
    """From each forward pass that had its turn to the end of its backward pass."""
    for line in lines:
        began = None
        for stage, at in line["entered"]:
            if stage == "forward" and began is None:
                began = at
            elif stage == "comm_exposed" and began is not None:
                yield began, at
                began = None


def overlapping(one: Iterable[Span], other: Iterable[Span]) -> int:
    """How many spans of one lie beside some of the other."""
    others = list(other)
    return sum(any(a < end and begin < b for begin, end in others) for a, b in one)


def steps(lines: Iterable[Line]) -> list[int]:
    return [line["step"] for line in lines if line["stepped"]]


@contextmanager
def hog(folder: Path, gpu: int = 0, *, again: bool = False) -> Iterator[socket.socket]:
    """A member that takes a turn and never gives it back."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
        line.connect(str(folder / SOCKET))
        say = [Hello("loop", 0, os.getpid(), ""), Turn(1, (0,), (gpu,), ("gpu",), 60.0, 60.0)]
        for seq, message in enumerate(say, start=1):
            line.send(encode(Envelope("hog", 1, seq, message)))
        yield line


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)
