"""Operators that begin at once: forked from a process that has imported all that they import.

A test of a crash starts two operators, and each would spend seconds of a small machine on imports.
What runs is the same command line, in a process of its own that can be killed by any signal.
"""

import os
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import get_context, set_forkserver_preload
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.kube.newer_version import become_newer
from weft import crash
from weft.cli.main import main

PRELOADED = [__name__, "weft.cli.operator.command", "weft.kube.operator.main"]


def started(arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> "WarmOperator":
    """`weft ARGUMENT...`, with that environment alone, and all that it says in the log."""
    set_forkserver_preload(PRELOADED)
    process = get_context("forkserver").Process(
        target=_run, args=(list(arguments), dict(environment), str(log)), daemon=True
    )
    process.start()
    return WarmOperator(process)


class WarmOperator:
    """What tests need of `subprocess.Popen`."""

    def __init__(self, process: ForkServerProcess) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, seconds: float) -> int:
        self._process.join(seconds)
        status = self._process.exitcode
        if status is None:
            raise TimeoutError(f"the operator runs on after {seconds:g} s")
        return status

    def send_signal(self, number: signal.Signals) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(arguments: list[str], environment: dict[str, str], log: str) -> None:
    os.environ.clear()
    os.environ.update(environment)
    said = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(said, sys.stdout.fileno())
    os.dup2(said, sys.stderr.fileno())
    if environment.get("WEFT_TEST_NEWER"):
        become_newer()
    crash._PLAN.__init__(environment.get("WEFT_CRASH", ""))  # type: ignore[misc]
    main(arguments)
