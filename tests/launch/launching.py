"""`weft launch` in a process of its own, as people start it."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Protocol

import weft as package
from tests.waiting import HANG_SECONDS, until

SOURCE = Path(package.__file__).parents[1]
ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "weft.cli.main", "launch"]


@dataclass(frozen=True)
class Ended:
    """What it has left."""

    status: int
    out: str
    err: str


def environment(**more: str) -> dict[str, str]:
    """Nothing of the tests' own agents, and no thread count that somebody has set."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("WEFT_", "OMP_", "CUDA_"))}
    return {**clean, "PYTHONPATH": f"{SOURCE}:{ROOT}", **more}


class Process(Protocol):
    """As much of `subprocess.Popen` as is needed of it."""

    returncode: int | None

    @property
    def stdout(self) -> IO[str] | None: ...
    @property
    def stderr(self) -> IO[str] | None: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, number: int, /) -> None: ...
    def kill(self) -> None: ...


Begin = Callable[[list[str], Path, dict[str, str]], Process]


def begun(words: list[str], folder: Path, env: dict[str, str]) -> "subprocess.Popen[str]":
    """In a process that imports everything anew."""
    return subprocess.Popen(
        [sys.executable, "-m", "weft.cli.main", *words],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


class Launch:
    """One that runs."""

    def __init__(self, folder: Path, *words: str | Path, begin: Begin = begun, **more: str) -> None:
        self.folder = folder
        env = environment(TMPDIR=str(folder), **more)
        self.process = begin(["launch", *map(str, words)], folder, env)
        self._texts: dict[str, str] = {}
        self._readers = [Thread(target=self._read, args=(n,)) for n in ("stdout", "stderr")]
        for reader in self._readers:
            reader.start()

    def until(self, path: Path) -> None:
        """A script has made this file."""
        until(lambda: path.exists() or self.process.poll() is not None, path.name)
        assert path.exists(), self.end()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def end(self) -> Ended:
        try:
            status = self.process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        for reader in self._readers:
            reader.join()
        return Ended(status, self._texts["stdout"], self._texts["stderr"])

    def _read(self, name: str) -> None:
        with getattr(self.process, name) as stream:
            self._texts[name] = stream.read()


def launched(folder: Path, *words: str | Path, begin: Begin = begun, **more: str) -> Ended:
    """Run it to its end."""
    return Launch(folder, *words, begin=begin, **more).end()
