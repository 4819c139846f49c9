"""Which tests have to do with the outside world: processes, sockets, threads.

A test shows by what it does whether it only computes: the interpreter tells of every such call.
With `WEFT_FAST=1`, as `make test` sets it, such a call ends the test, which counts as skipped then.
"""

import os
import sys
import threading
from typing import Final

import pytest

CALLS: Final = frozenset(
    {
        "os.fork",
        "os.forkpty",
        "os.posix_spawn",
        "socket.bind",
        "socket.connect",
        "subprocess.Popen",
    }
)
FAST: Final = bool(os.environ.get("WEFT_FAST"))
LEFT_OUT: Final = "it has to do with the outside world: make test-all"


class _Test:
    """Whether a test runs now; what it shares with others was begun before it."""

    under_way = False


def begin() -> None:
    _Test.under_way = True


def end() -> None:
    _Test.under_way = False


def _touch() -> None:
    if FAST and _Test.under_way:
        pytest.skip(LEFT_OUT)


def _heard(event: str, _: object) -> None:
    if event in CALLS:
        _touch()


_start = threading.Thread.start


def _started(thread: threading.Thread) -> None:
    """Python 3.11 does not tell of threads by itself."""
    _touch()
    _start(thread)


sys.addaudithook(_heard)
threading.Thread.start = _started  # type: ignore[assignment, method-assign]
