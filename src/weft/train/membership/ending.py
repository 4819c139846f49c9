"""The end of a training process that was asked to leave.

Taking torch apart takes a second, in which a GPU is free and nobody may have it. So a process that
leaves at a border ends as soon as everything of the user's has been done: its `finally` blocks, and
what it has registered with `atexit` after this module was imported.
"""

import atexit
import os
import sys

_codes: list[int] = []


def end_swiftly(code: int) -> None:
    """Let the process end with this code, without taking torch apart."""
    _codes.append(code)


@atexit.register
def _end() -> None:
    if _codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_codes[-1])
