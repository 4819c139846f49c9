"""What a launched job shows: its workers' output, a line that tells how far it is, and its end.

Output and errors of the workers stay apart, as they do under torchrun, and come out line by line; a
line that is left open, as progress bars leave theirs, comes out after a moment. When one of several
workers fails, the others often fail of it a moment later, and may even be the first to end; so what
follows the word `Traceback` is held back. If the job fails, the one that was begun first is shown,
once, with its rank. A traceback that its worker survives is shown after a few seconds.
"""

import os
import re
import select
import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from weft.agent.workers.output import Outlet

STDOUT, STDERR = 1, 2
BLOCK_BYTES: Final = 64 * 1024
OPEN_LINE_SECONDS: Final = 0.1
HELD_SECONDS: Final = 3.0
LAST_WORDS_SECONDS: Final = 1.0
MOST_HELD_BYTES: Final = 256 * 1024
LAST_LINES: Final = 20
TRACEBACK: Final = re.compile(  # what has no correct syntax has no stack either
    rb"(?:\[rank\d+\]:\s*)?Traceback \(most recent call last\)|  File \".*\", line \d+$"
)
INTERRUPTED: Final = re.compile(rb"^(?:\[rank\d+\]:\s*)?KeyboardInterrupt\s*\Z", re.MULTILINE)
CLEAR_LINE: Final = b"\r\x1b[K"


@dataclass(frozen=True, slots=True)
class Source:
    """One of the two streams of a worker."""

    worker: int
    rank: int
    handle: int


@dataclass(slots=True)
class Held:
    """What a worker has said since it began to tell of an error."""

    source: Source
    since: float
    text: bytearray = field(default_factory=bytearray)

    @property
    def interrupted(self) -> bool:
        """Whether it is no error but Ctrl-C, which whoever sits here knows of."""
        return INTERRUPTED.search(self.text) is not None


