"""How much work something is, in calls of functions: a measure that no busy machine changes."""

import sys
from collections.abc import Callable
from types import FrameType


def calls_of(action: Callable[[], object]) -> int:
    """How many functions, in Python or in C, `action` calls until it returns or raises."""
    calls = 0

    def counted(_: FrameType, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(counted)
    try:
        action()
    finally:
        sys.setprofile(before)
    return calls
