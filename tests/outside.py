"""Which tests have to do with the outside world: processes, sockets, threads.

Those can be late on a busy machine and may be tried once more; a test that only computes may not. A
test shows by what it does which kind it is: the interpreter tells of every such call. With
`WEFT_FAST=1`, as `make test` sets it, such a call ends the test, which counts as skipped then.
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
FILE: Final = "WEFT_TOUCHED_OUTSIDE"  # where failed tests of that kind are written down


class _Touched:
    """What the present test has done; whatever it shares with others was begun before it."""

    outside = False
    under_way = False


def begin() -> None:
    _Touched.outside = False
    _Touched.under_way = True


def end() -> None:
    _Touched.under_way = False


def _touch() -> None:
    _Touched.outside = True
    if FAST and _Touched.under_way:
        pytest.skip(LEFT_OUT)


def note_failure(test: str, *, shares: bool) -> None:
    """For whoever decides whether it is tried once more; `shares`: it uses a server of all."""
    path = os.environ.get(FILE)
    if path and (shares or _Touched.outside):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{test}\n")


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
