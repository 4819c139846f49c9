"""One program of the control plane as a child that cannot outlive its parent.

A test run may be killed at any moment, and an API server left behind would eat a core for ever: so
the kernel is asked (by setpriv) to kill the child with the thread that started it. The child has a
session of its own, so that Ctrl-C reaches the tests first.
"""

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.testcluster.binaries import find
from weft.model.errors import WorldError

_TAIL_LINES = 20


class Process:
    """A named program with its arguments; its output goes to `<name>.log` in the folder."""

    def __init__(
        self, name: str, arguments: Sequence[str], folder: Path, *, inside: Sequence[str] = ()
    ) -> None:
        """`inside` is a command before the command, which takes it to another machine."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._command = [*inside, str(find(name)), *arguments]
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                [str(find("setpriv")), "--pdeathsig", "KILL", "--", *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    @property
    def alive(self) -> bool:
        return self._child is not None and self._child.poll() is None

    def check(self) -> None:
        """Raise with the end of its log if the program is not running."""
        if self.alive:
            return
        code = self._child.returncode if self._child else None
        tail = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        raise WorldError(
            f"{self.name} is not running (exit {code}):\n" + "\n".join(tail),
            hint=f"the whole log is {self.log}",
        )

    def send(self, number: signal.Signals) -> None:
        self.check()
        if self._child:
            self._child.send_signal(number)

    def freeze(self) -> None:
        """Until its last thread stands still, which is later than the signal."""
        self.send(signal.SIGSTOP)
        if self._child:
            os.waitid(os.P_PID, self._child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def kill(self) -> None:
        """End it at once: what it holds is thrown away with the control plane."""
        if self._child:
            self._child.kill()
            self._child.wait()
            self._child = None
