"""What workers print, to a file for each and to the agent's own output.

In a container nobody reads files: what is worth reading must come out of the first process. So a
thread for each worker copies what it prints, line by line, with the rank in front where several
share one output. A worker that prints faster than the container's log is read waits, as it would
without an agent; the agent itself never does.
"""

import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

BLOCK_BYTES: Final = 64 * 1024
MOST_LINE_BYTES: Final = 16 * 1024
LAST_WORDS_SECONDS: Final = 1.0


class Copied(Protocol):
    """A worker's output on its way; whoever started it waits for the last of it."""

    def finish(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Outlet:
    """Where one worker prints: handles to be passed to it, and closed here once it has them."""

    output: int
    errors: int
    copied: tuple[Copied, ...] = ()

    def close(self) -> None:
        for handle in {self.output, self.errors}:
            os.close(handle)

    def finish(self) -> None:
        for copied in self.copied:
            copied.finish()


class Outlets(Protocol):
    """Makes an outlet for each worker; `log` is the file that keeps all it prints."""

    def outlet(self, worker: int, rank: int, log: Path) -> Outlet: ...


class Files:
    """Outlets that lead into the file and nowhere else."""

    def outlet(self, worker: int, rank: int, log: Path) -> Outlet:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        file = os.open(log, flags, 0o644)
        return Outlet(file, file)


class Echo:
    """The agent's own output, shared by all its workers."""

    def __init__(self, file: int, *, ranks: bool) -> None:
        self._file, self._ranks = file, ranks
        self._lock = threading.Lock()

    def outlet(self, worker: int, rank: int, log: Path) -> Outlet:
        reading, writing = os.pipe()
        copying = Copying(os.fdopen(reading, "rb"), log, self, rank)
        return Outlet(writing, writing, (copying,))

    def write(self, rank: int, lines: list[bytes]) -> None:
        """Whole lines, which those of another worker do not break."""
        mark = b"[%d] " % rank if self._ranks else b""
        data = b"".join(mark + line + b"\n" for line in lines)
        with self._lock, suppress(OSError):
            while data:
                data = data[os.write(self._file, data) :]


class Copying:
    """A worker's output on its way to its file and to the echo."""

    def __init__(self, stream: IO[bytes], path: Path, echo: Echo, rank: int) -> None:
        self._stream, self._path, self._echo, self._rank = stream, path, echo, rank
        self._thread = threading.Thread(target=self._copy, name="weft-output", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """What a worker that has ended still said; not what outlives it keeps open."""
        self._thread.join(LAST_WORDS_SECONDS)

    def _copy(self) -> None:
        rest = b""
        with self._path.open("ab", buffering=0) as log, self._stream:
            while block := os.read(self._stream.fileno(), BLOCK_BYTES):
                log.write(block)
                *lines, rest = (rest + block).split(b"\n")
                if len(rest) > MOST_LINE_BYTES:  # a progress bar never ends its line
                    lines, rest = [*lines, rest], b""
                if lines:
                    self._echo.write(self._rank, lines)
        if rest:
            self._echo.write(self._rank, [rest])
