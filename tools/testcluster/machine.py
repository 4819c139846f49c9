"""One node as a machine inside this one: namespaces around a first process (see `boot`).

Killing the first process is a loss of power: the kernel ends everything in the machine at once.
What it had on disk is thrown away before the next start, so it comes back empty.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tools.testcluster.process import Process
from weft.model.errors import WorldError

CGROUPS: Final = Path("/sys/fs/cgroup")

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CGROUP: Final = "weft-nodes"
_HERE: Final = Path(__file__).parent
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.01


class Machine:
    """`disk` becomes its /var/lib and /var/log; programs write their logs to `logs`."""

    def __init__(self, name: str, disk: Path, logs: Path) -> None:
        self.name = name
        self.disk = disk
        self.logs = logs
        logs.mkdir(parents=True, exist_ok=True)
        words = [str(_HERE / "boot"), name, str(disk), sys.executable]
        self._shell = Process("bash", words, logs)
        self._programs: dict[str, Process] = {}

    def start(self) -> None:
        """With an empty disk; return when programs can be run in it."""
        if self._shell.alive:
            raise WorldError(f"{self.name} is running", hint="kill it first")
        self._empty_disk()
        self._shell.start()
        self._wait("boot", self._has_booted)

    def kill(self) -> None:
        """At once and without a word to anyone; return when the last process is gone."""
        first = self._first() if self._shell.alive else None
        if first:
            os.kill(first, signal.SIGKILL)
            self._wait("go down", lambda: not self._shell.alive)
        for process in (*self._programs.values(), self._shell):
            process.kill()
        self._programs.clear()

    def remove(self) -> None:
        """Kill it, and remove every trace of it, be it of a run before this one."""
        self.kill()
        _remove_cgroups(self.name)
        shutil.rmtree(self.disk, ignore_errors=True)

    @property
    def pid(self) -> int:
        """Of its first process, as this machine sees it."""
        first = self._first()
        if first is None:
            raise WorldError(f"{self.name} is not running", hint="start it")
        return first

    def enter(self) -> list[str]:
        """What to put before a command to run it in this machine."""
        return [str(_HERE / "enter"), self.name, str(self.pid)]

    def run(self, program: str, arguments: Sequence[str], path: Sequence[Path] = ()) -> Process:
        """Start a program in it that runs until it is killed, or the machine is.

        What it starts itself it finds in `path` first.
        """
        words = ":".join([*map(str, path), _PATH])
        inside = [*self.enter(), "env", f"PATH={words}"] if path else self.enter()
        process = Process(program, arguments, self.logs, inside=inside)
        self._programs[program] = process
        process.start()
        return process

    def kill_program(self, program: str) -> None:
        self._programs.pop(program).kill()

    def check(self) -> None:
        """Raise with the end of its log if a program has died of itself."""
        for process in self._programs.values():
            process.check()

    def call(self, command: Sequence[str], *, seconds: float = 60.0) -> str:
        """Run a command in it to its end, and return what it printed."""
        done = subprocess.run(
            [*self.enter(), *command], capture_output=True, text=True, timeout=seconds, check=False
        )
        if done.returncode:
            raise WorldError(f"{self.name}: {' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def _first(self) -> int | None:
        shell = self._shell.pid
        if shell is None:
            return None
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        return int(children[0]) if children else None

    def _has_booted(self) -> bool:
        self._shell.check()
        return (self.disk / "booted").exists()

    def _empty_disk(self) -> None:
        shutil.rmtree(self.disk, ignore_errors=True)
        for folder in ("lib", "log"):
            (self.disk / folder).mkdir(parents=True)

    def _wait(self, deed: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise WorldError(f"{self.name} did not {deed}", hint=f"see {self._shell.log}")
            time.sleep(_POLL_SECONDS)


def _remove_cgroups(name: str) -> None:
    """Each goes when the kernel has buried its last process."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    for root in CGROUPS.glob(f"*/{_CGROUP}/{name}"):
        for folder in (*sorted(root.rglob("*/"), reverse=True), root):  # the deepest first
            _remove_cgroup(folder, deadline)
        with suppress(OSError):  # another machine is there
            root.parent.rmdir()


def _remove_cgroup(folder: Path, deadline: float) -> None:
    while folder.is_dir():
        try:
            folder.rmdir()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