class Screen:
    """Everything that a launch prints goes through here.

    `shows` tells whether a worker's output is wanted, `marks` whether each line begins with the
    rank, and `live` whether somebody sees the last line being redrawn.
    """

    def __init__(self, shows: Callable[[int], bool], *, marks: bool, live: bool) -> None:
        self.several = False
        self._shows, self._marks, self._live = shows, marks, live
        self._held: dict[int, Held] = {}
        self._open: Source | None = None
        self._over = False
        self._line = b""
        self._lock = threading.Lock()

    def outlet(self, worker: int, rank: int, log: Path) -> Outlet:
        """Two pipes, for output and for errors."""
        handles, copied = [], []
        for handle in (STDOUT, STDERR):
            reading, writing = os.pipe()
            copied.append(
                Copying(os.fdopen(reading, "rb"), log, self, Source(worker, rank, handle))
            )
            handles.append(writing)
        return Outlet(handles[0], handles[1], tuple(copied))

    def write(self, source: Source, data: bytes) -> None:
        """Whole lines, or the beginning of one that is left open."""
        with self._lock:
            if self._over:
                return
            shown = data if source.handle == STDOUT else self._not_held(source, data)
            if shown and self._shows(source.worker):
                self._print(source, shown)

    def say(self, text: str) -> None:
        """A line of our own, on standard error."""
        with self._lock:
            self._close_line()
            self._put(STDERR, f"weft: {text}\n".encode())

    def draw(self, line: str) -> None:
        """The line below all others; not while a worker has left its own one open."""
        with self._lock:
            self._line = line.encode()
            if self._live and self._open is None:
                self._redraw()

    def release(self) -> None:
        """What was held back so long that its worker must have survived it."""
        with self._lock:
            now = time.monotonic()
            for worker, held in list(self._held.items()):
                if now - held.since >= HELD_SECONDS:
                    self._show(self._held.pop(worker))

    def forget(self, worker: int) -> None:
        """It has ended as it should: what it said was no error of the job's."""
        with self._lock:
            held = self._held.pop(worker, None)
            if held is not None:
                self._show(held)

    def blame(self, worker: int, rank: int, log: Path) -> Source:
        """Show why the job has failed, which that worker's end has told; gives who is to blame."""
        with self._lock:
            self._over = True
            first = min(self._held.values(), key=lambda held: held.since, default=None)
            self._held.clear()
            if first is None:
                first = Held(Source(worker, rank, STDERR), 0.0)
                if not self._shows(worker):
                    first.text += _last_lines(log)
            if first.text:
                self._close_line()
                self._print(first.source, bytes(first.text), marked=self.several)
            return first.source

    def close(self) -> None:
        """The last line stays."""
        with self._lock:
            for held in self._held.values():
                self._show(held)
            self._held.clear()
            self._close_line()
            if self._live and self._line:
                self._put(STDERR, self._line + b"\n")
            self._line = b""

    def _not_held(self, source: Source, data: bytes) -> bytes:
        """What may be shown at once."""
        if not self.several:
            return data
        shown = bytearray()
        for line in data.splitlines(keepends=True):
            if source.worker not in self._held and TRACEBACK.match(line):
                self._held[source.worker] = Held(source, time.monotonic())
            held = self._held.get(source.worker)
            if held is None:
                shown += line
            elif len(held.text) < MOST_HELD_BYTES:
                held.text += line
        return bytes(shown)

    def _show(self, held: Held) -> None:
        if self._shows(held.source.worker) and not held.interrupted:
            self._print(held.source, bytes(held.text), marked=self.several)

    def _print(self, source: Source, data: bytes, *, marked: bool = False) -> None:
        fresh = self._open is None
        if self._marks or marked:
            if self._open not in (None, source):
                self._close_line()
                fresh = True
            data = _marked(data, source.rank, fresh=fresh)
        if self._live and fresh and self._line:
            self._put(STDERR, CLEAR_LINE)
        self._put(source.handle, data)
        self._open = None if data.endswith(b"\n") else source
        if self._live and self._open is None:
            self._redraw()

    def _close_line(self) -> None:
        """Not in output that goes into a file: there it is the script's alone."""
        if self._open is not None:
            if self._live or self._open.handle == STDERR:
                self._put(self._open.handle, b"\n")
            self._open = None
        elif self._live and self._line:
            self._put(STDERR, CLEAR_LINE)

    def _redraw(self) -> None:
        if self._line:
            columns = shutil.get_terminal_size().columns
            self._put(STDERR, CLEAR_LINE + self._line[: max(columns - 1, 1)])

    @staticmethod
    def _put(handle: int, data: bytes) -> None:
        """A job goes on when nobody reads its output any more."""
        with suppress(OSError):
            while data:
                data = data[os.write(handle, data) :]


class Copying:
    """A stream on its way to its file and to the screen, in a thread of its own."""

    def __init__(self, stream: IO[bytes], log: Path, screen: Screen, source: Source) -> None:
        self._stream, self._log, self._screen, self._source = stream, log, screen, source
        self._thread = threading.Thread(target=self._copy, name="weft-output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """What a worker that has ended still said; not what outlives it keeps open."""
        self._thread.join(LAST_WORDS_SECONDS)

    def _copy(self) -> None:
        rest = b""
        handle = self._stream.fileno()
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        with self._log.open("ab", buffering=0) as log, self._stream:
            while True:
                if rest and not poll.poll(OPEN_LINE_SECONDS * 1000):
                    self._screen.write(self._source, rest)
                    rest = b""
                block = os.read(handle, BLOCK_BYTES)
                if not block:
                    break
                log.write(block)
                rest += block
                whole = rest.rfind(b"\n") + 1
                if whole:
                    self._screen.write(self._source, rest[:whole])
                    rest = rest[whole:]
        if rest:
            self._screen.write(self._source, rest)


def _marked(data: bytes, rank: int, *, fresh: bool) -> bytes:
    mark = b"[%d] " % rank
    lines = data.splitlines(keepends=True)
    return b"".join(line if at == 0 and not fresh else mark + line for at, line in enumerate(lines))


def _last_lines(log: Path) -> bytes:
    try:
        lines = log.read_bytes()[-MOST_HELD_BYTES:].splitlines(keepends=True)
    except OSError:
        return b""
    begun = [at for at, line in enumerate(lines) if TRACEBACK.match(line)]
    return b"".join(lines[begun[-1] :] if begun else lines[-LAST_LINES:])
